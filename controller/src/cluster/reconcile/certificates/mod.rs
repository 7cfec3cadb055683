//! The xDS certificates of the controller: its own authority in a Secret, this replica's certificate, and a Secret for
//! the Envoys of each Gateway. See `design/rotation.md`.
//!
//! - `sign`: makes authorities and certificates. Pure but for its keys.
//! - `content`: the Secret with the authority. `schedule`: when phases of a rotation begin. Pure.
//! - `authority`: the task of the authority and of this replica's certificate.
//! - `gateways`: the Secret of a Gateway. Pure. `secrets`: the task of these. `results`: its findings. Pure.
//! - `permission`: which Gateway a certificate is for.
//!
//! As with the keyring, the Secret has the whole state of a rotation, and a phase is one write at its
//! `resourceVersion`. The leader counts a phase's time from when the Secrets of Gateways have its change. Namespaces
//! that refuse theirs are left behind, unless they are most.

mod authority;
mod config;
mod content;
mod gateways;
mod permission;
mod results;
mod schedule;
mod secrets;
mod sign;
#[cfg(test)]
mod tests;

pub(crate) use authority::{AuthorityReconciler, KnownAuthority};
pub(crate) use config::AuthorityConfig;
pub(crate) use gateways::SecretPlacement;
pub(crate) use permission::permission;
pub(crate) use secrets::{CertificateFigures, CertificateReconciler};
