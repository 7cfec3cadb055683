//! The pods of reported backends.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use limpet_api::{ObjectName, Text};
use limpet_core::census::Backend;
use limpet_core::outcome::RequestOutcome;
use limpet_core::time::Timestamp;
use limpet_core::token::DestinationId;
use limpet_model::FewMap;
use limpet_model::endpoints::{Endpoint, EndpointState};
use limpet_model::graph::ClusterName;
use sha2::{Digest as _, Sha256};

/// How long an Envoy may lack what is published: former idle bounds count for that long at least.
const LAG: Duration = Duration::from_secs(600);

/// Clusters with the same sessions: half a hash of the base of their names. Tokens and reports name clusters by four
/// bytes, and an attacker can name a Service to collide with another. Sixteen are too many for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ClusterId(pub(super) [u8; 16]);

impl ClusterId {
    pub(super) fn of(cluster: &ClusterName) -> Self {
        let mut id = [0; 16];
        for (to, from) in id.iter_mut().zip(Sha256::digest(cluster.base())) {
            *to = from;
        }
        Self(id)
    }
}

pub(super) type HostKey = (ClusterId, SocketAddr);

/// A published cluster with its Gateways; without any, it is unpublished.
#[derive(Debug)]
pub(crate) struct PublishedCluster<'a> {
    pub(crate) cluster: &'a ClusterName,
    pub(crate) service: &'a ObjectName,
    /// By Gateway, the idle bounds of the sessions of its routes, in whole seconds.
    pub(crate) gateways: Vec<(&'a ObjectName, BTreeSet<u32>)>,
}

#[derive(Debug, Default)]
pub(super) struct BackendPlaces {
    /// How many clusters each group of Envoys has.
    groups: BTreeMap<Arc<str>, usize>,
    clusters: BTreeMap<ClusterName, ClusterBounds>,
    served: HashMap<ClusterId, PublishedService>,
    /// The clusters that a report may mean.
    by_destination: HashMap<DestinationId, BTreeSet<ClusterId>>,
    /// Only these may have something to forget.
    pub(super) ageing: BTreeSet<ClusterId>,
    /// How often new hosts or idle bounds became known.
    additions: u64,
}

#[derive(Debug)]
struct ClusterBounds {
    id: ClusterId,
    /// Idle bounds by group of Envoys.
    groups: FewMap<Arc<str>, Box<[u32]>>,
}

/// A Service that Envoys were given.
#[derive(Debug)]
pub(super) struct PublishedService {
    pub(super) service: ObjectName,
    pub(super) destination: DestinationId,
    /// By group of Envoys.
    groups: FewMap<Arc<str>, IdleBounds>,
    pub(super) hosts: FewMap<SocketAddr, BackendHost>,
}

/// The idle bounds by which a group may count sessions.
#[derive(Debug, Default)]
struct IdleBounds {
    /// Whether the Envoys have the cluster.
    is_given: bool,
    /// Since when each is a former one; `None`: published.
    former: FewMap<u32, Option<Timestamp>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BackendHost {
    pub(super) pod: Option<Arc<str>>,
    /// The pod's uid.
    pub(super) owner: Option<Arc<str>>,
    pub(super) standing: BackendStanding,
    gone_since: Option<Timestamp>,
}

/// Which sessions a backend may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BackendStanding {
    Ready,
    Draining,
    /// No sessions: no endpoint.
    Gone,
    /// No sessions: no route leads to its Service, so its endpoints are not known.
    Unrouted,
}

