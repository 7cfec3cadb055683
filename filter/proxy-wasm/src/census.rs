use std::cell::RefCell;
use std::net::SocketAddr;

use limpet_core::census::{Backend, Census};
use limpet_core::time::Timestamp;

use crate::budgets;

thread_local! {
    /// The VM's census, which outlives configurations. `None` until one reports.
    pub(crate) static CENSUS: RefCell<Option<Census>> = const { RefCell::new(None) };
}

/// The host on which one more session of this backend may restart. Shared data is read only if this VM knows of a
/// budget.
pub(crate) fn restart_host(backend: &Backend, now: Timestamp) -> Option<SocketAddr> {
    CENSUS.with_borrow(|census| {
        let census = census.as_ref()?;
        census.consume_budget(backend, now)?;
        budgets::consume(backend, |host| !census.has_missed(backend.destination, host, now))
    })
}
