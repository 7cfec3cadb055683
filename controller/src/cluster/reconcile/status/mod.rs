//! What became of objects, written to their status: the [`limpet_model::Reports`], with what only the cluster and the connected Envoys know.
//!
//! - `shape`: what a status is like, which part of it is ours, and how ours is put into it. Pure.
//! - `desired`: the reports as statuses, with `Programmed` by what Envoys have acknowledged. Pure.
//! - `programmed`: what Envoys acknowledge, as a condition. Pure.
//! - `reconciler`: what differs, and when to write.
//! - `writer`: reads, changes and writes back, one object at a time, and only what differs.
//! - `metrics`: how writes ended.
//! - `events`: for what a person must act on; `diagnostic_events`: those on the controller's own objects.

mod desired;
mod diagnostic_events;
mod events;
mod metrics;
mod programmed;
mod reconciler;
mod shape;
mod writer;

pub(crate) use desired::Facts;
pub(crate) use diagnostic_events::DiagnosticEvents;
pub(crate) use events::EventRecorder;
pub(crate) use metrics::StatusMetrics;
pub(crate) use reconciler::{Inputs, Reconciler};
