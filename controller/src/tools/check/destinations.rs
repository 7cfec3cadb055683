//! Sessions that belong to the clusters that a route leads to. The metadata of the clusters name them.

use std::collections::BTreeMap;

use super::chain::Chain;
use super::report::CheckReport;
use super::route_entry::RouteEntry;
use super::session::{CheckedSession, expected_session, session_entry};
use crate::envoy_config::discovery::DiscoverySources;
use crate::envoy_config::node::ConfigNode;
use limpet_core::RouteSession;
use limpet_core::config::schema::FilterConfig;
use limpet_core::envoy::{FILTER_NAME, NO_SESSION};
use limpet_core::token::cluster_base;

/// The session of a cluster, and where it is named.
pub(super) struct OfCluster<'n, 'c, 'a> {
    pub(super) cluster: &'n str,
    pub(super) session: CheckedSession<'c>,
    pub(super) node: ConfigNode<'a>,
}

/// The sessions that the policy of a route makes in each of its clusters.
pub(super) fn of_route<'n, 'a, 'c>(
    report: &mut CheckReport,
    chain: &Chain<'a>,
    sources: &DiscoverySources<'a>,
    session: &CheckedSession<'c>,
    entry: &'n RouteEntry<'_, 'a>,
) -> Vec<OfCluster<'n, 'c, 'a>> {
    let clusters = issuing(report, chain, sources, &entry.clusters);
    let of_cluster = |cluster| OfCluster {
        cluster,
        session: session.at(cluster),
        node: entry.route.clone(),
    };
    clusters.into_iter().map(of_cluster).collect()
}

/// The sessions of the clusters of a route.
pub(super) fn sessions<'n, 'a, 'c>(
    report: &mut CheckReport,
    chain: &Chain<'a>,
    config: &'c FilterConfig,
    sources: &DiscoverySources<'a>,
    entry: &'n RouteEntry<'_, 'a>,
) -> Vec<OfCluster<'n, 'c, 'a>> {
    let mut sessions = Vec::new();
    let mut owners = BTreeMap::new();
    for name in &entry.clusters {
        let Some(cluster) = sources.cluster(chain.manager.file, name) else {
            let message = format!("not checked: the session of the cluster {name}, which Envoy gets from elsewhere");
            report.add_note(entry.route, message);
            continue;
        };
        let Some((session, node)) = session(report, config, cluster) else {
            continue;
        };
        let owner = *owners.entry(session.name()).or_insert(*name);
        if cluster_base(owner.as_bytes()) != cluster_base(name.as_bytes()) {
            let message = format!(
                "expected a session of the cluster's own: {} is the session of {owner} as well, so each of the two \
                 ends the other",
                session.name()
            );
            report.warning(&node, message);
        }
        sessions.push(OfCluster {
            cluster: name,
            session,
            node,
        });
    }
    sessions
}

fn session<'a, 'c>(
    report: &mut CheckReport,
    config: &'c FilterConfig,
    cluster: &ConfigNode<'a>,
) -> Option<(CheckedSession<'c>, ConfigNode<'a>)> {
    let node = session_entry(report, &metadata(cluster)?)?;
    let text = node.value.as_str().unwrap_or_default();
    if text == NO_SESSION {
        return None;
    }
    let session = policy_and_scope(text).and_then(|(policy, scope)| CheckedSession::new(config, policy, scope));
    if session.is_none() {
        report.error(&node, expected_session(config, &node.value.to_string()));
    }
    Some((session?, node))
}

/// The filter requires a scope: by default it would be the route's name, which differs between routes.
fn policy_and_scope(session: &str) -> Option<(&str, &str)> {
    match RouteSession::parse(session.as_bytes()) {
        Ok(RouteSession::Rule {
            policy,
            scope: Some(scope),
            split: None,
        }) => Some((policy, std::str::from_utf8(scope).ok()?)),
        _ => None,
    }
}

fn metadata<'a>(cluster: &ConfigNode<'a>) -> Option<ConfigNode<'a>> {
    cluster.at(&["metadata", "filter_metadata"])?.entry(FILTER_NAME)
}

/// The clusters of a split that issue tokens. Metadata of a cluster may say that it does not.
pub(super) fn issuing<'a, 'n>(
    report: &mut CheckReport,
    chain: &Chain<'a>,
    sources: &DiscoverySources<'a>,
    clusters: &[&'n str],
) -> Vec<&'n str> {
    let mut issues = |name: &str| {
        let cluster = sources.cluster(chain.manager.file, name);
        let named = cluster.and_then(|cluster| metadata(cluster)?.entry("session"));
        let Some((node, text)) = named.and_then(|node| Some((node.clone(), node.value.as_str()?))) else {
            return true;
        };
        // Policy and scope are for routes whose sessions belong to their clusters.
        if text != NO_SESSION && policy_and_scope(text).is_none() {
            report.error(
                &node,
                format!("expected {NO_SESSION} or <policy>/<scope>, found {text:?}"),
            );
        }
        text != NO_SESSION
    };
    let clusters = clusters.iter().copied();
    clusters.filter(|name| issues(name)).collect()
}

/// Reports clusters whose metadata say that they issue no tokens, although the route is no split and begins `session`
/// there.
pub(super) fn check_none<'a>(
    report: &mut CheckReport,
    chain: &Chain<'a>,
    sources: &DiscoverySources<'a>,
    session: &CheckedSession<'_>,
    entry: &RouteEntry<'_, 'a>,
) {
    for name in &entry.clusters {
        let cluster = sources.cluster(chain.manager.file, name);
        let Some(node) = cluster.and_then(|cluster| metadata(cluster)?.entry("session")) else {
            continue;
        };
        if node.value.as_str() == Some(NO_SESSION) {
            let message = format!(
                "{NO_SESSION} has no effect: the session {0} begins here, because {1} says neither @split/{0} nor \
                 @destination/{0}",
                session.name(),
                entry.route.path
            );
            report.warning(&node, message);
        }
    }
}
