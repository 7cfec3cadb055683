//! The routes of a chain, and the sessions that they have.

use std::collections::BTreeMap;

use limpet_core::config::schema::{FilterConfig, PolicyConfig};
use limpet_core::token::Destination;
use limpet_core::{RouteSession, RouteSessionError};

use super::chain::{Chain, HttpFilter, INTERNAL_HEADERS, ROUTE_SESSION, SESSION_HEADER, missing};
use super::per_route;
use super::report::{Report, Severity};
use crate::find::{Build, NAME};
use crate::node::Node;

/// A route, or one of its weighted clusters.
#[derive(Debug)]
pub(super) struct Place<'n, 'a> {
    routes: &'n Node<'a>,
    host: &'n Node<'a>,
    route: &'n Node<'a>,
    /// The weighted cluster, where it has configurations of filters of its own.
    cluster: Option<Node<'a>>,
}

impl<'n, 'a> Place<'n, 'a> {
    /// What may have configurations of filters, outer ones first.
    pub(super) fn levels(&self) -> impl Iterator<Item = &Node<'a>> {
        [self.routes, self.host, self.route].into_iter().chain(&self.cluster)
    }

    /// The places of a route, each with the clusters that a request there is sent to.
    fn all(routes: &'n Node<'a>, host: &'n Node<'a>, route: &'n Node<'a>) -> Vec<(Self, Vec<&'a str>)> {
        let place = |cluster| Self {
            routes,
            host,
            route,
            cluster,
        };
        let weighted = route.at(&["route", "weighted_clusters"]);
        let weighted = weighted.map(|weighted| weighted.list("clusters")).unwrap_or_default();
        let is_one = weighted.is_empty();
        let (own, shared): (Vec<_>, Vec<_>) = weighted
            .into_iter()
            .partition(|cluster| cluster.get("typed_per_filter_config").is_some());
        let mut places = Vec::new();
        if is_one || !shared.is_empty() {
            let cluster = route.get("route").and_then(|action| action.text("cluster"));
            let clusters = shared.iter().filter_map(|cluster| cluster.text("name"));
            places.push((place(None), cluster.into_iter().chain(clusters).collect()));
        }
        places.extend(own.into_iter().map(|cluster| {
            let name = cluster.text("name");
            (place(Some(cluster)), Vec::from_iter(name))
        }));
        places
    }
}

/// A session as a configuration of Envoy names it.
#[derive(Debug)]
pub(super) struct Named<'a> {
    pub(super) node: Node<'a>,
    /// `<policy>/<scope>`; `None` where it is something else, which is reported.
    pub(super) text: Option<String>,
}

/// The session of a route.
#[derive(Debug, Clone)]
struct Session<'c> {
    policy: &'c str,
    config: &'c PolicyConfig,
    scope: String,
}

impl Session<'_> {
    fn words(&self) -> String {
        format!("{}/{}", self.policy, self.scope)
    }
}

/// Checks a route configuration, `config` being that of the filter where it is known.
pub(super) fn check(report: &mut Report, chain: &Chain<'_>, config: Option<&FilterConfig>, routes: &Node<'_>) {
    let mut sessions = Sessions::default();
    let mut present = Vec::new();
    for host in routes.list("virtual_hosts") {
        for route in host.list("routes") {
            let name = route.text("name").unwrap_or_default();
            present.push((name, host.text("name").unwrap_or_default()));
            for (place, clusters) in Place::all(routes, &host, &route) {
                check_upstream(report, chain, &place);
                let named = named(report, chain, &place);
                let Some(config) = config else { continue };
                let Some(session) = session(report, config, named.as_ref(), &place) else {
                    continue;
                };
                if route.get("route").is_some() {
                    check_steering(report, chain, &session, &place);
                    sessions.add(report, &session, &route, clusters);
                }
            }
        }
    }
    for (i, entry) in config.iter().flat_map(|config| config.routes.iter().enumerate()) {
        let is_meant = |&(route, host): &(&str, &str)| {
            route == entry.route && entry.virtual_host.as_ref().is_none_or(|expected| expected == host)
        };
        if !present.iter().any(is_meant) {
            let message = format!("no route {:?} is there", entry.route);
            report.field(Severity::Warning, routes, &format!("routes[{i}].route"), message);
        }
    }
}

