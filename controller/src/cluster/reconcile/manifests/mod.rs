//! Our objects for another control plane: creates, corrects and deletes them. Only the leader writes.
//!
//! - `difference`: compares existing objects with the wanted ones. Pure.
//! - `reconciler`: writes them, stage by stage.
//! - `proxies`: whether proxies have the environment variables that the filter needs.
//! - `written`: what was written, for statuses and for rotations of the keyring.

mod difference;
mod proxies;
mod reconciler;
mod written;

pub(crate) use reconciler::Reconciler;
pub(crate) use written::{Wanted, Written};
