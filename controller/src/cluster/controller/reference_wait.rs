//! How long builds wait for single objects: a listener's Secret, a backend's authorities.

use std::time::Duration;

use tokio::time::Instant;

/// How long a build waits at most. Then, objects that need them are reported and not served.
const WANTED: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct ReferenceWait {
    at: Instant,
    /// Whether a build waits since then.
    waits: bool,
}

impl ReferenceWait {
    pub(super) fn at(now: Instant) -> Self {
        Self { at: now, waits: true }
    }

    /// Records that other objects are asked for. A waiting build does not wait for longer: else a Gateway that names
    /// another Secret every few seconds would hold up all changes.
    pub(super) fn again(&mut self, now: Instant) {
        if !self.waits {
            *self = Self::at(now);
        }
    }

    /// All are there, or a build does without the others.
    pub(super) fn answered(&mut self) {
        self.waits = false;
    }

    pub(super) fn until(&self) -> Instant {
        self.at + WANTED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_that_asks_again_and_again_held_up_all_builds() {
        let start = Instant::now();
        let second = |second| start + Duration::from_secs(second);
        let mut asked = ReferenceWait::at(second(0));
        asked.answered();
        for at in 10..20 {
            asked.again(second(at));
            assert_eq!(asked.until(), second(13), "{at}");
        }
        asked.answered();
        asked.again(second(20));
        assert_eq!(asked.until(), second(23));
    }
}
