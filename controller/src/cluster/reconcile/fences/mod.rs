//! Fences: a pod that gets the address of a former pod must not get its sessions.
//!
//! - `owners`: the owners of addresses, as EndpointSlices tell them to the routes of each namespace. Pure.
//! - `list`: the list of fences in the ConfigMap and in the filter's configuration. Pure.
//! - `changes`: [`FenceTracker`], which holds an address with a new owner back from Envoys until they have its fence.
//!   Pure.
//! - `pace`: how often the list may change for a namespace. Pure.
//!
//! Every replica watches addresses and holds them back. All replicas publish the list in the ConfigMap and nothing
//! else, so they publish the same. The leader writes the list: everything that changed within a second at once, since
//! each change makes Envoy set up the filter again.

mod changes;
mod list;
mod owners;
mod pace;
#[cfg(test)]
mod tests;

pub(crate) use changes::{FenceTracker, PublishedFences};
pub(crate) use list::FenceList;
pub(crate) use owners::RoutedPort;
