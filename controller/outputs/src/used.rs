//! The part of a graph that the Envoys of one Gateway need.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::sync::Arc;

use imbl::OrdSet;
use imbl::ordset::DiffItem;
use limpet_core::config::live_for;
use limpet_core::config::schema::PolicyConfig;
use limpet_core::time::GatewayDuration;

use limpet_api::{ObjectName, Text};
use limpet_model::Graph;
use limpet_model::graph::{
    Action, ClusterName, Forward, Gateway, Hostname, Route, Session, SessionUse, Target, TrustedAuthorities,
    VirtualHost,
};

/// What other control planes lack if addresses hold these sessions. `consistent_hash`: what users may have there
/// instead, and for what.
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

/// What other control planes lack for a rebalance time: their proxies do not report to us.
pub(crate) fn without_budgets(graph: &Graph, policy: &str) -> Option<String> {
    let rebalance = graph.policies.get(policy)?.rebalance;
    rebalance.map(|_| {
        "the annotation session.limpet.dev/rebalance has no effect, because these proxies' sessions are not counted"
            .to_owned()
    })
}

/// All policies of a graph.
#[must_use]
pub fn all_policies(graph: &Graph) -> BTreeMap<String, PolicyConfig> {
    let policies = graph.policies.iter();
    policies
        .map(|(name, policy)| (name.to_string(), PolicyConfig::clone(policy)))
        .collect()
}

/// The prefix of secrets of authorities, which no listener's secret has: that is named after its Secret, and no
/// namespace has a dot.
const PREFIX: &str = "limpet.authorities";

pub(crate) fn authorities_secret(authorities: &TrustedAuthorities) -> String {
    match authorities {
        TrustedAuthorities::System => format!("{PREFIX}/system"),
        TrustedAuthorities::Certificates(authorities) => format!("{PREFIX}/{}", authorities.name()),
    }
}

/// A virtual host of a Gateway, ordered as the Gateway has them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VirtualHostKey {
    pub(crate) port: u16,
    pub(crate) listener: usize,
    pub(crate) hostname: Hostname,
}

impl VirtualHostKey {
    pub(crate) fn find<'g>(&self, gateway: &'g Gateway) -> Option<&'g Arc<VirtualHost>> {
        let listener = gateway.ports.get(&self.port)?.get(self.listener)?;
        listener.virtual_hosts.get(&self.hostname)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum VirtualHostReference {
    /// The object that routes come from, as the names of its rules begin.
    Object(Arc<str>),
    Cluster(ClusterName),
    Policy(Text),
    /// A cluster, and a policy that its sessions have.
    Session(ClusterName, Text),
    /// The authorities that vouch for a cluster, by the name of their secret.
    Authorities(String),
    /// The namespace of sessions, and a policy that they have.
    NamespacePolicy(Text, Text),
}

/// Where a reference is, and the ends of all that are places.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ReferencePosition {
    First,
    Host(Arc<VirtualHostKey>),
    Last,
}

/// The references of a Gateway's virtual hosts. A copy shares all but what differs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GatewayReferences(OrdSet<(VirtualHostReference, ReferencePosition)>);

impl GatewayReferences {
    /// Collects them for a Gateway of the graph.
    #[must_use]
    pub fn by(graph: &Graph, gateway: &ObjectName) -> Self {
        let mut used = Self::default();
        for (place, host) in graph
            .gateways
            .get(gateway)
            .into_iter()
            .flat_map(|gateway| hosts(gateway))
        {
            used.add(&Arc::new(place), references(graph, host));
        }
        used
    }

    pub(crate) fn add(&mut self, place: &Arc<VirtualHostKey>, references: BTreeSet<VirtualHostReference>) {
        let pairs = references
            .into_iter()
            .map(|of| (of, ReferencePosition::Host(Arc::clone(place))));
        self.0.extend(pairs);
    }

    pub(crate) fn remove(&mut self, place: &Arc<VirtualHostKey>, references: BTreeSet<VirtualHostReference>) {
        for reference in references {
            self.0.remove(&(reference, ReferencePosition::Host(Arc::clone(place))));
        }
    }

    pub(crate) fn places<'u>(&'u self, of: &'u VirtualHostReference) -> impl Iterator<Item = &'u Arc<VirtualHostKey>> {
        let pairs = self
            .from(of, ReferencePosition::First)
            .take_while(move |(reference, _)| reference == of);
        pairs.filter_map(|(_, at)| match at {
            ReferencePosition::Host(place) => Some(place),
            ReferencePosition::First | ReferencePosition::Last => None,
        })
    }

    pub(crate) fn has(&self, reference: &VirtualHostReference) -> bool {
        self.places(reference).next().is_some()
    }

    /// Whether a virtual host refers to the cluster.
    #[must_use]
    pub fn has_cluster(&self, cluster: &ClusterName) -> bool {
        self.has(&VirtualHostReference::Cluster(cluster.clone()))
    }

