//! The safe parts: Envoy's enumerations and errors, and the guard against panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Envoy refused {0}")]
pub(crate) struct HostError(pub(crate) &'static str);

pub(super) fn accepted(did: bool, what: &'static str) -> Result<(), HostError> {
    if did { Ok(()) } else { Err(HostError(what)) }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum LogLevel {
    Debug = 1,
    Warn = 3,
    Error = 4,
}

/// `envoy_dynamic_module_type_http_header_type`
#[derive(Debug, Clone, Copy)]
pub(crate) enum HeaderType {
    Request = 0,
    Response = 2,
}

/// `envoy_dynamic_module_type_attribute_id`
#[derive(Debug, Clone, Copy)]
pub(crate) enum AttributeId {
    /// Behind the hops that Envoy trusts.
    SourceAddress = 24,
    UpstreamAddress = 41,
    RouteName = 61,
    /// Before 1.40, Envoy returns the virtual cluster's name instead.
    VirtualHostName = 63,
}

/// `envoy_dynamic_module_type_metadata_source`
#[derive(Debug, Clone, Copy)]
pub(crate) enum MetadataSource {
    Route = 1,
    Cluster = 2,
}

/// Runs a hook and catches its panic, which would end Envoy's process.
pub(super) fn guard<T>(hook: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(hook)) {
        Ok(answer) => Some(answer),
        Err(payload) => {
            // Not dropped: its destructor could panic, too.
            std::mem::forget(payload);
            None
        }
    }
}
