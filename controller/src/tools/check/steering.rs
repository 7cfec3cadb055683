//! What Limpet's filter and the filters that steer do on the routes that have sessions.

use super::chain::{Chain, HttpFilter};
use super::header_use::STATEFUL_SESSION_PER_ROUTE;
use super::report::CheckReport;
use super::route_entry::RouteEntry;
use super::session::CheckedSession;
use crate::envoy_config::filter_locator::FILTER_CONFIG;
use crate::envoy_config::node::ConfigNode;

/// What a filter does on a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilterStatus {
    /// The chain lacks it. Envoy makes a request's chain once, for the first route that the request matches.
    Absent,
    /// The chain has it, and it does nothing. It asks the route that the request has when the request gets to it.
    Idle,
    Active,
}

/// The innermost level that configures the filter counts.
fn status(filter: &HttpFilter<'_>, entry: &RouteEntry<'_, '_>) -> FilterStatus {
    let (mut is_absent, mut is_idle) = (filter.disabled, false);
    for level in entry.levels() {
        let own = level.get("typed_per_filter_config");
        let Some(own) = own.and_then(|filters| filters.entry(filter.name)) else {
            continue;
        };
        let Some((mut kind, mut content)) = own.typed() else {
            continue;
        };
        is_absent = false;
        if kind == FILTER_CONFIG {
            is_absent = content.flag("disabled");
            // Envoy ignores the inner configuration if this is disabled. Without one, the outer level's holds.
            let inner = content.get("config").filter(|_| !is_absent);
            let Some(inner) = inner.as_ref().and_then(ConfigNode::typed) else {
                continue;
            };
            (kind, content) = inner;
        }
        if kind == STATEFUL_SESSION_PER_ROUTE {
            is_idle = content.flag("disabled");
        }
    }
    match (is_absent, is_idle) {
        (true, _) => FilterStatus::Absent,
        (false, true) => FilterStatus::Idle,
        (false, false) => FilterStatus::Active,
    }
}

pub(super) fn is_enabled(filter: &HttpFilter<'_>, entry: &RouteEntry<'_, '_>) -> bool {
    status(filter, entry) == FilterStatus::Active
}

/// Whether the chain of a route's requests has the filter.
pub(super) fn is_present(filter: &HttpFilter<'_>, entry: &RouteEntry<'_, '_>) -> bool {
    status(filter, entry) != FilterStatus::Absent
}

/// Checks that a route has the filters that its sessions need; `split`: it is the last route of a split, whose sessions
/// are led to other routes.
pub(super) fn check(
    report: &mut CheckReport,
    chain: &Chain<'_>,
    sessions: &[CheckedSession<'_>],
    entry: &RouteEntry<'_, '_>,
    split: bool,
) {
    let Some(any) = sessions.first() else {
        return;
    };
    if let Some(limpet) = chain.limpet().filter(|limpet| !is_enabled(limpet, entry)) {
        let (name, words) = (limpet.name, any.name());
        let message = format!("the filter {name} is disabled here, so there is no session {words}");
        return report.warning(entry.route, message);
    }
    let filters = [(chain.soft(), false), (chain.strict(), true)];
    let filters = filters
        .into_iter()
        .filter_map(|(filter, strict)| Some((filter?, strict)));
    let filters = filters.map(|(filter, strict)| (filter.name, status(filter, entry), strict));
    let filters: Vec<_> = filters.collect();
    let of = |strict: bool| sessions.iter().find(|session| session.config.may_steer(strict));
    let kind = |strict: bool| if strict { "strict" } else { "not strict" };
    for &(name, status, strict) in &filters {
        match of(strict) {
            Some(session) if split => check_last(report, entry, session, (name, strict), status),
            Some(session) if status != FilterStatus::Active => {
                let words = session.name();
                let is = if session.config.strict == strict {
                    format!("is {}", kind(strict))
                } else {
                    "is not strict while it moves".to_owned()
                };
                let message = format!(
                    "typed_per_filter_config: expected {name} enabled: the session {words} {is}, and this filter \
                     steers it"
                );
                report.error(entry.route, message);
            }
            _ => {}
        }
    }
    for &(name, status, strict) in &filters {
        if status == FilterStatus::Active && of(strict).is_none() {
            let (words, kind) = (any.name(), kind(!strict));
            let message = format!(
                "typed_per_filter_config: expected {name} disabled: the session {words} is {kind}, so this filter only \
                 adds a header to every response"
            );
            report.warning(entry.route, message);
        }
    }
}

/// The filter that steers sessions of a split must be in the chain of its last route, for sessions that are led to
/// other routes, and do nothing for those that stay.
fn check_last(
    report: &mut CheckReport,
    entry: &RouteEntry<'_, '_>,
    session: &CheckedSession<'_>,
    (name, strict): (&str, bool),
    status: FilterStatus,
) {
    let words = session.name();
    let expected =
        format!("typed_per_filter_config: expected {name} disabled by a StatefulSessionPerRoute with disabled: true");
    match status {
        FilterStatus::Idle => {}
        FilterStatus::Absent => {
            let message = format!(
                "{expected}, and not otherwise: Envoy makes the chain for this route, so it would not steer sessions \
                 {words} that are led to the routes of their clusters"
            );
            report.error(entry.route, message);
        }
        FilterStatus::Active if strict => {
            let message = format!(
                "{expected}: a session {words} whose cluster no longer has a route would fail here until it ends"
            );
            report.error(entry.route, message);
        }
        FilterStatus::Active => {
            let message =
                format!("{expected}: a session {words} whose cluster no longer has a route must not be steered here");
            report.warning(entry.route, message);
        }
    }
}
