//! When a pod has no sessions left. Pure.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Instant;

use crate::cluster::survey::{PodRow, PodRowState};
use crate::settling::SETTLING;

/// Sessions that are left in all Services of the pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RemainingSessions {
    pub(super) sessions: u64,
    pub(super) streams: u64,
}

impl RemainingSessions {
    fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Display for RemainingSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let many = |number: u64| if number == 1 { "" } else { "s" };
        let Self { sessions, streams } = *self;
        write!(
            f,
            "{sessions} session{}, {streams} stream{}",
            many(sessions),
            many(streams)
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodDrainState {
    /// It has the annotation.
    Drains,
    /// The annotation was removed.
    Undone,
    Gone,
}

/// Controllers' counts of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodCount {
    remaining: RemainingSessions,
    /// Whether they know that it gets no new sessions.
    knows: bool,
    /// Why there may be more.
    doubts: BTreeSet<String>,
    /// The controllers, and since when each counts.
    counted_by: BTreeSet<(String, Option<String>)>,
}

impl PodCount {
    /// `rows` are the pod's. A pod without any has never had a session, unless there are gaps: `why`.
    pub(super) fn of<'a>(
        rows: impl IntoIterator<Item = &'a PodRow>,
        why: BTreeSet<String>,
        by: BTreeSet<(String, Option<String>)>,
    ) -> Self {
        let mut counted = Self {
            remaining: RemainingSessions::default(),
            knows: true,
            doubts: BTreeSet::new(),
            counted_by: by,
        };
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            counted.doubts = why;
        }
        for row in rows {
            counted.remaining.sessions = counted.remaining.sessions.saturating_add(row.sessions);
            counted.remaining.streams = counted.remaining.streams.saturating_add(row.streams);
            counted.knows &= row.state != PodRowState::Ready;
            counted.doubts.extend(row.why.iter().cloned());
        }
        counted
    }

    /// Why there may be more, in words.
    pub(super) fn doubts(&self) -> Option<String> {
        let doubts: Vec<&str> = self.doubts.iter().map(String::as_str).collect();
        (!doubts.is_empty()).then(|| doubts.join("; "))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DrainEnd {
    Empty,
    TimeIsOver,
    Undone,
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DrainStep {
    /// Look again later. Prints what is left if that has changed.
    Wait(Option<RemainingSessions>),
    End(DrainEnd),
}

#[derive(Debug)]
pub(super) struct DrainWait {
    deadline: Instant,
    /// Since when no session is seen.
    empty_since: Option<Instant>,
    /// The controllers of the last look.
    counted_by: BTreeSet<(String, Option<String>)>,
    last: Option<RemainingSessions>,
    /// Why there may have been more at the last look.
    doubts: BTreeSet<String>,
}

impl DrainWait {
    pub(super) fn until(deadline: Instant) -> Self {
        Self {
            deadline,
            empty_since: None,
            counted_by: BTreeSet::new(),
            last: None,
            doubts: BTreeSet::new(),
        }
    }

    /// Sessions left at the last look. `None`: never known.
    pub(super) fn left(&self) -> Option<RemainingSessions> {
        self.last
    }

    /// Why there may have been more at the last look; `None`: there were not.
    pub(super) fn doubts(&self) -> Option<&BTreeSet<String>> {
        Some(&self.doubts).filter(|doubts| !doubts.is_empty())
    }

    /// `counted`: `None` if no controller answers.
    pub(super) fn observe(&mut self, now: Instant, pod: PodDrainState, counted: Option<PodCount>) -> DrainStep {
        let mut news = None;
        let mut is_empty = false;
        if let Some(counted) = counted {
            let PodCount {
                remaining: left,
                knows,
                doubts,
                counted_by: by,
            } = counted;
            news = (self.last != Some(left)).then_some(left);
            self.last = Some(left);
            is_empty = knows && left.is_nothing() && doubts.is_empty();
            self.doubts = doubts;
            if by != self.counted_by {
                // One that has just started may not have reports of all Envoys yet.
                self.empty_since = None;
                self.counted_by = by;
            }
        }
        if is_empty {
            self.empty_since.get_or_insert(now);
        } else {
            // A controller that does not answer may have news.
            self.empty_since = None;
        }
        let settled = |since: Instant| now.saturating_duration_since(since) >= SETTLING;
        match pod {
            PodDrainState::Gone => DrainStep::End(DrainEnd::Gone),
            PodDrainState::Undone => DrainStep::End(DrainEnd::Undone),
            PodDrainState::Drains if self.empty_since.is_some_and(settled) => DrainStep::End(DrainEnd::Empty),
            PodDrainState::Drains if now >= self.deadline => DrainStep::End(DrainEnd::TimeIsOver),
            PodDrainState::Drains => DrainStep::Wait(news),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn counted(sessions: u64, streams: u64) -> PodCount {
        let left = RemainingSessions { sessions, streams };
        PodCount {
            remaining: left,
            knows: true,
            doubts: BTreeSet::new(),
            counted_by: BTreeSet::new(),
        }
    }

    /// A wait of a minute, by seconds since its start.
    struct Clock(Instant, DrainWait);

    impl Clock {
        fn new() -> Self {
            let start = Instant::now();
            Self(start, DrainWait::until(start + MINUTE))
        }

        fn at(&mut self, seconds: u64, counted: PodCount) -> DrainStep {
            self.1.observe(
                self.0 + Duration::from_secs(seconds),
                PodDrainState::Drains,
                Some(counted),
            )
        }

        fn without_answer_at(&mut self, seconds: u64) -> DrainStep {
            self.1
                .observe(self.0 + Duration::from_secs(seconds), PodDrainState::Drains, None)
        }
    }

    fn told(sessions: u64, streams: u64) -> DrainStep {
        DrainStep::Wait(Some(RemainingSessions { sessions, streams }))
    }

    #[test]
    fn it_ends_when_nothing_was_left_for_a_while() {
        let mut clock = Clock::new();
        assert_eq!(clock.at(0, counted(2, 1)), told(2, 1));
        assert_eq!(clock.at(2, counted(2, 1)), DrainStep::Wait(None), "nothing new");
        assert_eq!(clock.at(4, counted(0, 1)), told(0, 1));
        assert_eq!(clock.at(6, counted(0, 0)), told(0, 0));
        assert_eq!(clock.at(20, counted(0, 0)), DrainStep::Wait(None));
        assert_eq!(clock.at(21, counted(0, 0)), DrainStep::End(DrainEnd::Empty));
    }

    #[test]
    fn nothing_ends_while_there_may_be_more() {
        let doubts = BTreeSet::from(["2 Envoys are connected, and 1 tells".to_owned()]);
        let doubtful = PodCount {
            doubts: doubts.clone(),
            ..counted(0, 0)
        };
        let mut clock = Clock::new();
        assert_eq!(clock.at(0, counted(0, 0)), told(0, 0));
        assert_eq!(clock.at(14, doubtful.clone()), DrainStep::Wait(None));
        assert_eq!(clock.at(20, doubtful.clone()), DrainStep::Wait(None));
        assert_eq!(clock.at(22, counted(0, 0)), DrainStep::Wait(None));
        assert_eq!(clock.at(36, counted(0, 0)), DrainStep::Wait(None));
        assert_eq!(clock.at(37, counted(0, 0)), DrainStep::End(DrainEnd::Empty));
        let mut clock = Clock::new();
        clock.at(0, doubtful.clone());
        assert_eq!(clock.at(60, doubtful), DrainStep::End(DrainEnd::TimeIsOver));

        let mut row = PodRow::default();
        let of = |rows: &[PodRow]| PodCount::of(rows, doubts.clone(), BTreeSet::new()).doubts();
        assert!(of(&[]).unwrap().starts_with("2 Envoys"), "nothing is known of it");
        assert_eq!(of(std::slice::from_ref(&row)), None, "the doubts are about others");
        row.why = doubts.clone();
        assert!(of(&[row]).unwrap().starts_with("2 Envoys"));
    }

    #[test]
    fn a_session_that_is_known_late_begins_the_wait_anew() {
        let mut clock = Clock::new();
        assert_eq!(clock.at(0, counted(0, 0)), told(0, 0));
        assert_eq!(clock.at(9, counted(1, 0)), told(1, 0));
        assert_eq!(clock.at(12, counted(0, 0)), told(0, 0));
        assert_eq!(clock.at(26, counted(0, 0)), DrainStep::Wait(None));
        assert_eq!(clock.at(27, counted(0, 0)), DrainStep::End(DrainEnd::Empty));
    }

    #[test]
    fn nothing_ends_while_no_controller_answers() {
        let mut clock = Clock::new();
        clock.at(0, counted(0, 0));
        assert_eq!(clock.without_answer_at(9), DrainStep::Wait(None));
        assert_eq!(clock.at(11, counted(0, 0)), DrainStep::Wait(None));
        assert_eq!(clock.at(26, counted(0, 0)), DrainStep::End(DrainEnd::Empty));
    }

    #[test]
    fn a_controller_that_starts_again_begins_the_wait_anew() {
        let by = |since: &str| PodCount {
            counted_by: BTreeSet::from([("controller-0".to_owned(), Some(since.to_owned()))]),
            ..counted(0, 0)
        };
        let mut clock = Clock::new();
        clock.at(0, by("06:00"));
        assert_eq!(clock.at(9, by("06:09")), DrainStep::Wait(None));
        assert_eq!(clock.at(23, by("06:09")), DrainStep::Wait(None));
        assert_eq!(clock.at(24, by("06:09")), DrainStep::End(DrainEnd::Empty));
    }

    #[test]
    fn nothing_ends_before_controllers_know_that_it_drains() {
        let row = |state| PodRow {
            state,
            ..PodRow::default()
        };
        let mut clock = Clock::new();
        let rows = [row(PodRowState::Draining), row(PodRowState::Ready)];
        let of = |rows: &[PodRow]| PodCount::of(rows, BTreeSet::new(), BTreeSet::new());
        assert_eq!(clock.at(0, of(&rows)), told(0, 0));
        assert_eq!(clock.at(30, of(&rows)), DrainStep::Wait(None));
        let rows = [row(PodRowState::Draining), row(PodRowState::Gone)];
        assert_eq!(clock.at(31, of(&rows)), DrainStep::Wait(None));
        assert_eq!(clock.at(46, of(&rows)), DrainStep::End(DrainEnd::Empty));
    }

    #[test]
    fn what_all_services_have_is_left() {
        let row = |sessions, streams| PodRow {
            sessions,
            streams,
            ..PodRow::default()
        };
        let of = |rows: &[PodRow]| PodCount::of(rows, BTreeSet::new(), BTreeSet::new());
        let counted = of(&[row(3, 0), row(1, 2)]);
        assert_eq!(counted.remaining.to_string(), "4 sessions, 2 streams");
        let none = of(&[]);
        assert!(none.remaining.is_nothing() && none.knows);
        let one = of(&[row(1, 1)]);
        assert_eq!(one.remaining.to_string(), "1 session, 1 stream");
    }

    #[test]
    fn the_time_ends_it_with_what_is_left() {
        let mut clock = Clock::new();
        clock.at(0, counted(3, 1));
        assert_eq!(clock.at(59, counted(3, 1)), DrainStep::Wait(None));
        assert_eq!(clock.at(60, counted(2, 1)), DrainStep::End(DrainEnd::TimeIsOver));
        assert_eq!(
            clock.1.left(),
            Some(RemainingSessions {
                sessions: 2,
                streams: 1
            })
        );
        // Empty just in time counts.
        let mut clock = Clock::new();
        clock.at(45, counted(0, 0));
        assert_eq!(clock.at(60, counted(0, 0)), DrainStep::End(DrainEnd::Empty));
    }

    #[test]
    fn a_pod_that_drains_no_more_ends_it() {
        for (pod, end) in [
            (PodDrainState::Undone, DrainEnd::Undone),
            (PodDrainState::Gone, DrainEnd::Gone),
        ] {
            let mut wait = DrainWait::until(Instant::now() + MINUTE);
            assert_eq!(
                wait.observe(Instant::now(), pod, Some(counted(3, 0))),
                DrainStep::End(end)
            );
            assert_eq!(
                wait.left(),
                Some(RemainingSessions {
                    sessions: 3,
                    streams: 0
                })
            );
        }
    }
}