impl BackendStanding {
    /// Why sessions moved away from such a backend.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Ready => "unavailable",
            Self::Draining => "drained",
            Self::Gone | Self::Unrouted => "gone",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReportedBackend {
    pub(super) host: HostKey,
    pub(super) namespace: Text,
    pub(super) group: Arc<str>,
    pub(super) standing: BackendStanding,
    /// The latest possible use: no report keeps a pod that is gone alive.
    pub(super) used_by: Timestamp,
    /// Whether sessions there may have this idle bound, and the longest one, in seconds.
    pub(super) has_bound: bool,
    pub(super) longest: u32,
}

/// The filter's reason; `None` if it has no such word, so that no report invents labels of metrics.
pub(super) fn known_reason(word: &str) -> Option<&'static str> {
    let refused = RequestOutcome::all().filter(|outcome| matches!(outcome, RequestOutcome::Refused(_)));
    let refused = refused.map(RequestOutcome::as_str);
    refused.chain(["moved"]).find(|known| *known == word)
}

/// The same for reports of replicas.
pub(super) fn known_move(word: &str) -> Option<&'static str> {
    let standings = [BackendStanding::Ready, BackendStanding::Draining, BackendStanding::Gone];
    let of_pods = standings.into_iter().map(BackendStanding::reason);
    let mut others = of_pods.chain([RequestOutcome::Rebalanced.as_str()]);
    known_reason(word).or_else(|| others.find(|known| *known == word))
}

impl IdleBounds {
    fn publish(&mut self, bounds: &[u32]) -> bool {
        let mut is_new = false;
        for bound in bounds {
            is_new |= self.former.insert(*bound, None).is_none();
        }
        is_new
    }

    fn leave(&mut self, now: Timestamp) {
        for former in self.former.values_mut() {
            former.get_or_insert(now);
        }
    }

    fn forget(&mut self, now: Timestamp) {
        self.former
            .retain(|bound, former| former.is_none_or(|since| stays(*bound, since, now)));
    }

    fn has(&self, bound: u32, now: Timestamp) -> bool {
        let former = self.former.get(&bound);
        former.is_some_and(|former| former.is_none_or(|since| stays(bound, since, now)))
    }

    fn longest(&self) -> u32 {
        self.former.keys().last().copied().unwrap_or_default()
    }
}

/// Whether an Envoy may still have this former bound.
fn stays(bound: u32, since: Timestamp, now: Timestamp) -> bool {
    now.since(since) <= Duration::from_secs(u64::from(bound)).max(LAG)
}

