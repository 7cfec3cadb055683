//! The routes of a chain, and the sessions that they have.

use std::collections::BTreeSet;

use super::chain::Chain;
use super::destination_routes::{self, DestinationMatcher, DestinationRoutes};
use super::destinations::OfCluster;
use super::report::{CheckReport, Severity};
use super::route_entry::{RouteEntry, weighted_clusters};
use super::route_sessions::{self, CheckedRouteSessions};
use super::session::CheckedSession;
use super::session_conflicts::SessionConflicts;
use super::subsets::{self, Subsets};
use super::{addresses, cluster_types, destinations, headers, matched_parameters, redirects, specifiers, steering};
use crate::envoy_config::discovery::DiscoverySources;
use crate::envoy_config::filter_locator::LocatedBuild;
use crate::envoy_config::node::ConfigNode;
use limpet_core::Split;
use limpet_core::carrier::cookie_domain;
use limpet_core::config::schema::FilterConfig;
use limpet_core::envoy::{DESTINATION_HEADER, UNAVAILABLE_CLUSTER};

/// How many clusters a message lists.
const MAX_LISTED: usize = 4;

/// Checks a route configuration; `config`: the filter's own, if it is known.
pub(super) fn check<'a>(
    report: &mut CheckReport,
    chain: &Chain<'a>,
    config: Option<&FilterConfig>,
    sources: &DiscoverySources<'a>,
    routes: &ConfigNode<'a>,
) {
    let mut check = RouteCheck {
        report,
        chain,
        config,
        sources,
        conflicts: SessionConflicts::default(),
        subsets: Subsets::default(),
        unknown_clusters: BTreeSet::new(),
    };
    if let Some(vhds) = routes.get("vhds") {
        let message = "not checked: the virtual hosts that Envoy gets from elsewhere";
        check.report.add_note(&vhds, message);
    }
    let mut present = Vec::new();
    let mut any_matcher = false;
    for host in routes.list("virtual_hosts") {
        let mut led = DestinationRoutes::default();
        for route in host.list("routes").into_iter().chain(in_matcher(&host)) {
            let name = route.text("name").unwrap_or_default();
            present.push((name, host.text("name").unwrap_or_default()));
            let matcher = destination_routes::matcher(&route);
            any_matcher |= matcher.is_some();
            for entry in RouteEntry::all(routes, &host, &route) {
                check.entry(&entry, matcher.as_ref(), &mut led);
            }
        }
        check.conflicts.end_host(check.report, &host);
    }
    check.report_unknown_clusters(routes);
    if any_matcher && chain.build == LocatedBuild::Module {
        headers::check_early(report, chain, &[DESTINATION_HEADER]);
    }
    if let Some(config) = config {
        check_listed(report, config, routes, &present);
    }
}

/// The routes of a virtual host that are chosen by a tree of matchers in place of a list.
fn in_matcher<'a>(host: &ConfigNode<'a>) -> Vec<ConfigNode<'a>> {
    let mut routes = Vec::new();
    if let Some(matcher) = host.get("matcher") {
        matcher.visit(&mut |object| match object.kind() {
            Some("envoy.config.route.v3.Route") => routes.push(object.clone()),
            Some("envoy.config.route.v3.RouteList") => routes.extend(object.list("routes")),
            _ => {}
        });
    }
    routes
}

