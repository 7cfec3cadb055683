//! The routes of a chain, and the sessions that they have.

use std::collections::BTreeMap;

use limpet_core::carrier::cookie_name::CookieNames;
use limpet_core::config::schema::{CookieConfig, CookieModeConfig, FilterConfig, PolicyConfig};
use limpet_core::{RouteSession, RouteSessionError};

use super::chain::Chain;
use super::headers::{self};
use super::report::{Report, Severity};
use super::splits::{self, Led};
use super::steering::is_enabled;
use super::{destinations, per_route, steering};
use crate::envoy_config::discovery::Sources;
use crate::envoy_config::filter_locator::Build;
use crate::envoy_config::node::Node;
use limpet_core::envoy::FILTER_NAME;
use limpet_core::envoy::{DESTINATION_HEADER, INTERNAL_HEADERS, ROUTE_SESSION_FORMAT, SESSION_HEADER};

/// A route, or one of its weighted clusters.
#[derive(Debug)]
pub(super) struct Place<'n, 'a> {
    routes: &'n Node<'a>,
    host: &'n Node<'a>,
    pub(super) route: &'n Node<'a>,
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

/// A session, by its policy and scope.
#[derive(Debug, Clone)]
pub(super) struct Session<'c> {
    policy: &'c str,
    pub(super) config: &'c PolicyConfig,
    scope: String,
}

impl<'c> Session<'c> {
    /// `None` where there is no such policy.
    pub(super) fn new(config: &'c FilterConfig, policy: &str, scope: &str) -> Option<Self> {
        let (policy, config) = config.policies.get_key_value(policy)?;
        Some(Self {
            policy,
            config,
            scope: scope.to_owned(),
        })
    }

    pub(super) fn words(&self) -> String {
        format!("{}/{}", self.policy, self.scope)
    }
}

/// Whose sessions a route has.
#[derive(Debug)]
enum Whose<'c> {
    /// The rule's. `split`: they are led to routes of their clusters.
    Rule { session: Session<'c>, split: bool },
    /// The cluster's that it leads to.
    Destination,
}

/// Checks a route configuration, `config` being that of the filter where it is known.
pub(super) fn check<'a>(
    report: &mut Report,
    chain: &Chain<'a>,
    config: Option<&FilterConfig>,
    sources: &Sources<'a>,
    routes: &Node<'a>,
) {
    let mut sessions = Sessions::default();
    let mut present = Vec::new();
    let mut any_led = false;
    for host in routes.list("virtual_hosts") {
        let mut led = Led::default();
        for route in host.list("routes") {
            let name = route.text("name").unwrap_or_default();
            present.push((name, host.text("name").unwrap_or_default()));
            let matcher = splits::matcher(&route);
            any_led |= matcher.is_some();
            for (place, clusters) in Place::all(routes, &host, &route) {
                let named = named(report, chain, &place);
                let whose = config.and_then(|config| whose(report, config, named.as_ref(), &place));
                let is_split = matches!(whose, Some(Whose::Rule { split: true, .. }));
                check_upstream(report, chain, &place, matcher.is_some() || is_split);
                if let Some(matcher) = &matcher {
                    let session = match &whose {
                        Some(Whose::Rule { session, .. }) => Some(session),
                        _ => None,
                    };
                    led.add(report, matcher, &place, session);
                }
                if route.get("route").is_none() {
                    continue;
                }
                match (whose, config) {
                    (Some(Whose::Rule { session, split }), _) => {
                        let is_last = split && matcher.is_none();
                        if is_last {
                            led.check(report, &session, &place, &clusters);
                        } else if matcher.is_none() && clusters.len() > 1 {
                            let words = session.words();
                            report.warning(&route, format!("weighted_clusters: the session {words} holds only while Envoy chooses the cluster of its backend: expected @split/{words} in the metadata, and a route for each cluster in front"));
                        }
                        steering::check(report, chain, std::slice::from_ref(&session), &place, is_last);
                        sessions.add(report, &session, &route, &clusters);
                    }
                    (Some(Whose::Destination), Some(config)) => {
                        let found = destinations::sessions(report, chain, config, sources, &place, &clusters);
                        let (found, nodes): (Vec<_>, Vec<_>) = found.into_iter().unzip();
                        for (session, node) in found.iter().zip(&nodes) {
                            sessions.add(report, session, node, &[]);
                        }
                        steering::check(report, chain, &found, &place, false);
                    }
                    _ => {}
                }
            }
        }
    }
    if any_led && chain.build == Build::Module {
        headers::check_early(report, chain, &[DESTINATION_HEADER]);
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
    let metadata = place.route.at(&["metadata", "filter_metadata"])?.entry(FILTER_NAME)?;
    for field in metadata.children().filter(|field| !field.path.ends_with(".session")) {
        report.warning(&field, "expected nothing but session here");
    }
    let node = metadata.entry("session")?;
    if chain.build == Build::Wasm && !chain.tells_session(|filter| is_enabled(filter, place)) {
        report.error(&node, format!("is ignored: expected a header_mutation filter in front of limpet, enabled on this route, that writes {ROUTE_SESSION_FORMAT} into {SESSION_HEADER}"));
        return None;
    }
    let text = node.value.as_str().map(str::to_owned);
    if text.is_none() {
        report.error(&node, "expected a string, <policy>/<scope>");
    }
    Some(Named { node, text })
}

/// Whose sessions the filter gives a route's requests: as it is named there, by the table, or by default.
fn whose<'c>(
    report: &mut Report,
    config: &'c FilterConfig,
    named: Option<&Named<'_>>,
    place: &Place<'_, '_>,
) -> Option<Whose<'c>> {
    let name = place.route.text("name").unwrap_or_default();
    let own_scope = if name.is_empty() { "default" } else { name };
    let rule = |policy: &str, scope: Option<&str>, split| {
        let session = Session::new(config, policy, scope.unwrap_or(own_scope))?;
        Some(Whose::Rule { session, split })
    };
    if let Some(named) = named {
        return match route_session(report, config, named)? {
            RouteSession::Destination => Some(Whose::Destination),
            RouteSession::Rule { policy, scope, split } => {
                rule(policy, scope.and_then(|scope| std::str::from_utf8(scope).ok()), split)
            }
        };
    }
    let host = place.host.text("name").unwrap_or_default();
    let of_route = || config.routes.iter().filter(|entry| entry.route == name);
    let entry = of_route()
        .find(|entry| entry.virtual_host.as_deref() == Some(host))
        .or_else(|| of_route().find(|entry| entry.virtual_host.is_none()));
    if let Some(entry) = entry {
        return rule(&entry.policy, entry.scope.as_deref(), false);
    }
    let default = config.default.as_ref()?;
    rule(&default.policy, default.scope.as_deref(), false)
}

