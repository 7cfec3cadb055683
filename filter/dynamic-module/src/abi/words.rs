//! The enumerations and errors of Envoy's interface, and the guard against panics. All of it is safe.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A callback that refused to do what it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Envoy refused {0}")]
pub(crate) struct HostError(pub(crate) &'static str);

pub(super) fn accepted(did: bool, what: &'static str) -> Result<(), HostError> {
    if did { Ok(()) } else { Err(HostError(what)) }
}

/// The level of a line in Envoy's log.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Level {
    Debug = 1,
    Warn = 3,
    Error = 4,
}

/// The headers of a request or of a response (`envoy_dynamic_module_type_http_header_type`).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Headers {
    Request = 0,
    Response = 2,
}

/// An attribute of a request (`envoy_dynamic_module_type_attribute_id`).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Attribute {
    /// Behind the hops that Envoy trusts.
    SourceAddress = 24,
    UpstreamAddress = 41,
    RouteName = 61,
    /// Before 1.40, Envoy returns the name of the virtual cluster instead.
    VirtualHostName = 63,
}

/// The owner of metadata (`envoy_dynamic_module_type_metadata_source`).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Metadata {
    Route = 1,
    Cluster = 2,
}

/// Runs a hook and catches its panic, which would end Envoy's process.
pub(super) fn guard<T>(hook: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(hook)) {
        Ok(answer) => Some(answer),
        Err(payload) => {
            // Do not drop it: its destructor could panic, too.
            std::mem::forget(payload);
            None
        }
    }
}
