//! What a graph becomes: resources of Envoy, the same as JSON, or objects for a control plane that is there already.
//!
//! - `filter`: the filter's configuration, which all of them have in common. `used`: what of a graph one Gateway's Envoys need.

pub mod envoy;
mod filter;
pub mod json;
mod used;

pub use filter::{FilterInputs, FilterKeys, filter_config};
pub use used::used_policies;
