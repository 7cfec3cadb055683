//! Istio as its charts install it, with its own agent, on a genuine node; only the Envoy in its proxies is a stock one.
#![allow(clippy::indexing_slicing, reason = "a failed index is a failed test")]

mod gateway;
mod https;
mod mesh;
mod sidecars;
mod site;
