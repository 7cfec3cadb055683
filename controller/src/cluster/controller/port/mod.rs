//! The port of metrics, health and sessions: what its clients can cost.
//!
//! - `connections`: places and times. `turns`: one after another gets what takes long to make.

mod connections;
mod turns;

pub(super) use connections::{
    ConnectionTimeouts, PortClient, PortServer, RejectedConnections, RejectionLabel, RejectionLabels,
};
pub(super) use turns::{AnswerTurns, busy};