/// The session that Envoy's configuration of a route names, where it reaches the filter.
fn named<'a>(report: &mut Report, chain: &Chain<'a>, place: &Place<'_, 'a>) -> Option<Named<'a>> {
    let metadata = metadata(report, chain, place);
    let own = per_route::session(report, chain, place);
    if let (Some(own), Some(metadata)) = (&own, &metadata)
        && own.text != metadata.text
    {
        let message = format!("is ignored: the session in {} wins", own.node.path);
        report.warning(&metadata.node, message);
    }
    own.or(metadata)
}

/// The session that a route's metadata name, where the chain tells the filter of it.
fn metadata<'a>(report: &mut Report, chain: &Chain<'a>, place: &Place<'_, 'a>) -> Option<Named<'a>> {
    let metadata = place.route.at(&["metadata", "filter_metadata"])?.entry(NAME)?;
    for field in metadata.children().filter(|field| !field.path.ends_with(".session")) {
        report.warning(&field, "expected nothing but session here");
    }
    let node = metadata.entry("session")?;
    if chain.build == Build::Wasm && !chain.tells_session(|filter| is_enabled(filter, place)) {
        report.error(&node, format!("is ignored: expected a header_mutation filter in front of limpet, enabled on this route, that writes {ROUTE_SESSION} into {SESSION_HEADER}"));
        return None;
    }
    let text = node.value.as_str().map(str::to_owned);
    if text.is_none() {
        report.error(&node, "expected a string, <policy>/<scope>");
    }
    Some(Named { node, text })
}

/// The session that the filter gives a route's requests: as it is named there, by the table, or by default.
fn session<'c>(
    report: &mut Report,
    config: &'c FilterConfig,
    named: Option<&Named<'_>>,
    place: &Place<'_, '_>,
) -> Option<Session<'c>> {
    let name = place.route.text("name").unwrap_or_default();
    let own_scope = if name.is_empty() { "default" } else { name };
    let session = |policy: &str, scope: Option<&str>| {
        let (policy, config) = config.policies.get_key_value(policy)?;
        Some(Session {
            policy,
            config,
            scope: scope.unwrap_or(own_scope).to_owned(),
        })
    };
    if let Some(named) = named {
        let (policy, scope) = policy_and_scope(report, config, named)?;
        return session(policy, scope);
    }
    let host = place.host.text("name").unwrap_or_default();
    let of_route = || config.routes.iter().filter(|entry| entry.route == name);
    let entry = of_route()
        .find(|entry| entry.virtual_host.as_deref() == Some(host))
        .or_else(|| of_route().find(|entry| entry.virtual_host.is_none()));
    if let Some(entry) = entry {
        return session(&entry.policy, entry.scope.as_deref());
    }
    let default = config.default.as_ref()?;
    session(&default.policy, default.scope.as_deref())
}

/// Policy and scope, where a session is named.
fn policy_and_scope<'n>(
    report: &mut Report,
    config: &FilterConfig,
    named: &'n Named<'_>,
) -> Option<(&'n str, Option<&'n str>)> {
    let text = named.text.as_deref()?;
    let (policy, scope) = match RouteSession::parse(text.as_bytes()) {
        // The clusters' metadata say whose sessions these are.
        Ok(RouteSession::Destination) => return None,
        Ok(RouteSession::Rule { policy, scope, .. }) if config.policies.contains_key(policy) => (policy, scope),
        Err(error @ RouteSessionError::LongScope) => {
            report.error(&named.node, error.to_string());
            return None;
        }
        _ => {
            let known: Vec<&str> = config.policies.keys().map(String::as_str).collect();
            let message = format!(
                "expected <policy>/<scope> with a policy of the filter's configuration ({}), found {text:?}",
                known.join(", ")
            );
            report.error(&named.node, message);
            return None;
        }
    };
    let scope = scope.and_then(|scope| std::str::from_utf8(scope).ok());
    Some((policy, scope))
}

