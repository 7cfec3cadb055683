//! Fences: a pod's address that another pod has now must not bring it the first one's sessions.
//!
//! - `owners`: who has which address, as EndpointSlices tell it. Pure.
//! - `list`: the fences themselves, as they are kept and as the filter has them. Pure.
//! - `changes`: [`Fences`], what happens when an address changes hands: it is held back from Envoys until they have its fence. Pure.
//! - `reconciler`: the task that keeps the list in a ConfigMap.
//!
//! Every replica watches and holds back; what they tell Envoys is the list in the ConfigMap and nothing else, so they all tell the same. The leader
//! writes the list: all that changed within a second at once, since each change of it makes Envoy set up the filter again.

mod changes;
mod list;
mod owners;
mod reconciler;
#[cfg(test)]
mod tests;

pub(crate) use changes::{Fences, PublishedFences};
#[cfg(test)]
use list::Fence;
pub(crate) use list::List;
pub(crate) use reconciler::{CONFIG_MAP, Reconciler};
