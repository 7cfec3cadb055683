//! What the root of a configuration shares with its streams.

use limpet_core::{Counters, Filter};
use proxy_wasm::hostcalls;
use proxy_wasm::types::{LogLevel, Status};

/// A configuration in force, and its counters.
#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) filter: Filter,
    /// By Envoy's ids.
    pub(crate) counters: Counters<u32>,
}

/// Writes a line into Envoy's log.
pub(crate) fn log(level: LogLevel, message: &str) {
    // Nothing is left to do where even the log fails.
    let _: Result<(), Status> = hostcalls::log(level, message);
}

/// Adds one to a counter, where there is one for what happened.
pub(crate) fn count(counter: Option<&u32>) {
    if let Some(id) = counter {
        // The id comes from `define_metric`, so the host knows it; and a count is not worth a request.
        let _ = hostcalls::increment_metric(*id, 1);
    }
}
