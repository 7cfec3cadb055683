//! What a graph becomes: resources of Envoy, and the same as JSON.

pub mod envoy;
pub mod json;
