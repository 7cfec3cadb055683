//! A Service for each `XBackend` that selects pods, so that the cluster's own controller makes `EndpointSlices` of them: a Gateway API implementation
//! may do so, with the `XBackend` as the Service's owner. Only the leader writes.
//!
//! - `wanted`: which Services are to be there. Pure.
//! - `reconciler`: makes them so.

mod reconciler;
mod wanted;

pub(crate) use reconciler::Reconciler;
