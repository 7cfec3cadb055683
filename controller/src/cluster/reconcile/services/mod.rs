//! A Service for each `XBackend` that selects pods, so that the cluster makes `EndpointSlices` of them. The Gateway API
//! allows this, with the `XBackend` as the Service's owner. Only the leader writes. It may lack the right to, which is
//! a role of its own: then the statuses of the `XBackend`s say so.
//!
//! - `wanted`: which Services must be there. Pure.
//! - `reconciler`: creates, changes and deletes them.

mod reconciler;
#[cfg(test)]
mod tests;
mod wanted;

pub(crate) use reconciler::{RefusedServices, ServiceReconciler};