impl BackendPlaces {
    pub(super) fn publish<'a>(&mut self, changed: impl Iterator<Item = PublishedCluster<'a>>, now: Timestamp) {
        let mut ids = BTreeSet::new();
        for published in changed {
            let id = ClusterId::of(published.cluster);
            ids.insert((id, published.cluster));
            self.ungive(published.cluster);
            if published.gateways.is_empty() {
                continue;
            }
            let destination = DestinationId::of_cluster(published.cluster.0.as_bytes());
            self.by_destination.entry(destination).or_default().insert(id);
            self.served.entry(id).or_insert_with(|| PublishedService {
                service: published.service.clone(),
                destination,
                groups: FewMap::default(),
                hosts: FewMap::default(),
            });
            let gateways = published.gateways.into_iter();
            let groups =
                gateways.map(|(gateway, bounds)| (self.enter(&gateway.to_string()), bounds.into_iter().collect()));
            let groups = groups.collect();
            self.clusters
                .insert(published.cluster.clone(), ClusterBounds { id, groups });
        }
        // Each base once.
        let bases: BTreeMap<ClusterId, &ClusterName> = ids.into_iter().collect();
        for (id, cluster) in bases {
            self.publish_cluster(id, cluster, now);
        }
    }

    /// Counts one more cluster of a group. Returns the shared name of the group.
    fn enter(&mut self, group: &str) -> Arc<str> {
        let known = self.groups.get_key_value(group).map(|(known, _)| Arc::clone(known));
        let group = known.unwrap_or_else(|| group.into());
        *self.groups.entry(Arc::clone(&group)).or_default() += 1;
        group
    }

    fn ungive(&mut self, cluster: &ClusterName) {
        let given = self.clusters.remove(cluster);
        for group in given.iter().flat_map(|given| given.groups.keys()) {
            if let Some(count) = self.groups.get_mut(group) {
                *count -= 1;
                if *count == 0 {
                    self.groups.remove(group);
                }
            }
        }
    }

    /// Sets the groups of one base. Routes may lead to different clusters of it.
    fn publish_cluster(&mut self, id: ClusterId, cluster: &ClusterName, now: Timestamp) {
        let Some(served) = self.served.get_mut(&id) else {
            return;
        };
        for bounds in served.groups.values_mut() {
            bounds.is_given = false;
            bounds.leave(now);
        }
        let base = ClusterName(String::from_utf8_lossy(cluster.base()).into());
        let with_base = self
            .clusters
            .range(&base..)
            .take_while(|(name, _)| name.0.starts_with(base.0.as_str()));
        let mut is_published = false;
        for given in with_base.map(|(_, given)| given).filter(|given| given.id == id) {
            is_published = true;
            for (group, bounds) in given.groups.iter() {
                let is_new = served.groups.update(group, |of_group| {
                    of_group.is_given = true;
                    of_group.publish(bounds)
                });
                self.additions += u64::from(is_new);
            }
        }
        served.forget_bounds(now);
        if !is_published {
            let hosts = served.hosts.values_mut().filter(|host| host.is_backend());
            hosts.for_each(|host| {
                host.leave(now);
                host.standing = BackendStanding::Unrouted;
            });
        }
        if served.is_ageing() {
            self.ageing.insert(id);
        }
    }

    pub(super) fn observe(&mut self, cluster: &ClusterName, endpoints: &[Endpoint], now: Timestamp) {
        let given = self.clusters.get(cluster);
        let served = given.and_then(|given| self.served.get_mut(&given.id));
        let Some(served) = served else { return };
        // Clusters of one base have the same Service, and so the same endpoints.
        for host in served.hosts.values_mut() {
            host.leave(now);
        }
        for endpoint in endpoints {
            #[cfg(test)]
            crate::cluster::looked::at_one();
            let standing = match endpoint.state {
                EndpointState::Ready => BackendStanding::Ready,
                EndpointState::Draining => BackendStanding::Draining,
            };
            let host = BackendHost {
                pod: endpoint.pod.clone(),
                owner: endpoint.owner.clone(),
                standing,
                gone_since: None,
            };
            let before = served.hosts.insert(endpoint.address, host);
            self.additions += u64::from(before.is_none());
        }
        if let Some(given) = given
            && served.is_ageing()
        {
            self.ageing.insert(given.id);
        }
    }

    /// The clock was set: the age of all that is gone or former begins now.
    pub(super) fn set_clock(&mut self, now: Timestamp) {
        for served in self.served.values_mut() {
            let hosts = served.hosts.values_mut().filter_map(|host| host.gone_since.as_mut());
            let bounds = served.groups.values_mut().flat_map(|bounds| bounds.former.values_mut());
            hosts.chain(bounds.flatten()).for_each(|since| *since = now);
        }
    }

    pub(super) fn services(&self) -> BTreeSet<ObjectName> {
        let published = self.clusters.values().filter_map(|of| self.served.get(&of.id));
        published.map(|served| served.service.clone()).collect()
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.keys().map(|group| &**group)
    }

    /// Whether anything is published for a group.
    pub(super) fn knows(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }

    pub(super) fn additions(&self) -> u64 {
        self.additions
    }

    /// The backends that a report of this group may mean; none if the group never had it. More than one is rare.
    pub(super) fn resolve(&self, group: &str, backend: Backend, now: Timestamp) -> Vec<ReportedBackend> {
        let clusters = self.by_destination.get(&backend.destination).into_iter().flatten();
        let found = clusters.filter_map(|id| self.resolve_in(*id, group, backend, now));
        found.collect()
    }

    /// The same, in this cluster.
    pub(super) fn resolve_in(
        &self,
        id: ClusterId,
        group: &str,
        backend: Backend,
        now: Timestamp,
    ) -> Option<ReportedBackend> {
        let served = self.served.get(&id)?;
        let (group, bounds) = served.groups.get_key_value(group)?;
        let host = served.hosts.get(&backend.host).filter(|_| bounds.is_given)?;
        Some(ReportedBackend {
            host: (id, backend.host),
            namespace: served.service.namespace.clone(),
            group: Arc::clone(group),
            standing: host.standing,
            used_by: host.gone_since.map_or(now, |gone| gone.min(now)),
            has_bound: bounds.has(backend.live_for, now),
            longest: bounds.longest(),
        })
    }

    /// Whether a group has another cluster with the same destination in reports and budgets.
    pub(super) fn is_ambiguous(&self, group: &str, destination: DestinationId) -> bool {
        let clusters = self.by_destination.get(&destination).into_iter().flatten();
        clusters.filter(|id| self.published_to(group, **id).is_some()).count() > 1
    }

    pub(super) fn longest_of(&self, group: &str) -> u32 {
        let bounds = self.served.values().filter_map(|served| served.groups.get(group));
        bounds.map(IdleBounds::longest).max().unwrap_or_default()
    }

    pub(super) fn longest(&self, id: ClusterId) -> u32 {
        let groups = self
            .served
            .get(&id)
            .into_iter()
            .flat_map(|served| served.groups.values());
        groups.map(IdleBounds::longest).max().unwrap_or_default()
    }

    pub(super) fn has(&self, (id, host): HostKey) -> bool {
        let served = self.served.get(&id);
        served.is_some_and(|served| served.hosts.contains_key(&host))
    }

    pub(super) fn published_to(&self, group: &str, id: ClusterId) -> Option<&PublishedService> {
        let served = self.served.get(&id)?;
        let bounds = served.groups.get(group)?;
        bounds.is_given.then_some(served)
    }

    pub(super) fn published(&self) -> impl Iterator<Item = (&ClusterId, &PublishedService)> {
        self.served.iter()
    }

    /// Forgets gone hosts without sessions, and idle bounds that no Envoy has any more.
    pub(super) fn forget(&mut self, lived: &HashSet<HostKey>, now: Timestamp) {
        for id in std::mem::take(&mut self.ageing) {
            let Some(served) = self.served.get_mut(&id) else {
                continue;
            };
            served.forget_bounds(now);
            served
                .hosts
                .retain(|host, at| at.is_backend() || lived.contains(&(id, *host)));
            if served.is_published() || !served.hosts.is_empty() {
                if served.is_ageing() {
                    self.ageing.insert(id);
                }
                continue;
            }
            let destination = served.destination;
            self.served.remove(&id);
            if let Some(ids) = self.by_destination.get_mut(&destination) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.by_destination.remove(&destination);
                }
            }
        }
    }
}

impl PublishedService {
    pub(super) fn namespace(&self) -> &str {
        &self.service.namespace
    }

    fn is_published(&self) -> bool {
        self.groups.values().any(|bounds| bounds.is_given)
    }

    /// Whether anything of it is former: itself, a host or an idle bound.
    fn is_ageing(&self) -> bool {
        let mut bounds = self.groups.values().flat_map(|bounds| bounds.former.values());
        !self.is_published() || bounds.any(Option::is_some) || !self.hosts.values().all(BackendHost::is_backend)
    }

    fn forget_bounds(&mut self, now: Timestamp) {
        self.groups.retain(|_, bounds| {
            bounds.forget(now);
            bounds.is_given || !bounds.former.is_empty()
        });
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.keys().map(|group| &**group)
    }
}

impl BackendHost {
    pub(super) fn is_backend(&self) -> bool {
        matches!(self.standing, BackendStanding::Ready | BackendStanding::Draining)
    }

    fn leave(&mut self, now: Timestamp) {
        self.standing = BackendStanding::Gone;
        self.gone_since.get_or_insert(now);
    }
}
