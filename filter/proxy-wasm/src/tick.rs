//! What the VM's tick does for requests, which pay for each host call: it reads the time, and hands over counts.
//!
//! A request's time is late by up to [`TICK`], or by as long as the thread was held up before. Counts are late by as
//! much, and a VM that traps loses the last ones. While ticks are missing or late, each request asks the host.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use limpet_core::time::Timestamp;
use limpet_core::view::ViewError;
use proxy_wasm::hostcalls;
use proxy_wasm::types::Status;

use crate::host;

pub(crate) const TICK: Duration = Duration::from_millis(100);

thread_local! {
    static LAST: Cell<Option<Timestamp>> = const { Cell::new(None) };
    /// The time of requests; `None` unless ticks come in time.
    static TOLD: Cell<Option<Timestamp>> = const { Cell::new(None) };
    /// Counts since the last tick, by the host's id of the counter.
    static COUNTS: RefCell<BTreeMap<u32, i64>> = const { RefCell::new(BTreeMap::new()) };
}

/// The configurations of a VM tick each for itself.
pub(crate) fn tick() {
    let now = host::now().ok();
    let last = LAST.replace(now);
    TOLD.set(now.filter(|now| last.is_some_and(|last| is_in_time(last, *now))));
    hand_over();
}

pub(crate) fn stop() {
    // Envoy's timer does not end with its configuration: it would continue to wake the thread.
    let _: Result<(), Status> = hostcalls::set_tick_period(Duration::ZERO);
    LAST.set(None);
    TOLD.set(None);
    hand_over();
}

/// Whether this tick came in time after that one. Otherwise, the next one's time is unknown.
fn is_in_time(last: Timestamp, now: Timestamp) -> bool {
    last <= now && now.since(last) <= TICK * 2
}

pub(crate) fn now() -> Result<Timestamp, ViewError> {
    TOLD.get().map_or_else(host::now, Ok)
}

pub(crate) fn count(counter: u32) {
    if TOLD.get().is_some() {
        COUNTS.with_borrow_mut(|counts| *counts.entry(counter).or_default() += 1);
    } else {
        increment(counter, 1);
    }
}

fn hand_over() {
    for (counter, count) in COUNTS.take() {
        increment(counter, count);
    }
}

fn increment(counter: u32, by: i64) {
    // A count is not worth failing a request.
    let _ = hostcalls::increment_metric(counter, by);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_tick_and_a_changed_clock_tell_no_time() {
        let at = Timestamp::from_unix_millis;
        for (last, now, in_time) in [
            (1000, 1100, true),
            (1000, 1000, true),
            (1000, 1200, true),
            (1000, 1201, false),
            (1000, 999, false),
        ] {
            assert_eq!(is_in_time(at(last), at(now)), in_time, "{last} {now}");
        }
    }
}
