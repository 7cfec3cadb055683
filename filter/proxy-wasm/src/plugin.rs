//! What the root of a configuration shares with its streams.

use limpet_core::Filter;
use proxy_wasm::hostcalls;
use proxy_wasm::types::{LogLevel, Status};

use crate::metrics::Metrics;

/// A configuration in force, and its counters.
#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) filter: Filter,
    pub(crate) metrics: Metrics,
}

/// Writes a line into Envoy's log.
pub(crate) fn log(level: LogLevel, message: &str) {
    // Nothing is left to do where even the log fails.
    let _: Result<(), Status> = hostcalls::log(level, message);
}
