//! Our objects for another control plane, and for the Envoys that we keep: creates, corrects and deletes them. Only the
//! leader writes.
//!
//! - `difference`: compares existing objects with the wanted ones. Pure.
//! - `reconciler`: writes them, in turns. `propagation`: what waits until proxies have the filter. `results`,
//!   `complaints`: what is reported of that.
//! - `recipient`: what the objects are for.
//! - `rollout`: whether the pods of a Deployment come up.
//! - `scale`: how many pods a Deployment has, where another writer decides that.
//! - `proxies`: whether proxies have the environment variables that the filter needs.
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
