use sha2::{Digest, Sha256};

use super::Backend;
use super::report::{BackendReport, RebalancedReport, WindowReport};
use super::sketch::Sketch;
use super::window::{KEPT_WINDOWS, is_alive, sub_window};
use crate::time::Timestamp;

/// Random bits spread like a hash's (`SplitMix64`).
pub(super) fn spread(bits: u64) -> u64 {
    let mut mixed = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

pub(super) fn keyed(seed: &[u8; 16], bytes: &[u8]) -> u64 {
    let digest = Sha256::new().chain_update(seed).chain_update(bytes).finalize();
    digest
        .iter()
        .take(8)
        .fold(0, |hash, byte| (hash << 8) | u64::from(*byte))
}

#[derive(Debug)]
pub(super) struct BackendTally {
    live_for: u32,
    windows: [TallyWindow; KEPT_WINDOWS],
    last_use: Timestamp,
    /// Since the last report.
    requests: u64,
    /// Since the last report.
    left: u64,
    /// Since the last report, by the sub-window when last seen.
    rebalanced: Vec<RebalancedReport>,
    /// When it was last reported.
    told: Timestamp,
}

#[derive(Debug, Default)]
struct TallyWindow {
    number: u64,
    sketch: Sketch,
    /// When the oldest session began: Unix time in milliseconds.
    oldest: u64,
    changed: bool,
}

impl BackendTally {
    pub(super) fn new(live_for: u32) -> Self {
        Self {
            live_for,
            windows: Default::default(),
            last_use: Timestamp::UNIX_EPOCH,
            requests: 0,
            left: 0,
            rebalanced: Vec::new(),
            told: Timestamp::UNIX_EPOCH,
        }
    }

    pub(super) fn record(&mut self, session: u64, began: Timestamp, at: Timestamp) {
        self.requests += 1;
        self.last_use = self.last_use.max(at);
        let number = sub_window(self.live_for, at);
        let Some(window) = self.window(number) else {
            return;
        };
        let before = window.sketch.estimate();
        window.sketch.insert(session);
        // If a register changed without changing the estimate, the next change reports it.
        let began = began.unix_millis();
        if window.sketch.estimate() != before || began < window.oldest {
            window.changed = true;
            window.oldest = window.oldest.min(began);
        }
    }

    /// The window of this number; `None` if it is over: clocks of requests differ by little.
    fn window(&mut self, number: u64) -> Option<&mut TallyWindow> {
        let place = usize::try_from(number % KEPT_WINDOWS as u64).unwrap_or_default();
        let window = self.windows.get_mut(place)?;
        if window.number < number {
            *window = TallyWindow {
                number,
                oldest: u64::MAX,
                ..TallyWindow::default()
            };
        }
        (window.number == number).then_some(window)
    }

    pub(super) fn record_departure(&mut self) {
        self.left += 1;
    }

    pub(super) fn rebalance(&mut self, last_seen: Timestamp) {
        self.count_rebalanced(sub_window(self.live_for, last_seen), 1);
    }

    fn count_rebalanced(&mut self, number: u64, sessions: u64) {
        match self.rebalanced.iter_mut().find(|window| window.number == number) {
            Some(window) => window.sessions += sessions,
            None => self.rebalanced.push(RebalancedReport { number, sessions }),
        }
    }

    pub(super) fn is_changed(&self) -> bool {
        self.requests > 0
            || self.left > 0
            || !self.rebalanced.is_empty()
            || self.windows.iter().any(|window| window.changed)
    }

    pub(super) fn is_alive(&self, now: Timestamp) -> bool {
        is_alive(self.live_for, self.last_use, now)
    }

    pub(super) fn reported_at(&self) -> Timestamp {
        self.told
    }

    /// Corrects times after a clock was set back: nothing was seen later than now.
    pub(super) fn not_after(&mut self, now: Timestamp) {
        if self.last_use <= now {
            return;
        }
        self.last_use = now;
        let current = sub_window(self.live_for, now);
        let later = self.windows.iter_mut().filter(|window| window.number > current);
        let later: Vec<TallyWindow> = later.map(std::mem::take).collect();
        for seen in later {
            if let Some(window) = self.window(current) {
                window.sketch.merge(&seen.sketch);
                window.oldest = window.oldest.min(seen.oldest);
                window.changed = true;
            }
        }
    }

    pub(super) fn changes(&mut self, backend: Backend, now: Timestamp) -> Option<BackendReport> {
        if !self.is_changed() {
            return None;
        }
        self.told = now;
        let windows = self.windows.iter_mut().filter(|window| window.changed);
        let windows = windows.map(|window| {
            window.changed = false;
            WindowReport::new(window.number, window.oldest, &window.sketch)
        });
        let windows = windows.collect();
        Some(BackendReport {
            last_use: self.last_use.unix_millis(),
            requests: std::mem::take(&mut self.requests),
            departed: std::mem::take(&mut self.left),
            rebalanced: std::mem::take(&mut self.rebalanced),
            windows,
            ..BackendReport::new(backend)
        })
    }

    /// Reports everything again: earlier reports are lost.
    pub(super) fn report_again(&mut self) {
        for window in &mut self.windows {
            window.changed = window.sketch.estimate() > 0;
        }
    }

    pub(super) fn merge(&mut self, change: &BackendReport) {
        self.requests += change.requests;
        self.left += change.departed;
        for window in &change.rebalanced {
            self.count_rebalanced(window.number, window.sessions);
        }
        self.last_use = self.last_use.max(Timestamp::from_unix_millis(change.last_use));
        for told in &change.windows {
            if let (Some(window), Some(sketch)) = (self.window(told.number), told.sketch()) {
                window.sketch.merge(&sketch);
                window.oldest = window.oldest.min(told.oldest);
                window.changed = true;
            }
        }
    }
}
