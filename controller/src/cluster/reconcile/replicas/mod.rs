//! What replicas tell each other of their connected Envoys: which keyring they have, how far each Gateway's are, and
//! which routes they refuse.
//!
//! - `report`: what a replica tells. Pure.
//! - `presence`: which replicas are there. Pure. `pods`: whether their pods are.
//! - `exchange`: the task that writes the report and reads the others'.

mod exchange;
mod pods;
mod presence;
mod report;

pub(crate) use exchange::{ReplicaExchange, ReplicaLease, ReplicaReports};
pub(crate) use report::{EnvoyCounts, KeyringDelivery, RefusedRoute, ReplicaReport, ReplicaView, behind, digest};
