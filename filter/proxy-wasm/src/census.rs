//! The sessions that this VM has seen.

use std::cell::RefCell;

use limpet_core::census::{Backend, Census, Left, Seen};
use limpet_core::time::Timestamp;

use crate::budgets;

thread_local! {
    /// A worker's VM lives on when the configuration changes. `None` until one reports.
    pub(crate) static CENSUS: RefCell<Option<Census>> = const { RefCell::new(None) };
}

/// Whether one more session of this backend may begin anew. Other workers are asked only if this one knows of a budget.
pub(crate) fn may_leave(backend: &Backend, now: Timestamp) -> bool {
    let knows_budget = |census: &Census| census.may_leave(backend, now);
    CENSUS.with_borrow(|census| census.as_ref().is_some_and(knows_budget)) && budgets::take(backend)
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
