//! Costs of deletion for pods of Services that ask for them, so that a `ReplicaSet` first removes pods with the fewest
//! sessions. Only the leader writes.
//!
//! - `costs`: which pods need another cost. Pure.
//! - `reconciler`: writes it.

mod costs;
mod reconciler;
#[cfg(test)]
mod tests;

pub(crate) use costs::{PodCounts, PodSessionCount};
pub(crate) use reconciler::{DeletionCostReconciler, PodWriter};
