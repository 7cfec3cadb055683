//! The keyring of a cluster: a Secret that the leader creates and rotates, and that every replica reads and seals for Envoy.
//!
//! - `content`: what the Secrets hold. Pure.
//! - `schedule`: when the next phase of a rotation begins. Pure.
//! - `state`: what is known of both Secrets, what is served of it, and what the leader is to write. Pure.
//! - `reconciler`: the task that reads, writes and tells.
//! - `file`: a keyring file in the place of all that.
//!
//! Everything that a rotation needs to go on is in the Secret, and every phase is one write of it by its `resourceVersion`. So whoever leads next
//! goes on where the last one stopped: a step is done or not, and never twice.

mod config;
mod content;
pub(crate) mod file;
mod reconciler;
mod schedule;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use config::KeyringConfig;
pub(crate) use reconciler::{Figures, Keys, Reconciler};
