//! Fences: a pod that gets the address of a former pod must not get its sessions. See `design/fences.md`.
//!
//! - `owners`: the owners of addresses, by the routes' namespace. Pure.
//! - `list`: the fences of the ConfigMap and of the filter's configuration. Pure.
//! - `changes`: [`FenceTracker`], which holds an address with a new owner back until Envoys have its fence. Pure.
//! - `pace`: how often the list may change for a namespace. Pure.
//!
//! Every replica holds addresses back, and publishes only the ConfigMap's list, so all publish the same. The leader
//! writes the changes of a second at once, since each makes Envoy set up the filter again.

mod changes;
mod list;
mod owners;
mod pace;
#[cfg(test)]
mod tests;

pub(crate) use changes::{FenceTracker, PublishedFences};
pub(crate) use list::FenceList;
pub(crate) use owners::RoutedPort;
