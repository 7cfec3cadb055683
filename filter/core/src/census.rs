//! Counts the living sessions of each backend, and reports them to the controller.
//!
//! A session lives for its policy's idle bound after its last answer. Only a few bits of a hash of its nonce are kept,
//! in a [`Sketch`]: no token, cookie or address. Sketches of several Envoys merge, so a session counts once.
//!
//! The core makes [`ObservedSession`] and [`SessionDeparture`], and an adapter passes them to its [`Census`]. See
//! design/sessions-counted.md.

mod backend_tally;
pub mod report;
mod restart_budgets;
mod sketch;
mod window;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use crate::backend::Backend;
use crate::outcome::RequestOutcome;
use crate::source::EntryKey;
use crate::time::Timestamp;
use crate::token::{DestinationId, TokenRefusal};
use backend_tally::BackendTally;
use report::{Report, RestartReport, SILENCE, TRIES};
pub use restart_budgets::LIFE as BUDGET_LIFE;
use restart_budgets::RestartBudgets;
pub use sketch::Sketch;
pub use window::{SUB_WINDOWS, is_alive, sub_window};

/// A backend answered a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObservedSession {
    /// The backend.
    pub backend: Backend,
    /// The session.
    pub session: SessionIdentity,
    /// When it started on this backend.
    pub began: Timestamp,
    /// When its token was renewed, or the request came.
    pub at: Timestamp,
}

/// What tells a session from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionIdentity {
    /// The nonce of its token, which all Envoys know.
    Token([u8; 4]),
    /// Its place in this Envoy's table.
    Client(EntryKey),
}

/// A session left its backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionDeparture {
    /// Its backend did not answer.
    Backend(Backend),
    /// It restarted to even out the load; when it was last seen here.
    Rebalanced(Backend, Timestamp),
    /// The same, but another host answered than this one, to which it was sent, at this time.
    Astray(Backend, Timestamp, SocketAddr, Timestamp),
    /// Its token was refused.
    Refused(TokenRefusal),
    /// The application moved it.
    Moved,
}

/// Parts with a lock each: more than the workers of most Envoys.
const PARTS: usize = 16;
/// Bytes of a report, exceeded by at most one backend. The rest comes with the next one.
const REPORT_LEN: usize = 512 * 1024;
/// After this time, the controller's process has passed on what it got.
const UNCERTAIN: Duration = Duration::from_secs(10);

/// The sessions of an Envoy by backend, shared by all workers.
#[derive(Debug)]
pub struct Census {
    parts: [Mutex<HashMap<Backend, BackendTally>>; PARTS],
    backends: AtomicUsize,
    max_backends: AtomicUsize,
    restarts: Mutex<Vec<RestartReport>>,
    /// Whether a merged census has more to report.
    more: AtomicBool,
    sent: Mutex<SentReport>,
    /// The controller's memory and process that answered last.
    answered: Mutex<Option<(u64, u64)>>,
    budgets: Mutex<RestartBudgets>,
    /// For addresses. Random for each process, so that no hash gives one away.
    seed: [u8; 16],
    by_backend: RandomState,
}

#[derive(Debug, Default)]
struct SentReport {
    number: u64,
    /// The last report while it has no answer, and how often it was sent.
    unanswered: Option<(Arc<Report>, u32)>,
    /// Whether an answer may still come.
    in_flight: bool,
}

impl Census {
    /// An empty one, which counts at most `max_backends` separately. `seed` is random, and the same for all that count
    /// the same clients.
    #[must_use]
    pub fn new(seed: [u8; 16], max_backends: usize) -> Self {
        Self {
            parts: Default::default(),
            backends: AtomicUsize::new(0),
            max_backends: AtomicUsize::new(max_backends),
            restarts: Mutex::new(Vec::new()),
            more: AtomicBool::new(false),
            sent: Mutex::default(),
            answered: Mutex::new(None),
            budgets: Mutex::default(),
            seed,
            by_backend: RandomState::new(),
        }
    }

    /// Changes how many backends are counted separately. Known ones stay.
    pub fn limit(&self, max_backends: usize) {
        self.max_backends.store(max_backends, Ordering::Relaxed);
    }

