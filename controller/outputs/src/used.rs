//! The part of a graph that the Envoys of one Gateway need.

use std::collections::{BTreeMap, BTreeSet};

use limpet_core::config::live_for;
use limpet_core::config::schema::{FilterConfig, PolicyConfig};
use limpet_core::time::GatewayDuration;

use limpet_api::ObjectName;
use limpet_model::Graph;
use limpet_model::graph::{Action, ClusterName, Forward, Session, SessionUse, Target};

/// What other control planes lack for these sessions, if addresses hold them. `consistent_hash` is what users may have
/// there, and for what.
pub(crate) fn without_hash(graph: &Graph, policy: &str, consistent_hash: &str) -> Option<String> {
    let source = graph.policies.get(policy)?.source;
    source.map(|_| {
        format!(
            "the annotation session.limpet.dev/source: each proxy chooses a backend of its own for a client that it \
             does not know, unless {consistent_hash}"
        )
    })
}

/// What other control planes lack for backends where no session begins: the metadata of clusters are theirs.
pub(crate) fn beginning_all_the_same<'g>(graph: &'g Graph, forward: &'g Forward) -> impl Iterator<Item = String> + 'g {
    let clusters = forward
        .destinations
        .iter()
        .filter_map(|destination| match &destination.target {
            Target::Cluster(cluster) => graph.clusters.get(cluster),
            Target::Invalid { .. } => None,
        });
    let such = clusters.filter(|cluster| cluster.never_begins);
    such.map(|cluster| {
        format!(
            "Service {}: the annotation session.limpet.dev/begin has no effect, because the metadata of clusters are \
             not Limpet's there, so sessions begin at it too",
            cluster.service
        )
    })
}

/// What other control planes lack for these sessions, if they may begin anew: their proxies do not report to us.
pub(crate) fn without_budgets(graph: &Graph, policy: &str) -> Option<String> {
    let rebalance = graph.policies.get(policy)?.rebalance;
    rebalance.map(|_| {
        "the annotation session.limpet.dev/rebalance has no effect, because nobody counts the sessions of these proxies"
            .to_owned()
    })
}

/// The policies that the routes of a Gateway use.
#[must_use]
pub fn used_policies(graph: &Graph, gateway: &ObjectName) -> BTreeMap<String, PolicyConfig> {
    Used::by(graph, gateway).policies(graph)
}

/// All policies of a graph.
#[must_use]
pub fn all_policies(graph: &Graph) -> BTreeMap<String, PolicyConfig> {
    let policies = graph.policies.iter();
    policies
        .map(|(name, policy)| (name.clone(), PolicyConfig::clone(policy)))
        .collect()
}

/// The clusters whose sessions may begin anew to even out the load, on the routes of these Gateways.
#[must_use]
pub fn rebalancing_clusters<'g>(
    graph: &'g Graph,
    gateways: impl Iterator<Item = &'g ObjectName>,
) -> BTreeSet<&'g ClusterName> {
    let none = graph.policies.values().all(|policy| policy.rebalance.is_none());
    let gateways = gateways.filter(|_| !none);
    gateways
        .flat_map(|gateway| Used::by(graph, gateway).rebalancing)
        .collect()
}

/// The idle bounds of sessions by cluster, in whole seconds: those that the Envoys of a Gateway count them by.
/// `max_idle` is that of the filter's configuration, or its default.
#[must_use]
pub fn idle_bounds<'g>(
    graph: &'g Graph,
    gateway: &ObjectName,
    max_idle: Option<GatewayDuration>,
) -> BTreeMap<&'g ClusterName, BTreeSet<u32>> {
    let max_idle = max_idle.unwrap_or_else(|| FilterConfig::without_keys(BTreeMap::new()).max_idle);
    let bound = |policy: &str| Some(live_for(graph.policies.get(policy)?, max_idle));
    let mut bounds: BTreeMap<_, BTreeSet<u32>> = BTreeMap::new();
    for (cluster, policy) in Used::by(graph, gateway).sessions {
        bounds.entry(cluster).or_default().extend(bound(policy));
    }
    bounds
}

/// What the listeners and routes of a Gateway refer to.
#[derive(Debug, Default)]
pub(crate) struct Used<'a> {
    pub(crate) clusters: BTreeSet<&'a ClusterName>,
    pub(crate) policies: BTreeSet<&'a str>,
    /// Which policies the sessions of a cluster have.
    pub(crate) sessions: BTreeSet<(&'a ClusterName, &'a str)>,
    /// The clusters whose sessions their application moves.
    pub(crate) moving: BTreeSet<&'a ClusterName>,
    /// The clusters whose sessions may begin anew to even out the load.
    pub(crate) rebalancing: BTreeSet<&'a ClusterName>,
    pub(crate) certificates: BTreeSet<&'a ObjectName>,
}

impl<'a> Used<'a> {
    pub(crate) fn by(graph: &'a Graph, gateway: &ObjectName) -> Self {
        let mut used = Self::default();
        let gateway = graph.gateways.get(gateway);
        for listener in gateway.iter().flat_map(|gateway| gateway.ports.values()).flatten() {
            used.certificates.extend(listener.certificates.iter().flatten());
            for route in listener.virtual_hosts.values().flat_map(|host| &host.routes) {
                if let Action::Forward(forward) = &route.action {
                    used.add(graph, forward);
                }
            }
        }
        used
    }

    /// The used policies with their content.
    pub(crate) fn policies(&self, graph: &Graph) -> BTreeMap<String, PolicyConfig> {
        let used = self
            .policies
            .iter()
            .filter_map(|name| graph.policies.get_key_value(*name));
        used.map(|(name, policy)| (name.clone(), PolicyConfig::clone(policy)))
            .collect()
    }

    fn add(&mut self, graph: &'a Graph, forward: &'a Forward) {
        let clusters = forward
            .destinations
            .iter()
            .filter_map(|destination| match &destination.target {
                Target::Cluster(cluster) => Some(cluster),
                Target::Invalid { .. } => None,
            });
        self.clusters.extend(clusters.clone());
        self.clusters
            .extend(forward.mirrors.iter().map(|mirror| &mirror.cluster));
        match &forward.session {
            Session::None => {}
            Session::Rule(session) => {
                self.policies.insert(&session.policy);
                self.sessions
                    .extend(clusters.clone().map(|cluster| (cluster, session.policy.as_str())));
                if moves(graph, session) {
                    self.moving.extend(clusters.clone());
                }
                if rebalances(graph, session) {
                    self.rebalancing.extend(clusters);
                }
            }
            Session::Destinations => {
                for name in clusters {
                    let session = graph.clusters.get(name).and_then(|cluster| cluster.session.as_ref());
                    let policy = session.map(|session| session.policy.as_str());
                    self.policies.extend(policy);
                    self.sessions.extend(policy.map(|policy| (name, policy)));
                    if session.is_some_and(|session| moves(graph, session)) {
                        self.moving.insert(name);
                    }
                    if session.is_some_and(|session| rebalances(graph, session)) {
                        self.rebalancing.insert(name);
                    }
                }
            }
        }
    }
}

fn moves(graph: &Graph, session: &SessionUse) -> bool {
    let policy = graph.policies.get(&session.policy);
    policy.is_some_and(|policy| policy.r#move.is_some())
}

fn rebalances(graph: &Graph, session: &SessionUse) -> bool {
    let policy = graph.policies.get(&session.policy);
    policy.is_some_and(|policy| policy.rebalance.is_some())
}
