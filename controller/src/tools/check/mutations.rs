//! Envoy's header mutations, and what they do to the internal headers.

use crate::envoy_config::node::ConfigNode;
use limpet_core::envoy::{ROUTE_SESSION_FORMAT, SESSION_HEADER};

/// Whether a mutation removes the header.
pub(super) fn removes(mutation: &ConfigNode<'_>, header: &str) -> bool {
    let matcher = mutation.at(&["remove_on_match", "key_matcher"]);
    let pattern = |kind: &str| matcher.as_ref()?.text(kind).map(str::to_ascii_lowercase);
    mutation
        .text("remove")
        .is_some_and(|name| name.eq_ignore_ascii_case(header))
        || pattern("exact").is_some_and(|name| name == header)
        || pattern("prefix").is_some_and(|prefix| header.starts_with(&prefix))
}

/// The part of a mutation that appends to the header for the route's session.
pub(super) fn session_append<'a>(mutation: &ConfigNode<'a>) -> Option<ConfigNode<'a>> {
    let append = mutation.get("append")?;
    let key = append.at(&["header", "key"])?;
    let is_it = key.value.as_str()?.eq_ignore_ascii_case(SESSION_HEADER);
    is_it.then_some(append)
}

/// Whether what is appended is the session of the route, rather than any other text.
pub(super) fn is_route_session(append: &ConfigNode<'_>) -> bool {
    append
        .at(&["header", "value"])
        .is_some_and(|value| value.value == ROUTE_SESSION_FORMAT)
}

/// Whether the header for the route's session has exactly that value after a mutation; `before`: whether it had.
pub(super) fn has_session(before: bool, mutation: &ConfigNode<'_>) -> bool {
    let Some(append) = session_append(mutation) else {
        return before && !removes(mutation, SESSION_HEADER);
    };
    let is_session = is_route_session(&append);
    match append.text("append_action") {
        Some("OVERWRITE_IF_EXISTS_OR_ADD") => is_session,
        Some("OVERWRITE_IF_EXISTS") => before && is_session,
        Some("ADD_IF_ABSENT") => before || is_session,
        _ => !before && is_session,
    }
}