    /// Counts a session that a backend answered.
    pub fn record(&self, seen: &ObservedSession) {
        let session = match seen.session {
            SessionIdentity::Token(nonce) => backend_tally::spread(u64::from(u32::from_be_bytes(nonce))),
            SessionIdentity::Client(key) => backend_tally::keyed(&self.seed, &key.bytes()),
        };
        self.tally(seen.backend, |tally| tally.record(session, seen.began, seen.at));
    }

    /// Counts a session that left its backend.
    pub fn record_departure(&self, left: SessionDeparture) {
        match left {
            SessionDeparture::Backend(backend) => self.tally(backend, BackendTally::record_departure),
            SessionDeparture::Rebalanced(backend, last_seen) => self.tally(backend, |tally| tally.rebalance(last_seen)),
            SessionDeparture::Astray(backend, last_seen, host, at) => {
                self.tally(backend, |tally| tally.rebalance(last_seen));
                locked(&self.budgets).missed.add(backend.destination, host, at);
            }
            SessionDeparture::Refused(refusal) => self.restart(RequestOutcome::Refused(refusal).as_str(), 1),
            SessionDeparture::Moved => self.restart("moved", 1),
        }
    }

    fn tally(&self, backend: Backend, change: impl FnOnce(&mut BackendTally)) {
        let mut part = self.part(&backend);
        if let Some(tally) = part.get_mut(&backend) {
            return change(tally);
        }
        let has_room = self.backends.load(Ordering::Relaxed) < self.max_backends.load(Ordering::Relaxed);
        if has_room && !backend.is_others() {
            self.backends.fetch_add(1, Ordering::Relaxed);
            return change(
                part.entry(backend)
                    .or_insert_with(|| BackendTally::new(backend.live_for)),
            );
        }
        drop(part);
        // One for each idle bound, of which there are few.
        let others = Backend {
            live_for: backend.live_for,
            ..Backend::OTHERS
        };
        change(
            self.part(&others)
                .entry(others)
                .or_insert_with(|| BackendTally::new(others.live_for)),
        );
    }

