//! What replicas tell each other of the Envoys that are connected to each: which keyring all of them have, and how far those of each Gateway are.
//!
//! - `report`: what a replica says, and what the others make of it. Pure.
//! - `presence`: who is there. Pure.
//! - `exchange`: the task that says it, and hears the others.

mod exchange;
mod presence;
mod report;

pub(crate) use exchange::{Exchange, ReplicaLease, Replicas};
#[cfg(test)]
pub(crate) use report::Said;
pub(crate) use report::{Envoys, KeyringDelivery, View, behind, digest};