/// Whether a route has a filter: the innermost level that says something about it counts.
fn is_enabled(filter: &HttpFilter<'_>, place: &Place<'_, '_>) -> bool {
    place.levels().fold(!filter.disabled, |enabled, level| {
        let own = level
            .get("typed_per_filter_config")
            .and_then(|filters| filters.entry(filter.name));
        own.map_or(enabled, |own| {
            let content = own.typed().map_or(own.clone(), |(_, content)| content);
            !content.flag("disabled")
        })
    })
}

/// Whether the filters that a session needs are on its route.
fn check_steering(report: &mut Report, chain: &Chain<'_>, session: &Session<'_>, place: &Place<'_, '_>) {
    let route = place.route;
    let words = session.words();
    let on = |filter: Option<&HttpFilter<'_>>| filter.map(|filter| (filter.name.to_owned(), is_enabled(filter, place)));
    if let Some((name, false)) = on(chain.limpet()) {
        return report.warning(
            route,
            format!("the filter {name} is disabled here, so there is no session {words}"),
        );
    }
    let (soft, strict) = (on(chain.soft()), on(chain.strict()));
    let (kind, needed, spare) = if session.config.strict {
        ("strict", strict, soft)
    } else {
        ("not strict", soft, strict)
    };
    if let Some((name, false)) = needed {
        report.error(route, format!("typed_per_filter_config: expected {name} enabled: the session {words} is {kind}, and this filter steers it"));
    }
    if let Some((name, true)) = spare {
        report.warning(route, format!("typed_per_filter_config: expected {name} disabled: the session {words} is {kind}, and there this filter only adds a header to every response"));
    }
}

/// Whether backends are kept from the internal headers.
fn check_upstream(report: &mut Report, chain: &Chain<'_>, place: &Place<'_, '_>) {
    if place.route.get("route").is_none() || chain.build == Build::Module {
        return;
    }
    let visible = missing(&INTERNAL_HEADERS, |header| {
        let is_it = |name: &Node<'_>| {
            name.value
                .as_str()
                .is_some_and(|name| name.eq_ignore_ascii_case(header))
        };
        chain.hides_from_upstream(header)
            || place
                .levels()
                .any(|level| level.list("request_headers_to_remove").iter().any(is_it))
    });
    if !visible.is_empty() {
        report.error(
            place.routes,
            format!("request_headers_to_remove: expected {visible}: backends would see them"),
        );
    }
}

/// The sessions of a route configuration.
#[derive(Debug, Default)]
struct Sessions {
    /// By session: its clusters, by destination.
    clusters: BTreeMap<String, BTreeMap<String, String>>,
    /// By cookie (name, domain, path): the session that writes it.
    cookies: BTreeMap<(String, Option<String>, String), String>,
}

impl Sessions {
    fn add(&mut self, report: &mut Report, session: &Session<'_>, route: &Node<'_>, clusters: Vec<&str>) {
        if clusters.len() > 1 {
            let words = session.words();
            report.warning(
                route,
                format!(
                    "weighted_clusters: the session {words} holds only while Envoy chooses the cluster of its backend"
                ),
            );
        }
        for cluster in clusters {
            self.add_cluster(report, session, route, cluster);
        }
        if let Some(cookie) = &session.config.cookie {
            let key = (cookie.name.clone(), cookie.domain.clone(), cookie.path.clone());
            let other = self.cookies.entry(key).or_insert_with(|| session.words());
            if *other != session.words() {
                let (name, path) = (&cookie.name, &cookie.path);
                let message = format!(
                    "the session {} has the cookie {name} with path {path}, as {other} has: a client has one such cookie, so each of the two ends the other",
                    session.words()
                );
                report.warning(route, message);
            }
        }
    }

    /// Tokens name a cluster by a short hash, so within a session it must be unique.
    fn add_cluster(&mut self, report: &mut Report, session: &Session<'_>, route: &Node<'_>, cluster: &str) {
        let destination = Destination::of_cluster(cluster.as_bytes()).to_string();
        let destinations = self.clusters.entry(session.words()).or_default();
        let other = destinations.entry(destination).or_insert_with(|| cluster.to_owned());
        if other != cluster {
            let words = session.words();
            report.error(route, format!("the clusters {other} and {cluster} of the session {words} have one destination hash, so tokens can not tell them apart: rename one of them"));
        }
    }
}