    fn part(&self, backend: &Backend) -> MutexGuard<'_, HashMap<Backend, BackendTally>> {
        #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
        let place = self.by_backend.hash_one(backend) as usize % PARTS;
        // A panic cannot leave half a change that matters.
        #[expect(clippy::indexing_slicing, reason = "a remainder of the length")]
        locked(&self.parts[place])
    }

    fn restart(&self, reason: &str, sessions: u64) {
        let mut restarts = locked(&self.restarts);
        match restarts.iter_mut().find(|restart| restart.reason == reason) {
            Some(restart) => restart.sessions += sessions,
            None => restarts.push(RestartReport {
                reason: reason.to_owned(),
                sessions,
            }),
        }
    }

    /// Takes the changes since the last report, up to the size of one; `None` without any. Forgets backends without
    /// sessions. The report lacks its sender.
    pub fn report(&self, now: Timestamp) -> Option<Report> {
        let mut report = Report {
            restarts: std::mem::take(&mut locked(&self.restarts)),
            more: self.more.swap(false, Ordering::Relaxed),
            ..Report::default()
        };
        let mut changed = Vec::new();
        for part in &self.parts {
            locked(part).retain(|backend, tally| {
                tally.not_after(now);
                if tally.is_changed() {
                    changed.push((tally.reported_at(), *backend));
                }
                let stays = tally.is_alive(now) || tally.is_changed();
                if !stays && !backend.is_others() {
                    self.backends.fetch_sub(1, Ordering::Relaxed);
                }
                stays
            });
        }
        // Longest waiting first.
        changed.sort_unstable_by_key(|(told, _)| *told);
        let mut len = 0;
        for (_, backend) in changed {
            if len >= REPORT_LEN {
                report.more = true;
                break;
            }
            let mut part = self.part(&backend);
            if let Some(change) = part.get_mut(&backend).and_then(|tally| tally.changes(backend, now)) {
                len += change.len();
                report.backends.push(change);
            }
        }
        if report == Report::default() {
            return None;
        }
        // The report's receiver gets back what is left of the budgets.
        locked(&self.budgets).replace(&[], now);
        Some(report)
    }

    /// Takes one session from the backend's budget. Returns its new host.
    pub fn consume_budget(&self, backend: &Backend, now: Timestamp) -> Option<SocketAddr> {
        locked(&self.budgets).consume(backend, now)
    }

    /// Whether a host did not answer a session a moment ago.
    pub fn has_missed(&self, destination: DestinationId, host: SocketAddr, now: Timestamp) -> bool {
        locked(&self.budgets).missed.has(destination, host, now)
    }

    /// The report to send now: the unanswered one, else the changes, else a sign of life after [`SILENCE`] intervals.
    /// `None` while one is under way. Call it once in an interval, then [`receive`](Self::receive),
    /// [`report_failed`](Self::report_failed) or [`report_unsent`](Self::report_unsent). `idle`: intervals without a
    /// report.
    pub fn next_report(&self, node_cluster: &str, idle: &mut u32, now: Timestamp) -> Option<Arc<Report>> {
        if locked(&self.sent).in_flight {
            return None;
        }
        *idle += 1;
        if let Some(report) = self.pending_report() {
            *idle = 0;
            return Some(report);
        }
        let asks = || (*idle >= SILENCE).then(Report::default);
        let report = self.report(now).or_else(asks)?;
        *idle = 0;
        let mut sent = locked(&self.sent);
        sent.number += 1;
        let report = Arc::new(Report {
            node_cluster: node_cluster.to_owned(),
            reporter: self.reporter(),
            number: sent.number,
            ..report
        });
        sent.unanswered = Some((Arc::clone(&report), 1));
        sent.in_flight = true;
        Some(report)
    }

    /// The last report, repeated unchanged: the controller may have counted it.
    pub fn pending_report(&self) -> Option<Arc<Report>> {
        let mut sent = locked(&self.sent);
        if sent.in_flight {
            return None;
        }
        let (report, tries) = sent.unanswered.take()?;
        if tries < TRIES {
            sent.unanswered = Some((Arc::clone(&report), tries + 1));
            sent.in_flight = true;
            return Some(report);
        }
        drop(sent);
        self.merge(Arc::unwrap_or_clone(report));
        None
    }

    /// Notes that the last report gets no answer.
    pub fn report_failed(&self) {
        locked(&self.sent).in_flight = false;
    }

    /// The last report could not be sent. If it never was, the next one includes it.
    pub fn report_unsent(&self) {
        let mut sent = locked(&self.sent);
        sent.in_flight = false;
        let Some((report, tries)) = sent.unanswered.take() else {
            return;
        };
        if tries > 1 {
            sent.unanswered = Some((report, tries - 1));
            return;
        }
        drop(sent);
        self.merge(Arc::unwrap_or_clone(report));
    }

    /// The [`Report::reporter`], a random number.
    #[must_use]
    pub fn reporter(&self) -> u64 {
        self.by_backend.hash_one(PARTS)
    }

    /// Notes that the controller has answered the last report.
    pub fn receive(&self, answer: &report::ReportResponse, now: Timestamp) {
        let mut sent = locked(&self.sent);
        sent.unanswered = None;
        sent.in_flight = false;
        drop(sent);
        self.apply(answer, now);
    }

    /// Follows an answer. Another memory of the controller gets everything again, another process what the previous one
    /// may have lost.
    pub fn apply(&self, answer: &report::ReportResponse, now: Timestamp) {
        locked(&self.budgets).replace(&answer.sheds, now);
        let before = locked(&self.answered).replace((answer.memory, answer.process));
        let again = match before {
            Some((memory, _)) if memory != answer.memory => Duration::MAX,
            Some((_, process)) if process != answer.process => UNCERTAIN,
            _ => return,
        };
        for part in &self.parts {
            let mut part = locked(part);
            let told = part
                .values_mut()
                .filter(|tally| now.since(tally.reported_at()) <= again);
            told.for_each(BackendTally::report_again);
        }
    }

    /// Takes in a report, another census's or its own.
    pub fn merge(&self, report: Report) {
        self.more.fetch_or(report.more, Ordering::Relaxed);
        for change in report.backends {
            if let Some(backend) = change.backend() {
                self.tally(backend, |tally| tally.merge(&change));
            }
        }
        for restart in report.restarts {
            self.restart(&restart.reason, restart.sessions);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
