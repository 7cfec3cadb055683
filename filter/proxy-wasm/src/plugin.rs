//! The configuration in force, which streams share.

use limpet_core::{Counters, Filter};
use proxy_wasm::hostcalls;
use proxy_wasm::types::{LogLevel, Status};

/// A configuration in force, and its counters.
#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) filter: Filter,
    /// The handles are Envoy's ids of the metrics.
    pub(crate) counters: Counters<u32>,
}

/// Writes a line into Envoy's log.
pub(crate) fn log(level: LogLevel, message: &str) {
    // If even the log fails, there is nothing left to do.
    let _: Result<(), Status> = hostcalls::log(level, message);
}

/// Increments a counter, if there is one.
pub(crate) fn count(counter: Option<&u32>) {
    if let Some(id) = counter {
        // The host knows the id, which comes from `define_metric`, and a count is not worth failing a request.
        let _ = hostcalls::increment_metric(*id, 1);
    }
}
