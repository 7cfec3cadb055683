//! When a pod has no sessions left. Pure.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Instant;

use crate::cluster::survey::{PodSessions, PodState};
use crate::settling::SETTLING;

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
    /// Why there may be more.
    doubts: BTreeSet<String>,
    /// Which controllers, and since when each of them counts.
    by: BTreeSet<(String, Option<String>)>,
}

impl Counted {
    /// `rows` are those of the pod. A pod without any has never had a session, unless something is not known: `why`.
    pub(super) fn of<'a>(
        rows: impl IntoIterator<Item = &'a PodSessions>,
        why: BTreeSet<String>,
        by: BTreeSet<(String, Option<String>)>,
    ) -> Self {
        let mut counted = Self {
            left: Left::default(),
            knows: true,
            doubts: BTreeSet::new(),
            by,
        };
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            counted.doubts = why;
        }
        for row in rows {
            counted.left.sessions = counted.left.sessions.saturating_add(row.sessions);
            counted.left.streams = counted.left.streams.saturating_add(row.streams);
            counted.knows &= row.state != PodState::Ready;
            counted.doubts.extend(row.why.iter().cloned());
        }
        counted
    }

    /// Why there may be more than is counted, in words.
    pub(super) fn doubts(&self) -> Option<String> {
        let doubts: Vec<&str> = self.doubts.iter().map(String::as_str).collect();
        (!doubts.is_empty()).then(|| doubts.join("; "))
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
    by: BTreeSet<(String, Option<String>)>,
    last: Option<Left>,
    /// Why there may have been more at the last look.
    doubts: BTreeSet<String>,
}

impl Wait {
    pub(super) fn until(deadline: Instant) -> Self {
        Self {
            deadline,
            empty_since: None,
            by: BTreeSet::new(),
            last: None,
            doubts: BTreeSet::new(),
        }
    }

    /// What was left at the last look. `None`: it was never known.
    pub(super) fn left(&self) -> Option<Left> {
        self.last
    }

    /// Why there may have been more at the last look; `None`: there were not.
    pub(super) fn doubts(&self) -> Option<&BTreeSet<String>> {
        Some(&self.doubts).filter(|doubts| !doubts.is_empty())
    }

    /// Takes in what is seen now. `counted` is `None` if no controller answers.
    pub(super) fn look(&mut self, now: Instant, pod: Pod, counted: Option<Counted>) -> Step {
        let mut news = None;
        let mut is_empty = false;
        if let Some(counted) = counted {
            let Counted {
                left,
                knows,
                doubts,
                by,
            } = counted;
            news = (self.last != Some(left)).then_some(left);
            self.last = Some(left);
            is_empty = knows && left.is_nothing() && doubts.is_empty();
            self.doubts = doubts;
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
        let settled = |since: Instant| now.saturating_duration_since(since) >= SETTLING;
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
    use std::time::Duration;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn counted(sessions: u64, streams: u64) -> Counted {
        let left = Left { sessions, streams };
        Counted {
            left,
            knows: true,
            doubts: BTreeSet::new(),
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
        assert_eq!(clock.at(20, counted(0, 0)), Step::Wait(None));
        assert_eq!(clock.at(21, counted(0, 0)), Step::End(End::Empty));
    }

    #[test]
    fn nothing_ends_while_there_may_be_more() {
        let doubts = BTreeSet::from(["2 Envoys are connected, and 1 tells".to_owned()]);
        let doubtful = Counted {
            doubts: doubts.clone(),
            ..counted(0, 0)
        };
        let mut clock = Clock::new();
        assert_eq!(clock.at(0, counted(0, 0)), told(0, 0));
        assert_eq!(clock.at(14, doubtful.clone()), Step::Wait(None));
        assert_eq!(clock.at(20, doubtful.clone()), Step::Wait(None));
        assert_eq!(clock.at(22, counted(0, 0)), Step::Wait(None));
        assert_eq!(clock.at(36, counted(0, 0)), Step::Wait(None));
        assert_eq!(clock.at(37, counted(0, 0)), Step::End(End::Empty));
        let mut clock = Clock::new();
        clock.at(0, doubtful.clone());
        assert_eq!(clock.at(60, doubtful), Step::End(End::TimeIsOver));

        let mut row = PodSessions::default();
        let of = |rows: &[PodSessions]| Counted::of(rows, doubts.clone(), BTreeSet::new()).doubts();
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
        assert_eq!(clock.at(26, counted(0, 0)), Step::Wait(None));
        assert_eq!(clock.at(27, counted(0, 0)), Step::End(End::Empty));
    }

    #[test]
    fn nothing_ends_while_no_controller_answers() {
        let mut clock = Clock::new();
        clock.at(0, counted(0, 0));
        assert_eq!(clock.without_answer_at(9), Step::Wait(None));
        assert_eq!(clock.at(11, counted(0, 0)), Step::Wait(None));
        assert_eq!(clock.at(26, counted(0, 0)), Step::End(End::Empty));
    }

    #[test]
    fn a_controller_that_starts_again_begins_the_wait_anew() {
        let by = |since: &str| Counted {
            by: BTreeSet::from([("controller-0".to_owned(), Some(since.to_owned()))]),
            ..counted(0, 0)
        };
        let mut clock = Clock::new();
        clock.at(0, by("06:00"));
        assert_eq!(clock.at(9, by("06:09")), Step::Wait(None));
        assert_eq!(clock.at(23, by("06:09")), Step::Wait(None));
        assert_eq!(clock.at(24, by("06:09")), Step::End(End::Empty));
    }

    #[test]
    fn nothing_ends_before_controllers_know_that_it_drains() {
        let row = |state| PodSessions {
            state,
            ..PodSessions::default()
        };
        let mut clock = Clock::new();
        let rows = [row(PodState::Draining), row(PodState::Ready)];
        let of = |rows: &[PodSessions]| Counted::of(rows, BTreeSet::new(), BTreeSet::new());
        assert_eq!(clock.at(0, of(&rows)), told(0, 0));
        assert_eq!(clock.at(30, of(&rows)), Step::Wait(None));
        let rows = [row(PodState::Draining), row(PodState::Gone)];
        assert_eq!(clock.at(31, of(&rows)), Step::Wait(None));
        assert_eq!(clock.at(46, of(&rows)), Step::End(End::Empty));
    }

    #[test]
    fn what_all_services_have_is_left() {
        let row = |sessions, streams| PodSessions {
            sessions,
            streams,
            ..PodSessions::default()
        };
        let of = |rows: &[PodSessions]| Counted::of(rows, BTreeSet::new(), BTreeSet::new());
        let counted = of(&[row(3, 0), row(1, 2)]);
        assert_eq!(counted.left.to_string(), "4 sessions, 2 streams");
        let none = of(&[]);
        assert!(none.left.is_nothing() && none.knows);
        let one = of(&[row(1, 1)]);
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
        clock.at(45, counted(0, 0));
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
