//! The sessions that this VM has seen.

use std::cell::RefCell;

use limpet_core::census::{Backend, Census, Left, Seen};
use limpet_core::time::Timestamp;

thread_local! {
    /// A worker's VM lives on when the configuration changes. `None` until one reports.
    pub(crate) static CENSUS: RefCell<Option<Census>> = const { RefCell::new(None) };
}

/// Whether one more session of this backend may begin anew.
pub(crate) fn may_leave(backend: &Backend, now: Timestamp) -> bool {
    CENSUS.with_borrow(|census| census.as_ref().is_some_and(|census| census.may_leave(backend, now)))
}

/// Counts what a response tells.
pub(crate) fn count(seen: Option<&Seen>, left: Option<Left>) {
    if seen.is_none() && left.is_none() {
        return;
    }
    CENSUS.with_borrow(|census| {
        let Some(census) = census else { return };
        if let Some(seen) = seen {
            census.see(seen);
        }
        if let Some(left) = left {
            census.leave(left);
        }
    });
}