    /// Whether a virtual host refers to the policy.
    #[must_use]
    pub fn has_policy(&self, policy: &str) -> bool {
        self.has(&VirtualHostReference::Policy(policy.into()))
    }

    /// The clusters.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        self.each(&VirtualHostReference::Cluster(ClusterName(Text::default())))
            .map_while(|reference| match reference {
                VirtualHostReference::Cluster(cluster) => Some(cluster),
                _ => None,
            })
    }

    /// The names of the policies.
    pub fn policies(&self) -> impl Iterator<Item = &Text> {
        self.each(&VirtualHostReference::Policy(Text::default()))
            .map_while(|reference| match reference {
                VirtualHostReference::Policy(policy) => Some(policy),
                _ => None,
            })
    }

    /// Whether a virtual host has sessions of the namespace.
    #[must_use]
    pub fn has_namespace(&self, namespace: &str) -> bool {
        let mut policies = self.namespace_policies(namespace.into());
        policies.next().is_some_and(|(of, _)| **of == *namespace)
    }

    pub(crate) fn namespaces(&self) -> BTreeSet<Text> {
        let policies = self.namespace_policies(Text::default());
        policies.map(|(namespace, _)| namespace.clone()).collect()
    }

    /// Namespaces from this one on, each with each policy that they have.
    pub(crate) fn namespace_policies(&self, first: Text) -> impl Iterator<Item = (&Text, &Text)> {
        let references = self.each(&VirtualHostReference::NamespacePolicy(first, Text::default()));
        references.map_while(|reference| match reference {
            VirtualHostReference::NamespacePolicy(namespace, policy) => Some((namespace, policy)),
            _ => None,
        })
    }

    pub(crate) fn policies_at<'u>(&'u self, cluster: &'u ClusterName) -> impl Iterator<Item = &'u Text> {
        let first = VirtualHostReference::Session(cluster.clone(), Text::default());
        self.each(&first).map_while(move |reference| match reference {
            VirtualHostReference::Session(of, policy) if of == cluster => Some(policy),
            _ => None,
        })
    }

    /// The clusters whose sessions their application moves.
    pub(crate) fn moving(&self, graph: &Graph) -> BTreeSet<ClusterName> {
        let moves = |policy: &Text| moves(graph, policy);
        if !self.policies().any(moves) {
            return BTreeSet::new();
        }
        let clusters = self.clusters().filter(|cluster| self.policies_at(cluster).any(moves));
        clusters.cloned().collect()
    }

    /// Whether sessions of a cluster may move to even out the load.
    #[must_use]
    pub fn rebalances(&self, graph: &Graph, cluster: &ClusterName) -> bool {
        self.policies_at(cluster).any(|policy| {
            let policy = graph.policies.get(policy);
            policy.is_some_and(|policy| policy.rebalance.is_some())
        })
    }

    /// The idle bounds by which Envoys count a cluster's sessions, in whole seconds. `max_idle` is the filter's.
    #[must_use]
    pub fn idle_bounds(&self, graph: &Graph, cluster: &ClusterName, max_idle: GatewayDuration) -> BTreeSet<u32> {
        let policies = self.policies_at(cluster);
        let bounds = policies.filter_map(|policy| Some(live_for(graph.policies.get(policy)?, max_idle)));
        bounds.collect()
    }

    pub(crate) fn has_other_policies(&self, before: &Self) -> bool {
        let mut changed = self.changes(before);
        changed.any(|reference| matches!(reference, VirtualHostReference::NamespacePolicy(..)))
    }

    /// The clusters to which virtual hosts refer otherwise than in `before`.
    #[must_use]
    pub fn changed_clusters(&self, before: &Self) -> BTreeSet<ClusterName> {
        let changed = self.changes(before).filter_map(|reference| match reference {
            VirtualHostReference::Cluster(cluster) | VirtualHostReference::Session(cluster, ..) => {
                Some(cluster.clone())
            }
            _ => None,
        });
        changed.collect()
    }

    /// The policies that only virtual hosts of `before` refer to, each with a namespace of its sessions.
    #[must_use]
    pub fn dropped_policies(&self, before: &Self) -> BTreeMap<Text, Text> {
        let dropped = self.dropped(before).filter_map(|reference| match reference {
            VirtualHostReference::NamespacePolicy(namespace, policy) => Some((policy, namespace)),
            _ => None,
        });
        let dropped = dropped.filter(|(policy, _)| !self.has_policy(policy));
        dropped
            .map(|(policy, namespace)| (policy.clone(), namespace.clone()))
            .collect()
    }

    /// The namespaces of sessions that only virtual hosts of `before` have.
    #[must_use]
    pub fn dropped_namespaces(&self, before: &Self) -> BTreeSet<Text> {
        let dropped = self.dropped(before).filter_map(|reference| match reference {
            VirtualHostReference::NamespacePolicy(namespace, _) => Some(namespace),
            _ => None,
        });
        let dropped = dropped.filter(|namespace| !self.has_namespace(namespace));
        dropped.cloned().collect()
    }

    fn dropped<'u>(&'u self, before: &'u Self) -> impl Iterator<Item = &'u VirtualHostReference> {
        self.changes(before).filter(|reference| !self.has(reference))
    }

    /// The references that differ from the ones in `before`, some more than once.
    pub(crate) fn changes<'u>(&'u self, before: &'u Self) -> impl Iterator<Item = &'u VirtualHostReference> {
        before.0.diff(&self.0).map(|item| match item {
            DiffItem::Add((reference, _)) | DiffItem::Remove((reference, _)) => reference,
        })
    }

    fn from<'u>(
        &'u self,
        first: &VirtualHostReference,
        at: ReferencePosition,
    ) -> impl Iterator<Item = &'u (VirtualHostReference, ReferencePosition)> + use<'u> {
        self.0.range((first.clone(), at)..)
    }

    fn each<'u>(&'u self, first: &VirtualHostReference) -> impl Iterator<Item = &'u VirtualHostReference> + use<'u> {
        let mut next = self.from(first, ReferencePosition::First).next();
        iter::from_fn(move || {
            let (reference, _) = next?;
            next = self.from(reference, ReferencePosition::Last).next();
            Some(reference)
        })
    }
}

