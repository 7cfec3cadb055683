//! The routes of a chain, and the sessions that they have.

use std::collections::BTreeMap;

use limpet_core::config::schema::{FilterConfig, PolicyConfig};
use limpet_core::token::Destination;

use super::chain::{Chain, HttpFilter, INTERNAL_HEADERS, ROUTE_SESSION, SESSION_HEADER, missing};
use super::report::{Report, Severity};
use crate::find::{Build, NAME};
use crate::node::Node;

const MAX_SCOPE_LEN: usize = 1024;

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
    let mut names = Vec::new();
    for host in routes.list("virtual_hosts") {
        for route in host.list("routes") {
            let name = route.text("name").unwrap_or_default();
            names.push((name, host.text("name").unwrap_or_default()));
            let levels = [routes, &host, &route];
            check_upstream(report, chain, &levels);
            let metadata = metadata(report, chain, &levels);
            let Some(config) = config else { continue };
            let Some(session) = session(report, config, metadata.as_ref(), &host, &route) else {
                continue;
            };
            if route.get("route").is_some() {
                check_steering(report, chain, &session, &levels);
                sessions.add(report, &session, &route);
            }
        }
    }
    for (i, entry) in config.iter().flat_map(|config| config.routes.iter().enumerate()) {
        let is_meant = |&(route, host): &(&str, &str)| {
            route == entry.route && entry.virtual_host.as_ref().is_none_or(|expected| expected == host)
        };
        if !names.iter().any(is_meant) {
            let message = format!("no route {:?} is there", entry.route);
            report.field(Severity::Warning, routes, &format!("routes[{i}].route"), message);
        }
    }
}

/// The session that a route's metadata name, where the chain tells the filter of it.
fn metadata<'a>(report: &mut Report, chain: &Chain<'a>, levels: &[&Node<'a>; 3]) -> Option<Node<'a>> {
    let [_, _, route] = levels;
    let metadata = route.at(&["metadata", "filter_metadata"])?.entry(NAME)?;
    for field in metadata.children().filter(|field| !field.path.ends_with(".session")) {
        report.warning(&field, "expected nothing but session here");
    }
    let named = metadata.entry("session")?;
    if chain.build == Build::Module || chain.tells_session(|filter| is_enabled(filter, levels)) {
        return Some(named);
    }
    report.error(&named, format!("is ignored: expected a header_mutation filter in front of limpet, enabled on this route, that writes {ROUTE_SESSION} into {SESSION_HEADER}"));
    None
}

/// The session that the filter gives a route's requests: by metadata, by the table, or by default.
fn session<'c>(
    report: &mut Report,
    config: &'c FilterConfig,
    metadata: Option<&Node<'_>>,
    host: &Node<'_>,
    route: &Node<'_>,
) -> Option<Session<'c>> {
    let name = route.text("name").unwrap_or_default();
    let own_scope = if name.is_empty() { "default" } else { name };
    let session = |policy: &str, scope: Option<&str>| {
        let (policy, config) = config.policies.get_key_value(policy)?;
        Some(Session {
            policy,
            config,
            scope: scope.unwrap_or(own_scope).to_owned(),
        })
    };
    if let Some(named) = metadata {
        let (policy, scope) = metadata_session(report, config, named)?;
        return session(policy, scope);
    }
    let host = host.text("name").unwrap_or_default();
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

/// Policy and scope as route metadata names them.
fn metadata_session<'a>(
    report: &mut Report,
    config: &FilterConfig,
    named: &Node<'a>,
) -> Option<(&'a str, Option<&'a str>)> {
    let Some(text) = named.value.as_str() else {
        report.error(named, "expected a string, <policy>/<scope>");
        return None;
    };
    let (policy, scope) = text
        .split_once('/')
        .map_or((text, None), |(policy, scope)| (policy, Some(scope)));
    if !config.policies.contains_key(policy) {
        let known: Vec<&str> = config.policies.keys().map(String::as_str).collect();
        report.error(
            named,
            format!(
                "expected <policy>/<scope> with a policy of the filter's configuration ({}), found {text:?}",
                known.join(", ")
            ),
        );
        return None;
    }
    let scope = scope.filter(|scope| !scope.is_empty());
    if scope.is_some_and(|scope| scope.len() > MAX_SCOPE_LEN) {
        report.error(named, "expected a scope of at most 1024 bytes");
        return None;
    }
    Some((policy, scope))
}

/// Whether a route has a filter: the innermost level that says something about it counts.
fn is_enabled(filter: &HttpFilter<'_>, levels: &[&Node<'_>]) -> bool {
    levels.iter().fold(!filter.disabled, |enabled, level| {
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
fn check_steering(report: &mut Report, chain: &Chain<'_>, session: &Session<'_>, levels: &[&Node<'_>; 3]) {
    let [_, _, route] = levels;
    let words = session.words();
    let on =
        |filter: Option<&HttpFilter<'_>>| filter.map(|filter| (filter.name.to_owned(), is_enabled(filter, levels)));
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
fn check_upstream(report: &mut Report, chain: &Chain<'_>, levels: &[&Node<'_>; 3]) {
    let [routes, _, route] = levels;
    if route.get("route").is_none() || chain.build == Build::Module {
        return;
    }
    let visible = missing(&INTERNAL_HEADERS, |header| {
        let is_it = |name: &Node<'_>| {
            name.value
                .as_str()
                .is_some_and(|name| name.eq_ignore_ascii_case(header))
        };
        chain.hides_from_upstream(header)
            || levels
                .iter()
                .any(|level| level.list("request_headers_to_remove").iter().any(is_it))
    });
    if !visible.is_empty() {
        report.error(
            routes,
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
    fn add(&mut self, report: &mut Report, session: &Session<'_>, route: &Node<'_>) {
        let clusters = clusters(route);
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

/// The clusters that a route leads to.
fn clusters<'a>(route: &Node<'a>) -> Vec<&'a str> {
    let Some(action) = route.get("route") else {
        return Vec::new();
    };
    let weighted = action
        .get("weighted_clusters")
        .map(|weighted| weighted.list("clusters"))
        .unwrap_or_default();
    let one = action.text("cluster");
    one.into_iter()
        .chain(weighted.iter().filter_map(|cluster| cluster.text("name")))
        .collect()
}
