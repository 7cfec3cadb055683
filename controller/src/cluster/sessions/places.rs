//! Which pods the backends are that Envoys tell of.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use limpet_api::ObjectName;
use limpet_core::census::Backend;
use limpet_core::outcome::RequestOutcome;
use limpet_core::token::Destination;
use limpet_model::endpoints::{Endpoint, EndpointState};
use limpet_model::graph::ClusterName;

#[derive(Debug, Default)]
pub(super) struct Places {
    groups: BTreeSet<String>,
    clusters: BTreeMap<ClusterName, Destination>,
    served: HashMap<Destination, Served>,
}

/// A Service that Envoys were given.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) service: ObjectName,
    groups: BTreeSet<String>,
    pub(super) hosts: BTreeMap<SocketAddr, Host>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) pod: Option<Arc<str>>,
    pub(super) standing: Standing,
}

/// Which sessions a backend may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    Ready,
    Draining,
    /// None: it is no endpoint any more.
    Gone,
}

impl Standing {
    /// Why sessions did not go on at a backend like this.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Ready => "unavailable",
            Self::Draining => "drained",
            Self::Gone => "gone",
        }
    }
}

/// A reason of the filter's; `None` if it has no such word. So nobody invents labels of metrics.
pub(super) fn known_reason(word: &str) -> Option<&'static str> {
    let refused = RequestOutcome::all().filter(|outcome| matches!(outcome, RequestOutcome::Refused(_)));
    let refused = refused.map(RequestOutcome::word);
    refused.chain(["moved"]).find(|known| *known == word)
}

impl Places {
    pub(super) fn publish<'a>(
        &mut self,
        clusters: impl Iterator<Item = (&'a ClusterName, &'a ObjectName, &'a [ObjectName])>,
    ) {
        let before = std::mem::take(&mut self.clusters);
        self.groups.clear();
        for served in self.served.values_mut() {
            served.groups.clear();
        }
        for (cluster, service, gateways) in clusters {
            let destination = Destination::of_cluster(cluster.0.as_bytes());
            self.clusters.insert(cluster.clone(), destination);
            let served = self.served.entry(destination).or_insert_with(|| Served {
                service: service.clone(),
                groups: BTreeSet::new(),
                hosts: BTreeMap::new(),
            });
            for gateway in gateways {
                let group = gateway.to_string();
                self.groups.insert(group.clone());
                served.groups.insert(group);
            }
        }
        let kept: HashSet<_> = self.clusters.values().copied().collect();
        for destination in before.into_values() {
            if !kept.contains(&destination)
                && let Some(served) = self.served.get_mut(&destination)
            {
                for host in served.hosts.values_mut() {
                    host.standing = Standing::Gone;
                }
            }
        }
    }

    pub(super) fn observe(&mut self, cluster: &ClusterName, endpoints: &[Endpoint]) {
        let served = self
            .clusters
            .get(cluster)
            .and_then(|destination| self.served.get_mut(destination));
        let Some(served) = served else { return };
        // Clusters with one destination have the same Service, and so the same endpoints.
        for host in served.hosts.values_mut() {
            host.standing = Standing::Gone;
        }
        for endpoint in endpoints {
            let standing = match endpoint.state {
                EndpointState::Ready => Standing::Ready,
                EndpointState::Draining => Standing::Draining,
            };
            let pod = endpoint.pod.clone();
            served.hosts.insert(endpoint.address, Host { pod, standing });
        }
    }

    /// The Services that are published.
    pub(super) fn services(&self) -> BTreeSet<ObjectName> {
        let published = self.clusters.values().filter_map(|of| self.served.get(of));
        published.map(|served| served.service.clone()).collect()
    }

    /// Whether anything is published for a group.
    pub(super) fn knows(&self, group: &str) -> bool {
        self.groups.contains(group)
    }

    /// What a backend is that an Envoy of this group tells of; `None` if it was never given it.
    pub(super) fn standing(&self, group: &str, backend: Backend) -> Option<Standing> {
        let served = self.served.get(&backend.destination)?;
        let host = served.hosts.get(&backend.host)?;
        served.groups.contains(group).then_some(host.standing)
    }

    /// A Service that the Envoys of a group were given.
    pub(super) fn served_to(&self, group: &str, destination: Destination) -> Option<&Served> {
        let served = self.served.get(&destination)?;
        served.groups.contains(group).then_some(served)
    }

    pub(super) fn served(&self) -> impl Iterator<Item = (&Destination, &Served)> {
        self.served.iter()
    }

    /// Forgets hosts that are gone and are none of these.
    pub(super) fn forget(&mut self, lived: &HashSet<(Destination, SocketAddr)>) {
        let published: BTreeSet<_> = self.clusters.values().map(|destination| destination.0).collect();
        self.served.retain(|destination, served| {
            served
                .hosts
                .retain(|host, at| at.standing != Standing::Gone || lived.contains(&(*destination, *host)));
            !served.hosts.is_empty() || published.contains(&destination.0)
        });
    }
}
