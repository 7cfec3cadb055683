//! The configuration in force, which streams share.

use std::cell::RefCell;

use limpet_core::time::Timestamp;
use limpet_core::view::ViewError;
use limpet_core::{Counters, DefinedCounters, Filter};
use proxy_wasm::hostcalls;
use proxy_wasm::types::{LogLevel, MetricType, Status};

use crate::host;
use crate::tick;

thread_local! {
    /// Counters of the worker's VM, which outlives configurations.
    static DEFINED: RefCell<DefinedCounters<u32>> = RefCell::default();
}

#[derive(Debug)]
pub(crate) struct WasmPlugin {
    pub(crate) filter: Filter,
    /// Envoy's ids of the metrics.
    pub(crate) counters: Counters<u32>,
    /// Whether requests need the host's time.
    pub(crate) exact_time: bool,
}

impl WasmPlugin {
    pub(crate) fn now(&self) -> Result<Timestamp, ViewError> {
        if self.exact_time { host::now() } else { tick::now() }
    }
}

pub(crate) fn counters(filter: &Filter) -> Result<Counters<u32>, Status> {
    DEFINED.with_borrow_mut(|defined| {
        Counters::define(filter, defined, |name| {
            hostcalls::define_metric(MetricType::Counter, name)
        })
    })
}

pub(crate) fn log(level: LogLevel, message: &str) {
    let _: Result<(), Status> = hostcalls::log(level, message);
}

/// Logs a warning once for all workers, by shared data.
pub(crate) fn warn_once(text: &str) {
    let said = matches!(hostcalls::get_shared_data(text), Ok((Some(_), _)));
    if !said && hostcalls::set_shared_data(text, Some(b"said"), None) == Ok(()) {
        log(LogLevel::Warn, &format!("limpet: {text}"));
    }
}

pub(crate) fn count(counter: Option<&u32>) {
    if let Some(id) = counter {
        tick::count(*id);
    }
}