/// What is named, where that is a session.
fn route_session<'n>(report: &mut Report, config: &FilterConfig, named: &'n Named<'_>) -> Option<RouteSession<'n>> {
    let text = named.text.as_deref()?;
    match RouteSession::parse(text.as_bytes()) {
        Ok(RouteSession::Rule { policy, .. }) if !config.policies.contains_key(policy) => {}
        Ok(session) => return Some(session),
        Err(error @ RouteSessionError::LongScope) => {
            report.error(&named.node, error.to_string());
            return None;
        }
        Err(_) => {}
    }
    let known: Vec<&str> = config.policies.keys().map(String::as_str).collect();
    let message = format!(
        "expected <policy>/<scope> with a policy of the filter's configuration ({}), found {text:?}",
        known.join(", ")
    );
    report.error(&named.node, message);
    None
}

/// Whether backends are kept from the internal headers. `led`: sessions are led to this route, or away from it.
fn check_upstream(report: &mut Report, chain: &Chain<'_>, place: &Place<'_, '_>, led: bool) {
    let internal = match chain.build {
        Build::Wasm => INTERNAL_HEADERS.as_slice(),
        Build::Module if led => &[DESTINATION_HEADER],
        Build::Module => &[],
    };
    if place.route.get("route").is_none() {
        return;
    }
    let visible = headers::missing(internal, |header| {
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
    /// By cookie (name, domain, path): the session that travels in it, and whether the cookie is the filter's own.
    cookies: BTreeMap<(String, Option<String>, String), (String, bool)>,
}

/// Whether the filter writes the cookie; otherwise it is the application's, whose path is not known here.
fn is_own(cookie: &CookieConfig) -> bool {
    cookie.mode == CookieModeConfig::Insert
}

impl Sessions {
    /// The session of what stands at `node`, which leads to these clusters.
    fn add(&mut self, report: &mut Report, session: &Session<'_>, node: &Node<'_>, clusters: &[&str]) {
        for cluster in clusters {
            self.add_cluster(report, session, node, cluster);
        }
        self.add_cookie(report, session, node);
    }

    /// A client keeps one cookie of a name, domain and path.
    fn add_cookie(&mut self, report: &mut Report, session: &Session<'_>, node: &Node<'_>) {
        let Some(cookie) = &session.config.cookie else {
            return;
        };
        let names = CookieNames::new(&cookie.name, session.scope.as_bytes(), cookie.per_scope);
        let (name, path, words) = (names.current(), &cookie.path, session.words());
        let key = (name.to_owned(), cookie.domain.clone(), path.clone());
        let (other, other_is_own) = self
            .cookies
            .entry(key)
            .or_insert_with(|| (words.clone(), is_own(cookie)));
        if *other == words {
            return;
        }
        if *other_is_own && is_own(cookie) {
            let message = format!(
                "the session {words} has the cookie {name} with path {path}, as {other} has: a client has one such cookie, so each of the two ends the other; perScope: true gives each its own"
            );
            return report.warning(node, message);
        }
        let message = format!(
            "not checked: the path of the application's cookie {name}, in which the session {words} travels as {other} does: where the path is the same, each of the two ends the other"
        );
        report.note(node, message);
    }

    /// Tokens name a cluster by a short hash, so within a session it must be unique.
    fn add_cluster(&mut self, report: &mut Report, session: &Session<'_>, route: &Node<'_>, cluster: &str) {
        let destination = splits::hash(cluster);
        let destinations = self.clusters.entry(session.words()).or_default();
        let other = destinations.entry(destination).or_insert_with(|| cluster.to_owned());
        if other != cluster {
            let words = session.words();
            report.error(route, format!("the clusters {other} and {cluster} of the session {words} have one destination hash, so tokens can not tell them apart: rename one of them"));
        }
    }
}
