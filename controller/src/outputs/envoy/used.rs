use std::collections::BTreeSet;

use crate::api::ObjectName;
use crate::model::Graph;
use crate::model::graph::{Action, ClusterName, Forward, Session, Target};

/// What the routes and listeners of one Gateway lead to.
#[derive(Debug, Default)]
pub(super) struct Used<'a> {
    pub(super) clusters: BTreeSet<&'a ClusterName>,
    pub(super) policies: BTreeSet<&'a str>,
    pub(super) certificates: BTreeSet<&'a ObjectName>,
}

impl<'a> Used<'a> {
    pub(super) fn by(graph: &'a Graph, gateway: &ObjectName) -> Self {
        let mut used = Self::default();
        let gateway = graph.gateways.get(gateway);
        for listener in gateway.iter().flat_map(|gateway| gateway.ports.values()).flatten() {
            used.certificates.extend(listener.certificates.iter().flatten());
            for route in listener.virtual_hosts.iter().flat_map(|host| &host.routes) {
                if let Action::Forward(forward) = &route.action {
                    used.add(graph, forward);
                }
            }
        }
        used
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
        match &forward.session {
            Session::None => {}
            Session::Rule(session) => {
                self.policies.insert(&session.policy);
            }
            Session::Destinations => {
                let clusters = clusters.filter_map(|cluster| graph.clusters.get(cluster));
                let sessions = clusters.filter_map(|cluster| cluster.session.as_ref());
                self.policies.extend(sessions.map(|session| session.policy.as_str()));
            }
        }
    }
}
