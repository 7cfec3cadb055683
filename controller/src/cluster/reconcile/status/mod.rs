//! Writes statuses: the [`limpet_model::Reports`], with facts of the cluster and the connected Envoys. See
//! `design/status.md`.
//!
//! - `shape`: the form of statuses, and how our part is merged into them. Pure.
//! - `desired`: from reports to statuses. `programmed`: the condition `Programmed`. Pure.
//! - `reconciler`: finds statuses that differ. `writer`: writes one. `metrics`: its outcomes.
//! - `events`: Events for a person. `diagnostic_events`: those on the controller's own objects.

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
