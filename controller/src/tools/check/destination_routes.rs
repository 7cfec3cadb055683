//! The routes of a split: each cluster has a route of its own, in front of the weighted one, that sessions are led to.
//! These routes match on the header that names the destination.

use serde_json::Value;

use super::report::CheckReport;
use super::route_entry::RouteEntry;
use super::session::CheckedSession;
use crate::envoy_config::node::{ConfigNode, camel_case};
use limpet_core::envoy::{DESTINATION_HEADER, UNAVAILABLE_CLUSTER};
use limpet_core::token::{DestinationId, cluster_base};

/// A route's matcher of the header that names the destination.
#[derive(Debug)]
pub(super) struct DestinationMatcher<'a> {
    node: ConfigNode<'a>,
    /// The value that the header must have; `None` if it is matched in another way.
    exact: Option<ConfigNode<'a>>,
}

pub(super) fn matcher<'a>(route: &ConfigNode<'a>) -> Option<DestinationMatcher<'a>> {
    let headers = route.get("match")?.list("headers");
    let node = headers.into_iter().find(is_destination)?;
    let exact = node
        .at(&["string_match", "exact"])
        .or_else(|| node.get("exact_match"))
        .filter(|_| !node.flag("invert_match"));
    Some(DestinationMatcher { node, exact })
}

fn is_destination(matcher: &ConfigNode<'_>) -> bool {
    let name = matcher.text("name");
    name.is_some_and(|name| name.eq_ignore_ascii_case(DESTINATION_HEADER))
}

/// The routes of a virtual host, up to the present one, that sessions are led to.
#[derive(Debug, Default)]
pub(super) struct DestinationRoutes(Vec<DestinationRoute>);

#[derive(Debug)]
struct DestinationRoute {
    /// The route's match without the header.
    rest: Value,
    cluster: String,
    session: String,
}

impl DestinationRoutes {
    /// Adds a route that matches on the header, and checks it.
    pub(super) fn add(
        &mut self,
        report: &mut CheckReport,
        matcher: &DestinationMatcher<'_>,
        entry: &RouteEntry<'_, '_>,
        session: Option<&CheckedSession<'_>>,
    ) {
        let Some(cluster) = entry.route.get("route").and_then(|action| action.text("cluster")) else {
            let message = format!(
                "expected a route to one cluster: it matches on {DESTINATION_HEADER}, which names the cluster of a \
                 session"
            );
            return report.error(entry.route, message);
        };
        let expected = hash(cluster);
        match &matcher.exact {
            Some(exact) if exact.value == expected.as_str() => {}
            Some(exact) => {
                let message = format!(
                    "expected {expected}, the short hash of the cluster {cluster}: this is another cluster's, or none's"
                );
                return report.error(exact, message);
            }
            None => {
                let message =
                    format!("expected string_match.exact with {expected}, the short hash of the cluster {cluster}");
                return report.error(&matcher.node, message);
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

    /// Checks the weighted route of a split, its last; `issuing`: the clusters that issue tokens.
    pub(super) fn check(
        &self,
        report: &mut CheckReport,
        session: &CheckedSession<'_>,
        entry: &RouteEntry<'_, '_>,
        issuing: &[&str],
    ) {
        let (rest, words) = (rest(entry.route), session.name());
        for cluster in issuing.iter().filter(|cluster| **cluster != UNAVAILABLE_CLUSTER) {
            // Sessions of all clusters of one base are led to one of them, where their tokens must be renewed.
            let base = cluster_base(cluster.as_bytes());
            let is_led_to = |led: &str| issuing.contains(&led) && cluster_base(led.as_bytes()) == base;
            let is_its = |led: &DestinationRoute| is_led_to(&led.cluster) && led.session == words && led.rest == rest;
            if !self.0.iter().any(is_its) {
                let message = format!(
                    "expected a route to {cluster} in front, with the same match and session, and \
                     {DESTINATION_HEADER} exact {}: without it a session {words} there may be lost with its next \
                     request",
                    hash(cluster)
                );
                report.warning(entry.route, message);
            }
        }
    }
}

/// How tokens name a cluster.
fn hash(cluster: &str) -> String {
    DestinationId::of_cluster(cluster.as_bytes()).to_string()
}

/// A route's match without the header, in one form for all ways to write it.
fn rest(route: &ConfigNode<'_>) -> Value {
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

/// A match, or a part of it, in one of the ways to write it that Envoy reads alike: names in camel case, and no field
/// that has its default. Configurations of other extensions stay as they are: only the extension knows which of their
/// texts are names.
fn uniform(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(uniform).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| match camel_case(&name) {
                name if name == "typedConfig" => (name, value),
                name => (name, uniform(value)),
            })
            .filter(|(name, value)| !is_default(name, value))
            .collect(),
        other => other,
    }
}

/// Whether a field of Envoy's `RouteMatch`, or of a matcher in it, has its default. Fields of a `oneof`, and most
/// wrappers, have their default only if they are absent.
fn is_default(name: &str, value: &Value) -> bool {
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
