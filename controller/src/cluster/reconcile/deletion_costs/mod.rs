//! What it costs to delete a pod, written on the pods of Services that ask for it, so that a `ReplicaSet` that is
//! scaled down takes those first whose end fewest sessions notice. Only the leader writes.
//!
//! - `costs`: which pods need another cost. Pure.
//! - `reconciler`: writes and removes it.

mod costs;
mod reconciler;
#[cfg(test)]
mod tests;

pub(crate) use costs::{PodCounts, PodSessionCount};
pub(crate) use reconciler::{DeletionCostReconciler, PodWriter};
