//! Writes statuses: the [`limpet_model::Reports`], with what only the cluster and the connected Envoys know.
//!
//! - `shape`: the form of statuses, and how our part is merged into them. Pure.
//! - `desired`: from reports to statuses. Pure.
//! - `programmed`: the condition `Programmed`, from what Envoys have acknowledged. Pure.
//! - `reconciler`: finds statuses that differ, and writes them.
//! - `writer`: reads, changes and writes back one status.
//! - `metrics`: counts the outcomes of writes.
//! - `events`: Events for what a person must act on. `diagnostic_events`: those on the controller's own objects.

mod desired;
mod diagnostic_events;
mod events;
mod metrics;
mod programmed;
mod reconciler;
mod refusals;
mod shape;
mod writer;

pub(crate) use desired::StatusFacts;
pub(crate) use diagnostic_events::DiagnosticEvents;
pub(crate) use events::EventRecorder;
pub(crate) use metrics::StatusMetrics;
pub(crate) use reconciler::{StatusInputs, StatusReconciler};
pub(crate) use shape::shortened;
