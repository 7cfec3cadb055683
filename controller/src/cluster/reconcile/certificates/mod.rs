//! The certificates of xDS that the controller makes: its own authority in a Secret, this replica's certificate, and a
//! Secret with a certificate for the Envoys of each Gateway.
//!
//! - `sign`: makes authorities and what they sign. Pure but for its keys.
//! - `content`: the Secret with the authority. `schedule`: when the next phase of a rotation comes. Both are pure.
//! - `gateways`: the Secret of a Gateway. Pure.
//! - `authority`: the task that reads and writes the authority, and signs this replica's certificate.
//! - `secrets`: the task that keeps the Secrets of Gateways. `results`: what that means for the authority. Pure.
//! - `permission`: which Gateway a certificate is for.
//!
//! As with the keyring, all that a rotation needs is in the Secret, and a phase is one write of it at its
//! `resourceVersion`. How long a phase has lasted is counted from the moment when the Secrets of Gateways have what it
//! is about, by the process that leads. Namespaces that refuse theirs are left behind, unless they are most.

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
