//! When a pod has no sessions left. Pure.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use crate::cluster::survey::{PodSessions, PodState};

/// How long no session may have been seen. Envoys report every few seconds, and a session that began just before the
/// pod drained is not known at once.
const SETTLES: Duration = Duration::from_secs(10);

/// What is left of a pod's sessions, in all its Services.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) sessions: u64,
    pub(super) streams: u64,
}

impl Left {
    fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Display for Left {
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

/// What the pod says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pod {
    /// It has the annotation.
    Drains,
    /// Somebody has taken the annotation away.
    Undone,
    /// It was deleted.
    Gone,
}

/// What controllers count of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counted {
    left: Left,
    /// Whether they know that it gets no new sessions.
    knows: bool,
    /// Which controllers, and since when each of them counts.
    by: BTreeSet<(String, String)>,
}

impl Counted {
    /// `rows` are those of the pod. A pod without any has never had a session.
    pub(super) fn of<'a>(rows: impl IntoIterator<Item = &'a PodSessions>, by: BTreeSet<(String, String)>) -> Self {
        let mut counted = Self {
            left: Left::default(),
            knows: true,
            by,
        };
        for row in rows {
            counted.left.sessions = counted.left.sessions.saturating_add(row.sessions);
            counted.left.streams = counted.left.streams.saturating_add(row.streams);
            counted.knows &= row.state != PodState::Ready;
        }
        counted
    }
}

/// How it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Empty,
    TimeIsOver,
    Undone,
    Gone,
}

/// What to do after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Look again later. What is left is told if it is news.
    Wait(Option<Left>),
    End(End),
}

/// Waits for the last session of a pod.
#[derive(Debug)]
pub(super) struct Wait {
    deadline: Instant,
    /// Since when no session is seen.
    empty_since: Option<Instant>,
    /// By whom it was counted at the last look.
    by: BTreeSet<(String, String)>,
    last: Option<Left>,
}

impl Wait {
    pub(super) fn until(deadline: Instant) -> Self {
        Self {
            deadline,
            empty_since: None,
            by: BTreeSet::new(),
            last: None,
        }
    }

    /// What was left at the last look. `None`: it was never known.
    pub(super) fn left(&self) -> Option<Left> {
        self.last
    }