/// Checks that the routes of the filter's table exist; `present`: the names of all routes and of their virtual hosts.
fn check_listed(report: &mut CheckReport, config: &FilterConfig, routes: &ConfigNode<'_>, present: &[(&str, &str)]) {
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
    report: &'r mut CheckReport,
    chain: &'r Chain<'a>,
    config: Option<&'c FilterConfig>,
    sources: &'r DiscoverySources<'a>,
    conflicts: SessionConflicts,
    subsets: Subsets,
    /// Those that sessions are led to, and that are in none of the documents.
    unknown_clusters: BTreeSet<String>,
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
            Some(CheckedRouteSessions::Rule {
                split: Some(Split::Routes),
                ..
            })
        );
        headers::check_upstream(self.report, chain, entry, matcher.is_some() || is_split);
        headers::check_downstream(self.report, chain, entry);
        if let Some(matcher) = matcher {
            let session = match &sessions {
                Some(CheckedRouteSessions::Rule { session, .. }) => Some(session),
                _ => None,
            };
            led.add(self.report, matcher, entry, session);
        }
        if entry.route.get("route").is_none() {
            return;
        }
        let has_specifier = matches!(
            &sessions,
            Some(CheckedRouteSessions::Rule {
                split: Some(Split::Specifier),
                ..
            })
        );
        if sessions.is_some() && !has_specifier {
            self.report_chosen_clusters(entry.route);
        }
        match (sessions, config) {
            (
                Some(CheckedRouteSessions::Rule {
                    session,
                    split: Some(Split::Destinations),
                }),
                _,
            ) => {
                let found = destinations::of_route(self.report, chain, self.sources, &session, entry);
                self.sessions_of_clusters(entry, found);
            }
            (Some(CheckedRouteSessions::Rule { session, split }), _) => {
                self.session_of_rule(entry, &session, split, matcher.is_some(), led);
            }
            (Some(CheckedRouteSessions::Destination), Some(config)) => {
                let found = destinations::sessions(self.report, chain, config, self.sources, entry);
                self.sessions_of_clusters(entry, found);
            }
            _ => {}
        }
    }

    fn report_unknown_clusters(&mut self, routes: &ConfigNode<'_>) {
        let all = &self.unknown_clusters;
        if all.is_empty() {
            return;
        }
        let mut names: Vec<&str> = all.iter().map(String::as_str).take(MAX_LISTED).collect();
        if all.len() > names.len() {
            names.push("others");
        }
        let message = format!(
            "not checked: whether sessions hold in clusters that Envoy gets from elsewhere: {}",
            names.join(", ")
        );
        self.report.add_note(routes, message);
    }

    fn session_of_rule(
        &mut self,
        entry: &RouteEntry<'_, 'a>,
        session: &CheckedSession<'_>,
        split: Option<Split>,
        has_matcher: bool,
        led: &DestinationRoutes,
    ) {
        let is_last = split == Some(Split::Routes) && !has_matcher;
        let specifier = match split {
            Some(Split::Specifier) => specifiers::check(self.report, self.chain, session, entry),
            Some(Split::Routes | Split::Destinations) | None => None,
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
                 expected @split/{name} in the metadata, and a route for each cluster in front, or @destination/{name} \
                 for a session in each cluster"
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
        self.check_domain(session, entry.virtual_host, entry.route);
        self.conflicts.add(self.report, session, entry.route, &clusters);
        self.check_clusters(session, entry, &clusters);
        if is_last || specifier.is_some() {
            subsets::check_twins(self.report, session, entry.route, &clusters);
        }
    }

    /// Checks what Envoy decides of a destination in these clusters.
    fn check_clusters(&mut self, session: &CheckedSession<'_>, entry: &RouteEntry<'_, 'a>, clusters: &[&str]) {
        cluster_types::check(self.report, self.chain, self.sources, session, clusters);
        for cluster in clusters {
            let to = (entry.route, *cluster);
            self.subsets.check(self.report, self.chain, self.sources, session, to);
            let file = self.chain.manager.file;
            let is_known = self.sources.cluster(file, cluster).is_some() || self.sources.lacks_cluster(file, cluster);
            if *cluster != UNAVAILABLE_CLUSTER && !is_known {
                self.unknown_clusters.insert((*cluster).to_owned());
            }
        }
    }

    /// Says where the cluster of a request with a session is not known here.
    fn report_chosen_clusters(&mut self, route: &ConfigNode<'a>) {
        for action in route.get("route").into_iter().chain(weighted_clusters(route)) {
            let chosen_by = if action.text("cluster_header").is_some_and(|header| !header.is_empty()) {
                "cluster_header"
            } else if ["cluster_specifier_plugin", "inline_cluster_specifier_plugin"]
                .iter()
                .any(|field| action.get(field).is_some())
            {
                "a cluster specifier"
            } else {
                continue;
            };
            let message = format!("not checked: whether sessions hold in the clusters that {chosen_by} chooses");
            self.report.add_note(&action, message);
        }
    }

    /// Checks that a host which leads to `node` is in the domain of the session's cookie.
    fn check_domain(&mut self, session: &CheckedSession<'_>, virtual_host: &ConfigNode<'_>, node: &ConfigNode<'_>) {
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

    fn sessions_of_clusters(&mut self, entry: &RouteEntry<'_, 'a>, found: Vec<OfCluster<'_, '_, 'a>>) {
        for OfCluster { cluster, session, .. } in &found {
            self.check_clusters(session, entry, &[cluster]);
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
