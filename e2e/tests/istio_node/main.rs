//! Istio as its charts install it, with its own agent, on a genuine node: the injector, the gateways, the sidecars and
//! their certificates are Istio's; the Envoy in them is a stock one.
#![allow(clippy::indexing_slicing, reason = "a failed index is a failed test")]

mod gateway;
mod https;
mod mesh;
mod sidecars;
mod site;