pub(crate) fn moves(graph: &Graph, policy: &str) -> bool {
    let policy = graph.policies.get(policy);
    policy.is_some_and(|policy| policy.r#move.is_some())
}

pub(crate) fn hosts(gateway: &Gateway) -> impl Iterator<Item = (VirtualHostKey, &Arc<VirtualHost>)> {
    gateway.ports.iter().flat_map(|(port, listeners)| {
        listeners.iter().enumerate().flat_map(move |(index, listener)| {
            listener.virtual_hosts.iter().map(move |(hostname, host)| {
                let place = VirtualHostKey {
                    port: *port,
                    listener: index,
                    hostname: hostname.clone(),
                };
                (place, host)
            })
        })
    })
}

pub(crate) fn references(graph: &Graph, host: &VirtualHost) -> BTreeSet<VirtualHostReference> {
    let mut all = BTreeSet::new();
    for route in &host.routes {
        all.extend(object_of(&route.rule.0).map(|object| VirtualHostReference::Object(object.into())));
        if let Action::Forward(forward) = &route.action {
            add_forward(&mut all, graph, forward);
        }
    }
    all
}

pub(crate) fn sessions<'g>(graph: &'g Graph, host: &'g VirtualHost) -> impl Iterator<Item = &'g SessionUse> {
    host.routes.iter().flat_map(|route| route_sessions(graph, route))
}

pub(crate) fn route_sessions<'g>(graph: &'g Graph, route: &'g Route) -> impl Iterator<Item = &'g SessionUse> {
    let (of_rule, clusters) = match &route.action {
        Action::Forward(forward) => match &forward.session {
            Session::None => (None, None),
            Session::Rule(session) | Session::EachDestination(session) => (Some(session), None),
            Session::Destinations => (None, Some(forward.clusters())),
        },
        Action::Redirect(_) | Action::Respond { .. } => (None, None),
    };
    let clusters = clusters.into_iter().flatten();
    let of_clusters = clusters.filter_map(|cluster| graph.clusters.get(cluster)?.session.as_ref());
    of_rule.into_iter().chain(of_clusters)
}

/// `<kind>/<namespace>/<route>` of a rule's name. Routes of no object have no name.
pub(crate) fn object_of(rule: &str) -> Option<&str> {
    let (end, _) = rule.match_indices('/').nth(2)?;
    rule.get(..end)
}

fn namespace_policy(session: &SessionUse) -> VirtualHostReference {
    VirtualHostReference::NamespacePolicy(session.namespace(), session.policy.clone())
}

fn add_forward(all: &mut BTreeSet<VirtualHostReference>, graph: &Graph, forward: &Forward) {
    let clusters = || forward.clusters();
    for cluster in clusters().chain(forward.mirrors.iter().map(|mirror| &mirror.cluster)) {
        all.insert(VirtualHostReference::Cluster(cluster.clone()));
        let tls = graph.clusters.get(cluster).and_then(|cluster| cluster.tls.as_ref());
        all.extend(tls.map(|tls| VirtualHostReference::Authorities(authorities_secret(&tls.authorities))));
    }
    match &forward.session {
        Session::None => {}
        Session::Rule(session) | Session::EachDestination(session) => {
            all.insert(VirtualHostReference::Policy(session.policy.clone()));
            all.insert(namespace_policy(session));
            all.extend(
                clusters().map(|cluster| VirtualHostReference::Session(cluster.clone(), session.policy.clone())),
            );
        }
        Session::Destinations => {
            for cluster in clusters() {
                let session = graph.clusters.get(cluster).and_then(|cluster| cluster.session.as_ref());
                if let Some(session) = session {
                    all.insert(VirtualHostReference::Policy(session.policy.clone()));
                    all.insert(namespace_policy(session));
                    all.insert(VirtualHostReference::Session(cluster.clone(), session.policy.clone()));
                }
            }
        }
    }
}
