use crate::time::Timestamp;

/// One more than a session's life has, which may begin within one.
pub(super) const KEPT_WINDOWS: usize = 5;
/// The parts of a session's life. It is forgotten at most one of them late.
pub const SUB_WINDOWS: u64 = KEPT_WINDOWS as u64 - 1;

/// The number of a time's sub-window, equal in all Envoys.
#[must_use]
pub fn sub_window(live_for: u32, at: Timestamp) -> u64 {
    at.unix_millis() / (u64::from(live_for.max(1)) * 1000).div_ceil(SUB_WINDOWS)
}

/// Whether sessions last seen then may live.
#[must_use]
pub fn is_alive(live_for: u32, last_use: Timestamp, now: Timestamp) -> bool {
    now.since(last_use).as_secs() <= u64::from(live_for)
}
