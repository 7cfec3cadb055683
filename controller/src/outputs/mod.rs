//! What a graph becomes: resources of Envoy, and the same as JSON.

pub mod json;
