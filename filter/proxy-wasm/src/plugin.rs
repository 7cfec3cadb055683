//! The configuration in force, which streams share.

use std::cell::RefCell;

use limpet_core::time::Timestamp;
use limpet_core::view::ViewError;
use limpet_core::{Counters, Defined, Filter};
use proxy_wasm::hostcalls;
use proxy_wasm::types::{LogLevel, MetricType, Status};

use crate::host;
use crate::tick;

thread_local! {
    /// A worker's VM lives on when the configuration changes, and so do its counters.
    static DEFINED: RefCell<Defined<u32>> = RefCell::default();
}

/// A configuration in force, and its counters.
#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) filter: Filter,
    /// The handles are Envoy's ids of the metrics.
    pub(crate) counters: Counters<u32>,
    /// Whether requests need the time of the host.
    pub(crate) exact_time: bool,
}

impl Plugin {
    /// The time for a request.
    pub(crate) fn now(&self) -> Result<Timestamp, ViewError> {
        if self.exact_time { host::now() } else { tick::now() }
    }
}

/// The counters of a configuration.
pub(crate) fn counters(filter: &Filter) -> Result<Counters<u32>, Status> {
    DEFINED.with_borrow_mut(|defined| {
        Counters::define(filter, defined, |name| {
            hostcalls::define_metric(MetricType::Counter, name)
        })
    })
}

/// Writes a line into Envoy's log.
pub(crate) fn log(level: LogLevel, message: &str) {
    // If even the log fails, there is nothing left to do.
    let _: Result<(), Status> = hostcalls::log(level, message);
}

/// Writes a warning into Envoy's log. Each worker has its own VM. Shared data makes sure that only the first one warns.
pub(crate) fn warn_once(text: &str) {
    let said = matches!(hostcalls::get_shared_data(text), Ok((Some(_), _)));
    if !said && hostcalls::set_shared_data(text, Some(b"said"), None) == Ok(()) {
        log(LogLevel::Warn, &format!("limpet: {text}"));
    }
}

/// Increments a counter, if there is one.
pub(crate) fn count(counter: Option<&u32>) {
    if let Some(id) = counter {
        tick::count(*id);
    }
}
