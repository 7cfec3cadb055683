//! Limits of the clients of the port of metrics, health and sessions.
//!
//! - `connections`: places and times. `turns`: expensive answers, one at a time.

mod connections;
mod turns;

pub(super) use connections::{
    ConnectionTimeouts, PortClient, PortServer, RejectedConnections, RejectionLabel, RejectionLabels,
};
pub(super) use turns::{AnswerTurns, busy};
