//! Objects of our own in a cluster, for a control plane that reads them: written, kept as they are to be, and taken away again. Only the leader writes.
//!
//! - `difference`: what is to be done, by what is wanted and what is there. Pure.
//! - `reconciler`: does it, stage by stage.
//! - `proxies`: whether the proxies have from their environment what the filter needs.
//! - `written`: what came of it, for statuses and for rotations of the keyring.

mod difference;
mod proxies;
mod reconciler;
mod written;

pub(crate) use reconciler::Reconciler;
pub(crate) use written::{Wanted, Written};
