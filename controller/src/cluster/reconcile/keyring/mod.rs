//! The keyring of a cluster: a Secret that the leader creates and rotates, and that every replica reads and seals for
//! Envoys.
//!
//! - `content`: the content of the Secrets. Pure.
//! - `schedule`: when the next phase of a rotation begins. Pure.
//! - `state`: what is known of both Secrets, which keyring is served, and what the leader writes next. Pure.
//! - `revocation`: which Envoys know of a revoked key, in the log.
//! - `reconciler`: the task that reads and writes them.
//! - `file`: a keyring file instead of Secrets.
//!
//! Everything that a rotation needs is in the Secret, and every phase is one write of it with its `resourceVersion`. So
//! a new leader continues where the last one stopped: a step is done or not, and never twice.

mod config;
mod content;
pub(crate) mod file;
mod reconciler;
mod revocation;
mod schedule;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use config::KeyringConfig;
pub(crate) use content::document;
pub(crate) use reconciler::{KeyringFigures, KeyringReconciler, PublishedKeys, unpublished};
