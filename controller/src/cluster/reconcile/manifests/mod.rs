//! Our objects for another control plane, and for the Envoys that we keep. Only the leader writes. See
//! `design/manifests.md`.
//!
//! - `difference`: compares existing objects with the wanted ones. Pure.
//! - `reconciler`: writes them, in turns. `propagation`: the wait for filters. `results`, `complaints`: reports.
//! - `recipient`: what the objects are for.
//! - `rollout`: whether a Deployment's pods come up. `scale`: their number, where another writer decides it.
//! - `proxies`: whether proxies have the environment variables of the filter.
//! - `written`: what was written, for statuses and for rotations of the keyring.

mod complaints;
mod difference;
mod propagation;
mod proxies;
mod recipient;
mod reconciler;
mod results;
mod rollout;
mod scale;
#[cfg(test)]
mod tests;
mod written;

pub(crate) use complaints::OrphanDiagnostics;
pub(crate) use recipient::ManifestRecipient;
pub(crate) use reconciler::ManifestReconciler;
pub(crate) use results::NO_RESOURCES;
pub(crate) use written::{DesiredManifests, WrittenManifests};
