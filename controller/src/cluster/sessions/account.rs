//! Reports of Envoys on one backend.

use std::collections::BTreeMap;

use limpet_api::Text;
use limpet_core::census::report::{BackendReport, RebalancedReport, WindowReport};
use limpet_core::census::{Backend, SUB_WINDOWS, Sketch, is_alive, sub_window};
use limpet_core::time::Timestamp;

/// Bytes of an account without its sketches, about.
pub(super) const ACCOUNT: usize = 512;
/// Bytes of a sub-window without its sketch, about.
pub(super) const WINDOW: usize = 96;
/// Bytes of a sketch with many sessions.
pub(super) const MANY: usize = 3_200;

/// The sessions of one backend, as one group of Envoys reports them.
#[derive(Debug, Default)]
pub(super) struct SessionAccount {
    windows: BTreeMap<u64, SketchWindow>,
    pub(super) last_use: Timestamp,
    /// Reported to this replica.
    pub(super) requests: u64,
    /// Reported to other replicas, by name.
    pub(super) requests_of_others: BTreeMap<String, u64>,
    /// Sessions that moved elsewhere, by the sub-window in which they were last seen, as long as sketches have them.
    rebalanced: BTreeMap<u64, u64>,
    pub(super) rebalanced_of_others: BTreeMap<String, BTreeMap<u64, u64>>,
    /// The number of the last change.
    pub(super) changed: u64,
    /// The Service's namespace.
    pub(super) namespace: Text,
}

#[derive(Debug)]
struct SketchWindow {
    sketch: Sketch,
    oldest: u64,
}

/// Whether a sub-window may have live sessions if `newest` is the newest one.
fn is_current(number: u64, newest: u64) -> bool {
    number >= newest.saturating_sub(SUB_WINDOWS)
}

impl SessionAccount {
    pub(super) fn of(namespace: &Text) -> Self {
        Self {
            namespace: namespace.clone(),
            ..Self::default()
        }
    }

    /// Adds reported sessions. Returns whether anything is new.
    pub(super) fn merge(&mut self, live_for: u32, change: &BackendReport, last_use: Timestamp, now: Timestamp) -> bool {
        let mut is_new = last_use > self.last_use;
        self.last_use = self.last_use.max(last_use);
        let newest = sub_window(live_for, now);
        for window in &change.windows {
            let Some(sketch) = window.sketch().filter(|_| is_current(window.number, newest)) else {
                continue;
            };
            // Sessions that are seen in the future, by a clock that is a little ahead, are seen now.
            let number = window.number.min(newest.saturating_add(1));
            let known = self.windows.entry(number).or_insert_with(|| SketchWindow {
                sketch: Sketch::default(),
                oldest: u64::MAX,
            });
            let before = (known.sketch.estimate(), known.oldest);
            known.sketch = Sketch::union([&known.sketch, &sketch]);
            known.oldest = known.oldest.min(window.oldest);
            is_new |= before != (known.sketch.estimate(), known.oldest);
        }
        let oldest = newest.saturating_sub(SUB_WINDOWS);
        self.windows.retain(|number, _| *number >= oldest);
        self.rebalanced.retain(|number, _| *number >= oldest);
        self.rebalanced_of_others.retain(|_, windows| {
            windows.retain(|number, _| *number >= oldest);
            !windows.is_empty()
        });
        is_new
    }

    /// Bytes, about. A sketch has four for each of few sessions, in powers of two.
    pub(super) fn bytes(&self) -> usize {
        let sketches = self.windows.values().map(|window| match window.sketch.estimate() {
            few @ ..=128 => WINDOW + 4 * few.next_power_of_two(),
            _ => WINDOW + MANY,
        });
        sketches.fold(ACCOUNT, usize::saturating_add)
    }

    pub(super) fn record_rebalanced(&mut self, live_for: u32, windows: &[RebalancedReport], now: Timestamp) {
        let newest = sub_window(live_for, now);
        for window in windows.iter().filter(|window| is_current(window.number, newest)) {
            let number = window.number.min(newest.saturating_add(1));
            let left = self.rebalanced.entry(number).or_default();
            *left = left.saturating_add(window.sessions);
        }
    }

    pub(super) fn to_report(&self, backend: Backend) -> BackendReport {
        let windows = self.windows.iter();
        let windows = windows.map(|(number, window)| WindowReport::new(*number, window.oldest, &window.sketch));
        let rebalanced = self.rebalanced.iter();
        let rebalanced = rebalanced.map(|(number, sessions)| RebalancedReport {
            number: *number,
            sessions: *sessions,
        });
        BackendReport {
            last_use: self.last_use.unix_millis(),
            requests: self.requests,
            windows: windows.collect(),
            rebalanced: rebalanced.collect(),
            ..BackendReport::new(backend)
        }
    }

    pub(super) fn requests(&self) -> u64 {
        let others = self.requests_of_others.values();
        others.fold(self.requests, |sum, requests| sum.saturating_add(*requests))
    }

    pub(super) fn is_alive(&self, live_for: u32, now: Timestamp) -> bool {
        is_alive(live_for, self.last_use, now)
    }

    /// The estimate of living sessions that have moved elsewhere.
    pub(super) fn left(&self, live_for: u32, now: Timestamp) -> u64 {
        let since = sub_window(live_for, now).saturating_sub(SUB_WINDOWS);
        let all = std::iter::once(&self.rebalanced).chain(self.rebalanced_of_others.values());
        let left = all.flat_map(|windows| windows.range(since..)).map(|(_, left)| *left);
        left.fold(0, u64::saturating_add)
    }

    /// Sketches of the living sessions, and when the oldest began.
    pub(super) fn living(
        &self,
        live_for: u32,
        now: Timestamp,
    ) -> (impl Iterator<Item = &Sketch> + use<'_>, Option<Timestamp>) {
        let oldest = sub_window(live_for, now).saturating_sub(SUB_WINDOWS);
        // None, without a request for the whole idle bound.
        let since = if self.is_alive(live_for, now) { oldest } else { u64::MAX };
        let windows = self.windows.range(since..).map(|(_, window)| window);
        let oldest = windows.clone().map(|window| window.oldest).min();
        (
            windows.map(|window| &window.sketch),
            oldest.map(Timestamp::from_unix_millis),
        )
    }
}
