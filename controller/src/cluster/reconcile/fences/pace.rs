//! How often a namespace may make Envoys read their fences again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use limpet_core::time::Timestamp;

/// Turns of a namespace at once.
const MOST: u32 = 10;
/// The time in which a turn comes back.
const PERIOD: Duration = Duration::from_secs(60);

/// When each namespace has all of its turns again.
#[derive(Debug, Default)]
pub(super) struct NamespacePace(BTreeMap<Arc<str>, Timestamp>);

impl NamespacePace {
    /// When a namespace has a turn: now, if it has one left.
    pub(super) fn next(&self, namespace: &str, now: Timestamp) -> Timestamp {
        let missing = self.0.get(namespace).map(|full| full.since(now));
        // A clock that goes back makes no namespace wait.
        let missing = missing.filter(|missing| *missing <= PERIOD * MOST).unwrap_or_default();
        now.after(missing.saturating_sub(PERIOD * (MOST - 1)))
    }

    pub(super) fn record_turn(&mut self, namespace: Arc<str>, now: Timestamp) {
        let full = self.0.entry(namespace).or_insert(now);
        *full = (*full).max(now).after(PERIOD).min(now.after(PERIOD * MOST));
    }

    pub(super) fn forget(&mut self, now: Timestamp) {
        self.0.retain(|_, full| *full > now);
    }
}
