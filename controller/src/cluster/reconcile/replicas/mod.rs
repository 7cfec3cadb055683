//! Reports between replicas on their Envoys: which keyring they have, how far each Gateway's are, and which routes they
//! refuse.
//!
//! - `report`: the content. Pure.
//! - `presence`: which replicas exist. Pure. `pods`: whether their pods do.
//! - `exchange`: writes the report and reads the others'.

mod exchange;
mod pods;
mod presence;
mod report;

pub(crate) use exchange::{ReplicaExchange, ReplicaLease, ReplicaReports};
pub(crate) use report::{EnvoyCounts, KeyringDelivery, RefusedRoute, ReplicaReport, ReplicaView, behind, digest};
