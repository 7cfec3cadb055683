//! A Service, owned by the `XBackend`, for each `XBackend` that selects pods, so that the cluster makes
//! `EndpointSlices` of them, as the Gateway API allows. Only the leader writes. Without the right, which is a role of
//! its own, statuses say so.
//!
//! - `wanted`: the Services that should exist. Pure.
//! - `reconciler`: writes them.

mod reconciler;
#[cfg(test)]
mod tests;
mod wanted;

pub(crate) use reconciler::{RefusedServices, ServiceReconciler};
