//! Splits: routes whose traffic goes to several clusters, each of which has a route of its own in front that sessions are led to.

use serde_json::Value;

use super::report::Report;
use super::route_entry::RouteEntry;
use super::session::Session;
use crate::envoy_config::node::{Node, camel_case};
use limpet_core::envoy::{DESTINATION_HEADER, UNAVAILABLE_CLUSTER};
use limpet_core::token::Destination;

/// What a route asks of the header that sessions are led by.
#[derive(Debug)]
pub(super) struct DestinationMatcher<'a> {
    node: Node<'a>,
    /// The value that it must have; `None` where it is matched otherwise.
    exact: Option<Node<'a>>,
}

/// What a route asks of the header that sessions are led by, where it does.
pub(super) fn matcher<'a>(route: &Node<'a>) -> Option<DestinationMatcher<'a>> {
    let headers = route.get("match")?.list("headers");
    let node = headers.into_iter().find(is_destination)?;
    let exact = node
        .at(&["string_match", "exact"])
        .or_else(|| node.get("exact_match"))
        .filter(|_| !node.flag("invert_match"));
    Some(DestinationMatcher { node, exact })
}

fn is_destination(matcher: &Node<'_>) -> bool {
    let name = matcher.text("name");
    name.is_some_and(|name| name.eq_ignore_ascii_case(DESTINATION_HEADER))
}

/// The routes of a virtual host that sessions are led to, in order.
#[derive(Debug, Default)]
pub(super) struct DestinationRoutes(Vec<DestinationRoute>);

#[derive(Debug)]
struct DestinationRoute {
    /// What else the route matches on.
    rest: Value,
    cluster: String,
    session: String,
}

impl DestinationRoutes {
    /// Checks a route that matches on the header, and remembers it.
    pub(super) fn add(
        &mut self,
        report: &mut Report,
        matcher: &DestinationMatcher<'_>,
        entry: &RouteEntry<'_, '_>,
        session: Option<&Session<'_>>,
    ) {
        let Some(cluster) = entry.route.get("route").and_then(|action| action.text("cluster")) else {
            let message = format!(
                "expected a route to one cluster: it matches on {DESTINATION_HEADER}, which says which cluster a session is on"
            );
            return report.error(entry.route, message);
        };
        let expected = hash(cluster);
        match &matcher.exact {
            Some(exact) if exact.value == expected.as_str() => {}
            Some(exact) => {
                return report.error(
                    exact,
                    format!("expected {expected}, the short hash of the cluster {cluster}: this is another cluster's, or none's"),
                );
            }
            None => {
                return report.error(
                    &matcher.node,
                    format!("expected string_match.exact with {expected}, the short hash of the cluster {cluster}"),
                );
            }
        }
        if let Some(session) = session {
            self.0.push(DestinationRoute {
                rest: rest(entry.route),
                cluster: cluster.to_owned(),
                session: session.name(),
            });
        }
    }

    /// Checks the last route of a split.
    pub(super) fn check(&self, report: &mut Report, session: &Session<'_>, entry: &RouteEntry<'_, '_>) {
        let (rest, words) = (rest(entry.route), session.name());
        for cluster in entry.clusters.iter().filter(|cluster| **cluster != UNAVAILABLE_CLUSTER) {
            let is_its = |led: &DestinationRoute| led.cluster == *cluster && led.session == words && led.rest == rest;
            if !self.0.iter().any(is_its) {
                let message = format!(
                    "expected a route to {cluster} in front, with the same match and session, and {DESTINATION_HEADER} exact {}: without it a session {words} there may be lost with its next request",
                    hash(cluster)
                );
                report.warning(entry.route, message);
            }
        }
    }
}

/// What tokens know a cluster by.
fn hash(cluster: &str) -> String {
    Destination::of_cluster(cluster.as_bytes()).to_string()
}

/// What a route matches on apart from the header.
fn rest(route: &Node<'_>) -> Value {
    let Some(own) = route.get("match") else {
        return Value::Null;
    };
    let mut rest = own.value.clone();
    let others = own.list("headers");
    let others = others.iter().filter(|matcher| !is_destination(matcher));
    let others: Vec<Value> = others.map(|matcher| matcher.value.clone()).collect();
    if let Some(fields) = rest.as_object_mut() {
        fields.insert("headers".to_owned(), others.into());
    }
    uniform(rest)
}

/// A match, or a part of it, in one of the ways to write it that Envoy reads alike: names in camel case, and nothing that says what holds
/// anyway. Configurations of other extensions stay as they are: what is a name there and what is data, only they know.
fn uniform(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(uniform).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| match camel_case(&name) {
                name if name == "typedConfig" => (name, value),
                name => (name, uniform(value)),
            })
            .filter(|(name, value)| !holds_anyway(name, value))
            .collect(),
        other => other,
    }
}

/// Whether a field of a match has its default, which for a `oneof` and most wrappers is more than to be absent (Envoy's `RouteMatch` and the
/// matchers in it).
fn holds_anyway(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Bool(is) => match name {
            "caseSensitive" => *is,
            "ignoreCase" | "invertMatch" | "invert" | "treatMissingHeaderAsEmpty" => !is,
            _ => false,
        },
        Value::String(text) => name == "denominator" && text == "HUNDRED",
        _ => false,
    }
}