    /// Takes in what is seen now. `counted` is `None` if no controller answers.
    pub(super) fn look(&mut self, now: Instant, pod: Pod, counted: Option<Counted>) -> Step {
        let mut news = None;
        let mut is_empty = false;
        if let Some(Counted { left, knows, by }) = counted {
            news = (self.last != Some(left)).then_some(left);
            self.last = Some(left);
            is_empty = knows && left.is_nothing();
            if by != self.by {
                // One that has just started has not heard of all Envoys yet.
                self.empty_since = None;
                self.by = by;
            }
        }
        if is_empty {
            self.empty_since.get_or_insert(now);
        } else {
            // A controller that does not answer may have news.
            self.empty_since = None;
        }
        let settled = |since: Instant| now.saturating_duration_since(since) >= SETTLES;
        match pod {
            Pod::Gone => Step::End(End::Gone),
            Pod::Undone => Step::End(End::Undone),
            Pod::Drains if self.empty_since.is_some_and(settled) => Step::End(End::Empty),
            Pod::Drains if now >= self.deadline => Step::End(End::TimeIsOver),
            Pod::Drains => Step::Wait(news),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn counted(sessions: u64, streams: u64) -> Counted {
        let left = Left { sessions, streams };
        Counted {
            left,
            knows: true,
            by: BTreeSet::new(),
        }
    }

    /// A wait of a minute, which is asked by seconds since its start.
    struct Clock(Instant, Wait);

    impl Clock {
        fn new() -> Self {
            let start = Instant::now();
            Self(start, Wait::until(start + MINUTE))
        }

        fn at(&mut self, seconds: u64, counted: Counted) -> Step {
            self.1
                .look(self.0 + Duration::from_secs(seconds), Pod::Drains, Some(counted))
        }

        fn without_answer_at(&mut self, seconds: u64) -> Step {
            self.1.look(self.0 + Duration::from_secs(seconds), Pod::Drains, None)
        }
    }

    fn told(sessions: u64, streams: u64) -> Step {
        Step::Wait(Some(Left { sessions, streams }))
    }

    #[test]
    fn it_ends_when_nothing_was_left_for_a_while() {
        let mut clock = Clock::new();
        assert_eq!(clock.at(0, counted(2, 1)), told(2, 1));
        assert_eq!(clock.at(2, counted(2, 1)), Step::Wait(None), "nothing new");
        assert_eq!(clock.at(4, counted(0, 1)), told(0, 1));
        assert_eq!(clock.at(6, counted(0, 0)), told(0, 0));
        assert_eq!(clock.at(15, counted(0, 0)), Step::Wait(None));
        assert_eq!(clock.at(16, counted(0, 0)), Step::End(End::Empty));
    }

    #[test]
    fn a_session_that_is_known_late_begins_the_wait_anew() {
        let mut clock = Clock::new();
        assert_eq!(clock.at(0, counted(0, 0)), told(0, 0));
        assert_eq!(clock.at(9, counted(1, 0)), told(1, 0));
        assert_eq!(clock.at(12, counted(0, 0)), told(0, 0));
        assert_eq!(clock.at(21, counted(0, 0)), Step::Wait(None));
        assert_eq!(clock.at(22, counted(0, 0)), Step::End(End::Empty));
    }

    #[test]
    fn nothing_ends_while_no_controller_answers() {
        let mut clock = Clock::new();
        clock.at(0, counted(0, 0));
        assert_eq!(clock.without_answer_at(9), Step::Wait(None));
        assert_eq!(clock.at(11, counted(0, 0)), Step::Wait(None));
        assert_eq!(clock.at(21, counted(0, 0)), Step::End(End::Empty));
    }

    #[test]
    fn a_controller_that_starts_again_begins_the_wait_anew() {
        let by = |since: &str| Counted {
            by: BTreeSet::from([("controller-0".to_owned(), since.to_owned())]),
            ..counted(0, 0)
        };
        let mut clock = Clock::new();
        clock.at(0, by("06:00"));
        assert_eq!(clock.at(9, by("06:09")), Step::Wait(None));
        assert_eq!(clock.at(18, by("06:09")), Step::Wait(None));
        assert_eq!(clock.at(19, by("06:09")), Step::End(End::Empty));
    }

    #[test]
    fn nothing_ends_before_controllers_know_that_it_drains() {
        let row = |state| PodSessions {
            state,
            ..PodSessions::default()
        };
        let mut clock = Clock::new();
        let rows = [row(PodState::Draining), row(PodState::Ready)];
        assert_eq!(clock.at(0, Counted::of(&rows, BTreeSet::new())), told(0, 0));
        assert_eq!(clock.at(30, Counted::of(&rows, BTreeSet::new())), Step::Wait(None));
        let rows = [row(PodState::Draining), row(PodState::Gone)];
        assert_eq!(clock.at(31, Counted::of(&rows, BTreeSet::new())), Step::Wait(None));
        assert_eq!(clock.at(41, Counted::of(&rows, BTreeSet::new())), Step::End(End::Empty));
    }

    #[test]
    fn what_all_services_have_is_left() {
        let row = |sessions, streams| PodSessions {
            sessions,
            streams,
            ..PodSessions::default()
        };
        let counted = Counted::of(&[row(3, 0), row(1, 2)], BTreeSet::new());
        assert_eq!(counted.left.to_string(), "4 sessions, 2 streams");
        let none = Counted::of([], BTreeSet::new());
        assert!(none.left.is_nothing() && none.knows);
        let one = Counted::of(&[row(1, 1)], BTreeSet::new());
        assert_eq!(one.left.to_string(), "1 session, 1 stream");
    }

    #[test]
    fn the_time_ends_it_with_what_is_left() {
        let mut clock = Clock::new();
        clock.at(0, counted(3, 1));
        assert_eq!(clock.at(59, counted(3, 1)), Step::Wait(None));
        assert_eq!(clock.at(60, counted(2, 1)), Step::End(End::TimeIsOver));
        assert_eq!(
            clock.1.left(),
            Some(Left {
                sessions: 2,
                streams: 1
            })
        );
        // What is empty in time is empty.
        let mut clock = Clock::new();
        clock.at(50, counted(0, 0));
        assert_eq!(clock.at(60, counted(0, 0)), Step::End(End::Empty));
    }

    #[test]
    fn a_pod_that_drains_no_more_ends_it() {
        for (pod, end) in [(Pod::Undone, End::Undone), (Pod::Gone, End::Gone)] {
            let mut wait = Wait::until(Instant::now() + MINUTE);
            assert_eq!(wait.look(Instant::now(), pod, Some(counted(3, 0))), Step::End(end));
            assert_eq!(
                wait.left(),
                Some(Left {
                    sessions: 3,
                    streams: 0
                })
            );
        }
    }
}
