//! What a graph becomes: resources of Envoy, the same as JSON, or objects for a control plane that is there already.
//!
//! - `filter`: the filter's configuration, which all of them have in common. `used`: what of a graph one Gateway's Envoys need.
//! - `manifests`: what the outputs for control planes have in common; one folder for each of them.

mod control_plane;
pub mod envoy;
pub mod envoy_gateway;
mod filter;
pub mod istio;
pub mod json;
pub mod manifests;
mod used;

pub use control_plane::ControlPlane;
pub use filter::{FilterInputs, FilterKeys, filter_config, variables};
pub use used::used_policies;
