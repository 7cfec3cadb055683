//! Notices that the clock was set.

use std::time::{Duration, Instant};

use limpet_core::time::Timestamp;

/// A larger difference from the time that has passed is a set clock. Slewing differs by less.
const JUMP: Duration = Duration::from_secs(5);
/// How long nothing is forgotten after that, until every Envoy has sent a full report and a momentary error is
/// corrected.
const SETTLING: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Clock {
    wall: Timestamp,
    steady: Instant,
    set_at: Option<Instant>,
}

impl Clock {
    pub(super) fn new(wall: Timestamp, steady: Instant) -> Self {
        let set = None;
        Self {
            wall,
            steady,
            set_at: set,
        }
    }

    /// `steady` cannot be set. Returns whether the clock was set since the last call.
    pub(super) fn observe(&mut self, wall: Timestamp, steady: Instant) -> bool {
        let expected = self.wall.after(steady.saturating_duration_since(self.steady));
        let was_set = wall.since(expected).max(expected.since(wall)) > JUMP;
        if was_set {
            self.set_at = Some(steady);
        }
        (self.wall, self.steady) = (wall, steady);
        was_set
    }

    pub(super) fn is_settled(&self) -> bool {
        let settling = |set| self.steady.saturating_duration_since(set) < SETTLING;
        !self.set_at.is_some_and(settling)
    }
}
