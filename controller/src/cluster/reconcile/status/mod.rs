//! What became of objects, written to their status: the [`limpet_model::Reports`], with what only the cluster and the connected Envoys know.
//!
//! - `shape`: what a status is like, which part of it is ours, and how ours is put into it. Pure.
//! - `desired`: the reports as statuses, with `Programmed` by what Envoys have acknowledged. Pure.
//! - `programmed`: what Envoys acknowledge, as a condition. Pure.
//! - `keeper`: what differs, and when to write.
//! - `writer`: reads, changes and writes back, one object at a time, and only what differs.
//! - `metrics`: how writes ended.
//! - `events`: for what a person must act on; `kept`: those on the controller's own objects.

mod desired;
mod events;
mod keeper;
mod kept;
mod metrics;
mod programmed;
mod shape;
mod writer;

pub(crate) use desired::Facts;
pub(crate) use events::Teller;
pub(crate) use keeper::{Inputs, Keeper};
pub(crate) use kept::KeptTeller;
pub(crate) use metrics::StatusMetrics;
