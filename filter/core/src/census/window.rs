//! The parts of the time that a session lives.

use crate::time::Timestamp;

/// How many sub-windows may have sessions that live: that time may begin within one.
pub(super) const KEPT_WINDOWS: usize = 5;
/// The time that a session lives has this many sub-windows. A session is forgotten at most one of them late.
pub const SUB_WINDOWS: u64 = KEPT_WINDOWS as u64 - 1;

/// The number of the sub-window that a time is in. All Envoys number them alike, so theirs merge.
#[must_use]
pub fn sub_window(live_for: u32, at: Timestamp) -> u64 {
    at.unix_millis() / (u64::from(live_for.max(1)) * 1000).div_ceil(SUB_WINDOWS)
}

/// Whether sessions that were last seen then may live.
#[must_use]
pub fn is_alive(live_for: u32, last_use: Timestamp, now: Timestamp) -> bool {
    now.since(last_use).as_secs() <= u64::from(live_for)
}
