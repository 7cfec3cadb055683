//! Which session a route has: as Envoy's configuration names it, by the table of routes, or by default.

use super::chain::Chain;
use super::per_route;
use super::report::CheckReport;
use super::route_entry::RouteEntry;
use super::session::{CheckedSession, NamedSession, expected_session, session_entry};
use super::steering::is_enabled;
use crate::envoy_config::filter_locator::LocatedBuild;
use limpet_core::config::schema::FilterConfig;
use limpet_core::envoy::{FILTER_NAME, ROUTE_SESSION_FORMAT, SESSION_HEADER};
use limpet_core::{RouteSession, RouteSessionError, Split};

/// Whose sessions the requests of a route have.
#[derive(Debug)]
pub(super) enum CheckedRouteSessions<'c> {
    /// The rule's. `split`: how they are led to their clusters, if there are several.
    Rule {
        session: CheckedSession<'c>,
        split: Option<Split>,
    },
    /// Its cluster's.
    Destination,
}

/// The session that Envoy's configuration of a route names, if it reaches the filter.
pub(super) fn named<'a>(
    report: &mut CheckReport,
    chain: &Chain<'a>,
    entry: &RouteEntry<'_, 'a>,
) -> Option<NamedSession<'a>> {
    let metadata = in_metadata(report, chain, entry);
    let own = per_route::session(report, chain, entry);
    if let (Some(own), Some(metadata)) = (&own, &metadata)
        && own.name != metadata.name
    {
        let message = format!("is ignored: the session in {} wins", own.node.path);
        report.warning(&metadata.node, message);
    }
    own.or(metadata)
}

/// The session that a route's metadata name, if the chain tells it to the filter.
fn in_metadata<'a>(
    report: &mut CheckReport,
    chain: &Chain<'a>,
    entry: &RouteEntry<'_, 'a>,
) -> Option<NamedSession<'a>> {
    let metadata = entry.route.at(&["metadata", "filter_metadata"])?.entry(FILTER_NAME)?;
    let node = session_entry(report, &metadata)?;
    if chain.build == LocatedBuild::Wasm && !chain.tells_session(|filter| is_enabled(filter, entry)) {
        let message = format!(
            "is ignored: expected a header_mutation filter in front of limpet, enabled on this route, that writes \
             {ROUTE_SESSION_FORMAT} into {SESSION_HEADER}"
        );
        report.error(&node, message);
        return None;
    }
    let name = node.value.as_str().map(str::to_owned);
    if name.is_none() {
        report.error(&node, "expected a string, <policy>/<scope>");
    }
    Some(NamedSession { node, name })
}

/// Whose sessions the filter gives to a route's requests.
pub(super) fn of_entry<'c>(
    report: &mut CheckReport,
    config: &'c FilterConfig,
    named: Option<&NamedSession<'_>>,
    entry: &RouteEntry<'_, '_>,
) -> Option<CheckedRouteSessions<'c>> {
    let route = entry.route.text("name").unwrap_or_default();
    let own_scope = if route.is_empty() { "default" } else { route };
    let rule = |policy: &str, scope: Option<&str>, split| {
        let session = CheckedSession::new(config, policy, scope.unwrap_or(own_scope))?;
        Some(CheckedRouteSessions::Rule { session, split })
    };
    if let Some(named) = named {
        return match parse(report, config, named)? {
            RouteSession::Destination => Some(CheckedRouteSessions::Destination),
            RouteSession::Rule { policy, scope, split } => {
                rule(policy, scope.and_then(|scope| std::str::from_utf8(scope).ok()), split)
            }
        };
    }
    let host = entry.virtual_host.text("name").unwrap_or_default();
    let listed = || config.routes.iter().filter(|listed| listed.route == route);
    let listed = listed()
        .find(|listed| listed.virtual_host.as_deref() == Some(host))
        .or_else(|| listed().find(|listed| listed.virtual_host.is_none()));
    if let Some(listed) = listed {
        let split = listed.per_cluster.then_some(Split::Destinations);
        return rule(&listed.policy, listed.scope.as_deref(), split);
    }
    let default = config.default.as_ref()?;
    rule(&default.policy, default.scope.as_deref(), None)
}

/// Reads a session's name; its policy must be one of the filter's configuration.
fn parse<'n>(report: &mut CheckReport, config: &FilterConfig, named: &'n NamedSession<'_>) -> Option<RouteSession<'n>> {
    let name = named.name.as_deref()?;
    match RouteSession::parse(name.as_bytes()) {
        Ok(RouteSession::Rule { policy, .. }) if !config.policies.contains_key(policy) => {}
        Ok(session) => return Some(session),
        Err(error @ RouteSessionError::LongScope) => {
            report.error(&named.node, error.to_string());
            return None;
        }
        Err(_) => {}
    }
    report.error(&named.node, expected_session(config, &format!("{name:?}")));
    None
}
