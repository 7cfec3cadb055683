//! A graph as Envoy resources, as JSON, or as objects for another control plane.
//!
//! - `filter`: the filter's configuration, which all outputs share. `used`: the part of a graph that the Envoys of one
//!   Gateway need. `policy_room`: the policies that their filter has room for.
//! - `envoy`, `envoys`: resources, and the Envoys themselves, for our own GatewayClass.
//! - `istio`, `envoy_gateway`: objects for these control planes. `manifests`: their common parts.

mod control_plane;
pub mod envoy;
pub mod envoy_gateway;
pub mod envoys;
mod filter;
pub mod istio;
pub mod json;
pub mod manifests;
mod policy_room;
mod used;

pub use control_plane::ControlPlane;
pub use filter::{FilterInputs, FilterKeys, RetainedConfig, filter_config, needed_variables, variables};
pub use policy_room::{MOST_BYTES, MOST_BYTES_OF_OBJECT, PolicyRoom, used_policies};
pub use used::{GatewayReferences, all_policies};

/// Counts policies and routes that this thread has looked at, for tests.
#[cfg(test)]
mod looked {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn at_one() {
        COUNT.set(COUNT.get() + 1);
    }

    /// The count since the last call.
    pub(crate) fn take() -> usize {
        COUNT.replace(0)
    }
}
