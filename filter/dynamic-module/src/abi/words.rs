//! What Envoy's interface says in numbers and answers, and what is safe about it.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A callback that did not do what it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Envoy refused {0}")]
pub(crate) struct HostError(pub(crate) &'static str);

pub(super) fn accepted(did: bool, what: &'static str) -> Result<(), HostError> {
    if did { Ok(()) } else { Err(HostError(what)) }
}

/// How loud a line of Envoy's log is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Level {
    Debug = 1,
    Warn = 3,
    Error = 4,
}

/// Whose headers are meant.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Headers {
    Request = 0,
    Response = 2,
}

/// What Envoy can be asked about a request (`envoy_dynamic_module_type_attribute_id`).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Attribute {
    UpstreamAddress = 41,
    RouteName = 61,
    /// Before 1.40 Envoy answers with the virtual cluster's name.
    VirtualHostName = 63,
}

/// Whose metadata is meant (`envoy_dynamic_module_type_metadata_source`).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Metadata {
    Route = 1,
    Cluster = 2,
}

/// Runs a hook; a panic ends here, for Envoy has no use for one.
pub(super) fn guard<T>(hook: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(hook)) {
        Ok(answer) => Some(answer),
        Err(payload) => {
            // Its destructor could panic in turn.
            std::mem::forget(payload);
            None
        }
    }
}
