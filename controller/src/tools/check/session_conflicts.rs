//! Sessions of one route configuration that get in each other's way.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::report::{CheckReport, Severity};
use super::session::CheckedSession;
use crate::envoy_config::node::ConfigNode;
use limpet_core::carrier::cookie_name::CookieNames;
use limpet_core::config::schema::{CookieConfig, CookieModeConfig, FilterConfig};
use limpet_core::token::{DestinationId, cluster_base};

/// Name, domain and path: a client keeps one cookie of each.
type CookieIdentity = (String, Option<String>, String);

/// The sessions of a route configuration, as far as they are known yet.
#[derive(Debug, Default)]
pub(super) struct SessionConflicts {
    /// By the session's name: its clusters, by destination.
    clusters: BTreeMap<String, HashMap<DestinationId, String>>,
    /// The name of the session that travels in the cookie, and whether the cookie is the filter's own.
    cookies: BTreeMap<CookieIdentity, (String, bool)>,
    /// The filter's own of the virtual host that is being checked.
    of_host: BTreeSet<CookieIdentity>,
}

/// RFC 6265, section 6.1, asks browsers for 50 cookies of a host, some of which are the application's.
const MANY_COOKIES: usize = 20;

/// Whether the filter writes the cookie; otherwise it is the application's, whose path is not known here.
fn is_own(cookie: &CookieConfig) -> bool {
    cookie.mode == CookieModeConfig::Insert
}

/// Checks a configuration of the filter whose routes are not known: the sessions of its own table, and the policies
/// that other routes may name.
pub(super) fn check_alone(report: &mut CheckReport, root: &ConfigNode<'_>, config: &FilterConfig) {
    let mut conflicts = SessionConflicts::default();
    let mut listed = BTreeSet::new();
    for (entry, node) in config.routes.iter().zip(root.list("routes")) {
        let scope = entry.scope.as_ref().unwrap_or(&entry.route);
        if let Some(session) = CheckedSession::new(config, &entry.policy, scope) {
            listed.insert(entry.policy.as_str());
            conflicts.add_cookie(report, &session, &node);
        }
    }
    let mut cookies: BTreeMap<CookieIdentity, &str> = BTreeMap::new();
    for (name, policy) in &config.policies {
        let Some(cookie) = policy
            .cookie
            .as_ref()
            .filter(|cookie| is_own(cookie) && !cookie.per_scope)
        else {
            continue;
        };
        let identity = (cookie.name.clone(), cookie.domain.clone(), cookie.path.clone());
        let other = *cookies.entry(identity).or_insert(name);
        if other != name && !(listed.contains(other) && listed.contains(name.as_str())) {
            let message = format!(
                "not checked: whether one host has sessions of both {other} and {name}, in one cookie {}: each of the \
                 two would end the other",
                cookie.name
            );
            report.field(Severity::Note, root, &format!("policies.{name}"), message);
        }
    }
}

impl SessionConflicts {
    /// Adds the session of a route or cluster, which stands at `node` and leads to these clusters.
    pub(super) fn add(
        &mut self,
        report: &mut CheckReport,
        session: &CheckedSession<'_>,
        node: &ConfigNode<'_>,
        clusters: &[&str],
    ) {
        for cluster in clusters {
            self.add_cluster(report, session, node, cluster);
        }
        self.add_cookie(report, session, node);
    }

    /// Reports a virtual host for which browsers get many cookies.
    pub(super) fn end_host(&mut self, report: &mut CheckReport, host: &ConfigNode<'_>) {
        let count = std::mem::take(&mut self.of_host).len();
        if count > MANY_COOKIES {
            let message = format!(
                "the sessions of this virtual host have {count} cookies, and browsers drop the oldest of a host, the \
                 application's among them: give one scope, without perScope, to routes that may share a session"
            );
            report.warning(host, message);
        }
    }

    /// Tokens name a cluster by a short hash of its base, so the hash must be unique within a session.
    fn add_cluster(
        &mut self,
        report: &mut CheckReport,
        session: &CheckedSession<'_>,
        route: &ConfigNode<'_>,
        cluster: &str,
    ) {
        let destination = DestinationId::of_cluster(cluster.as_bytes());
        let destinations = self.clusters.entry(session.name()).or_default();
        let other = destinations.entry(destination).or_insert_with(|| cluster.to_owned());
        if cluster_base(other.as_bytes()) != cluster_base(cluster.as_bytes()) {
            let name = session.name();
            let message = format!(
                "the clusters {other} and {cluster} of the session {name} have one destination hash, so tokens cannot \
                 tell them apart: rename one of them"
            );
            report.error(route, message);
        }
    }

    fn add_cookie(&mut self, report: &mut CheckReport, session: &CheckedSession<'_>, node: &ConfigNode<'_>) {
        let Some(cookie) = &session.config.cookie else {
            return;
        };
        let names = CookieNames::new(&cookie.name, session.scope.as_bytes(), cookie.per_scope);
        let (cookie_name, path, name) = (names.current(), &cookie.path, session.name());
        let identity = (cookie_name.to_owned(), cookie.domain.clone(), path.clone());
        if is_own(cookie) {
            self.of_host.insert(identity.clone());
        }
        let (other, other_is_own) = self
            .cookies
            .entry(identity)
            .or_insert_with(|| (name.clone(), is_own(cookie)));
        if *other == name {
            return;
        }
        if *other_is_own && is_own(cookie) {
            let message = format!(
                "the session {name} has the cookie {cookie_name} with path {path}, as {other} has: a client keeps one \
                 such cookie, so each of the two ends the other; perScope: true gives each its own"
            );
            return report.warning(node, message);
        }
        let message = format!(
            "not checked: the path of the application's cookie {cookie_name}, in which the sessions {name} and {other} \
             travel: if both have the same path, each of the two ends the other"
        );
        report.add_note(node, message);
    }
}
