//! Limpet with a real Envoy Gateway: `make e2e-envoy-gateway ENVOY_GATEWAY=<binary>`.
#![allow(clippy::indexing_slicing, reason = "a failed index is a failed test")]

mod bad_parts;
mod controlled;
mod draining;
#[path = "../control_planes/carriers.rs"]
mod elsewhere;
mod files;
mod keys;
mod removal;
mod session;
mod site;
mod splits;
