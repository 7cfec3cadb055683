//! The routes of a chain, and the sessions that they have.

use super::chain::Chain;
use super::destination_routes::{self, DestinationMatcher, DestinationRoutes};
use super::destinations::OfCluster;
use super::report::{Report, Severity};
use super::route_entry::RouteEntry;
use super::route_sessions::{self, Sessions};
use super::session::Session;
use super::session_conflicts::SessionConflicts;
use super::subsets::{self, Subsets};
use super::{addresses, cluster_types, destinations, headers, matched_parameters, redirects, specifiers, steering};
use crate::envoy_config::discovery::Sources;
use crate::envoy_config::filter_locator::Build;
use crate::envoy_config::node::Node;
use limpet_core::Split;
use limpet_core::carrier::cookie_domain;
use limpet_core::config::schema::FilterConfig;
use limpet_core::envoy::DESTINATION_HEADER;

/// Checks a route configuration; `config`: the filter's own, if it is known.
pub(super) fn check<'a>(
    report: &mut Report,
    chain: &Chain<'a>,
    config: Option<&FilterConfig>,
    sources: &Sources<'a>,
    routes: &Node<'a>,
) {
    let mut check = RouteCheck {
        report,
        chain,
        config,
        sources,
        conflicts: SessionConflicts::default(),
        subsets: Subsets::default(),
    };
    let mut present = Vec::new();
    let mut any_matcher = false;
    for host in routes.list("virtual_hosts") {
        let mut led = DestinationRoutes::default();
        for route in host.list("routes") {
            let name = route.text("name").unwrap_or_default();
            present.push((name, host.text("name").unwrap_or_default()));
            let matcher = destination_routes::matcher(&route);
            any_matcher |= matcher.is_some();
            for entry in RouteEntry::all(routes, &host, &route) {
                check.entry(&entry, matcher.as_ref(), &mut led);
            }
        }
    }
    if any_matcher && chain.build == Build::Module {
        headers::check_early(report, chain, &[DESTINATION_HEADER]);
    }
    if let Some(config) = config {
        check_listed(report, config, routes, &present);
    }
}

/// Checks that the routes of the filter's table exist; `present`: the names of all routes and of their virtual hosts.
fn check_listed(report: &mut Report, config: &FilterConfig, routes: &Node<'_>, present: &[(&str, &str)]) {
    for (i, listed) in config.routes.iter().enumerate() {
        let is_listed = |&(route, host): &(&str, &str)| {
            route == listed.route && listed.virtual_host.as_ref().is_none_or(|expected| expected == host)
        };
        if !present.iter().any(is_listed) {
            let message = format!("expected a route named {:?}, found none", listed.route);
            report.field(Severity::Warning, routes, &format!("routes[{i}].route"), message);
        }
    }
}

struct RouteCheck<'r, 'c, 'a> {
    report: &'r mut Report,
    chain: &'r Chain<'a>,
    config: Option<&'c FilterConfig>,
    sources: &'r Sources<'a>,
    conflicts: SessionConflicts,
    subsets: Subsets,
}

impl<'a> RouteCheck<'_, '_, 'a> {
    /// Checks an entry; `led`: the routes before it in its virtual host that sessions are led to.
    fn entry(
        &mut self,
        entry: &RouteEntry<'_, 'a>,
        matcher: Option<&DestinationMatcher<'a>>,
        led: &mut DestinationRoutes,
    ) {
        let (chain, config) = (self.chain, self.config);
        let named = route_sessions::named(self.report, chain, entry);
        let sessions = config.and_then(|config| route_sessions::of_entry(self.report, config, named.as_ref(), entry));
        let is_split = matches!(
            sessions,
            Some(Sessions::Rule {
                split: Some(Split::Routes),
                ..
            })
        );
        headers::check_upstream(self.report, chain, entry, matcher.is_some() || is_split);
        headers::check_downstream(self.report, chain, entry);
        if let Some(matcher) = matcher {
            let session = match &sessions {
                Some(Sessions::Rule { session, .. }) => Some(session),
                _ => None,
            };
            led.add(self.report, matcher, entry, session);
        }
        if entry.route.get("route").is_none() {
            return;
        }
        match (sessions, config) {
            (Some(Sessions::Rule { session, split }), _) => {
                self.session_of_rule(entry, &session, split, matcher.is_some(), led);
            }
            (Some(Sessions::Destination), Some(config)) => self.sessions_of_clusters(entry, config),
            _ => {}
        }
    }

