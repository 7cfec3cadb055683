//! The keyring of a cluster: a Secret that the leader creates and rotates, and that every replica seals for Envoys. See
//! `design/rotation.md`.
//!
//! - `content`: the Secrets' content. `schedule`: when phases of a rotation begin. `state`: both Secrets, the served
//!   keyring, and the leader's next write. Pure.
//! - `revocation`: logs which Envoys know of a revoked key.
//! - `reconciler`: the task that reads and writes them.
//! - `file`: a keyring file instead of Secrets.
//!
//! The Secret has the whole state of a rotation, and every phase is one write at its `resourceVersion`. So a new leader
//! continues where the last one stopped: a step is done or not, and never twice.

mod config;
mod content;
pub(crate) mod file;
mod reconciler;
mod revocation;
mod schedule;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use super::own_secret::ROTATE;
pub(crate) use config::KeyringConfig;
pub(crate) use content::REVOKE;
pub(crate) use content::document;
pub(crate) use reconciler::{KeyringFigures, KeyringReconciler, PublishedKeys, unpublished};
pub(crate) use state::{KeyringReading, read};