    fn session_of_rule(
        &mut self,
        entry: &RouteEntry<'_, 'a>,
        session: &Session<'_>,
        split: Option<Split>,
        has_matcher: bool,
        led: &DestinationRoutes,
    ) {
        let is_last = split == Some(Split::Routes) && !has_matcher;
        let specifier = match split {
            Some(Split::Specifier) => specifiers::check(self.report, self.chain, session, entry),
            Some(Split::Routes) | None => None,
        };
        let clusters: Vec<&str> = match &specifier {
            Some(specifier) => specifier.clusters().collect(),
            None => entry.clusters.clone(),
        };
        if specifier.is_some() {
            specifiers::check_clusters(self.report, self.chain, self.sources, entry, &clusters);
        } else if is_last {
            let issuing = destinations::issuing(self.report, self.chain, self.sources, &clusters);
            led.check(self.report, session, entry, &issuing);
        } else if !has_matcher && entry.clusters.len() > 1 {
            let name = session.name();
            let message = format!(
                "weighted_clusters: the session {name} holds only while Envoy chooses the cluster of its backend: \
                 expected @split/{name} in the metadata, and a route for each cluster in front"
            );
            self.report.warning(entry.route, message);
        }
        if split.is_none() {
            destinations::check_none(self.report, self.chain, self.sources, session, entry);
        }
        steering::check(self.report, self.chain, std::slice::from_ref(session), entry, is_last);
        redirects::check(self.report, self.chain, session, entry);
        matched_parameters::check(self.report, self.chain, session, entry);
        addresses::check(self.report, self.chain, self.sources, session, entry, &clusters);
        cluster_types::check(self.report, self.chain, self.sources, session, &clusters);
        self.check_domain(session, entry.virtual_host, entry.route);
        self.conflicts.add(self.report, session, entry.route, &clusters);
        self.check_subsets(session, entry, &clusters);
        if is_last || specifier.is_some() {
            subsets::check_twins(self.report, session, entry.route, &clusters);
        }
    }

    fn check_subsets(&mut self, session: &Session<'_>, entry: &RouteEntry<'_, 'a>, clusters: &[&str]) {
        for cluster in clusters {
            let to = (entry.route, *cluster);
            self.subsets.check(self.report, self.chain, self.sources, session, to);
        }
    }

    /// Checks that a host which leads to `node` is in the domain of the session's cookie.
    fn check_domain(&mut self, session: &Session<'_>, virtual_host: &Node<'_>, node: &Node<'_>) {
        let Some(domain) = session.config.domain() else {
            return;
        };
        let hosts = virtual_host.list("domains");
        let hosts: Vec<&str> = hosts.iter().filter_map(|host| host.value.as_str()).collect();
        if hosts.is_empty() || hosts.iter().any(|host| cookie_domain::may_come_from(domain, host)) {
            return;
        }
        let message = format!(
            "the cookie of the session {} has the domain {domain}, and the virtual host is for {}: browsers drop the \
             cookie",
            session.name(),
            hosts.join(", ")
        );
        self.report.warning(node, message);
    }

    fn sessions_of_clusters(&mut self, entry: &RouteEntry<'_, 'a>, config: &FilterConfig) {
        let found = destinations::sessions(self.report, self.chain, config, self.sources, entry);
        for OfCluster { cluster, session, .. } in &found {
            self.check_subsets(session, entry, &[cluster]);
            cluster_types::check(self.report, self.chain, self.sources, session, &[cluster]);
        }
        let (sessions, nodes): (Vec<_>, Vec<_>) = found.into_iter().map(|found| (found.session, found.node)).unzip();
        for (session, node) in sessions.iter().zip(&nodes) {
            redirects::check(self.report, self.chain, session, entry);
            matched_parameters::check(self.report, self.chain, session, entry);
            addresses::check(self.report, self.chain, self.sources, session, entry, &entry.clusters);
            self.check_domain(session, entry.virtual_host, node);
            self.conflicts.add(self.report, session, node, &[]);
        }
        steering::check(self.report, self.chain, &sessions, entry, false);
    }
}
