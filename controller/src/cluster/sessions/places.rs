//! Which pods the backends are that Envoys tell of.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use limpet_api::{ObjectName, Text};
use limpet_core::census::Backend;
use limpet_core::outcome::RequestOutcome;
use limpet_core::time::Timestamp;
use limpet_core::token::Destination;
use limpet_model::FewMap;
use limpet_model::endpoints::{Endpoint, EndpointState};
use limpet_model::graph::ClusterName;
use sha2::{Digest as _, Sha256};

/// How long an Envoy may not have what is published: former idle bounds count for that long at least.
const LAG: Duration = Duration::from_secs(600);

/// Clusters with the same sessions: half a hash of the base of their names. Tokens and reports name clusters by four
/// bytes, which a Service can be named to share with another one. Sixteen cannot be met.
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

/// A host of a cluster.
pub(super) type HostKey = (ClusterId, SocketAddr);

/// A published cluster, and the Gateways that have it; none, if it is published no longer.
#[derive(Debug)]
pub(crate) struct PublishedCluster<'a> {
    pub(crate) cluster: &'a ClusterName,
    pub(crate) service: &'a ObjectName,
    /// By Gateway, the idle bounds of the sessions that its routes lead there, in whole seconds.
    pub(crate) gateways: Vec<(&'a ObjectName, BTreeSet<u32>)>,
}

#[derive(Debug, Default)]
pub(super) struct BackendPlaces {
    /// How many clusters a group of Envoys has.
    groups: BTreeMap<Arc<str>, usize>,
    /// What is published.
    clusters: BTreeMap<ClusterName, ClusterBounds>,
    served: HashMap<ClusterId, PublishedService>,
    /// The clusters that reports may mean.
    by_destination: HashMap<Destination, BTreeSet<ClusterId>>,
    /// Of which there may be something to forget, so that only these have to be looked at.
    pub(super) ageing: BTreeSet<ClusterId>,
    /// How often hosts or idle bounds became known that were not.
    additions: u64,
}

/// A published cluster.
#[derive(Debug)]
struct ClusterBounds {
    id: ClusterId,
    /// The idle bounds, by the group of Envoys that have it.
    groups: FewMap<Arc<str>, Box<[u32]>>,
}

/// A Service that Envoys were given.
#[derive(Debug)]
pub(super) struct PublishedService {
    pub(super) service: ObjectName,
    pub(super) destination: Destination,
    /// By the group of Envoys that have it.
    groups: FewMap<Arc<str>, IdleBounds>,
    pub(super) hosts: FewMap<SocketAddr, BackendHost>,
}

/// The idle bounds that a group of Envoys may count sessions by.
#[derive(Debug, Default)]
struct IdleBounds {
    /// Whether the Envoys have the cluster.
    is_given: bool,
    /// Since when it is a former one; `None`: it is not.
    former: FewMap<u32, Option<Timestamp>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BackendHost {
    pub(super) pod: Option<Arc<str>>,
    /// The uid of the pod.
    pub(super) owner: Option<Arc<str>>,
    pub(super) standing: BackendStanding,
    /// Since when it is no backend.
    gone_since: Option<Timestamp>,
}

/// Which sessions a backend may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BackendStanding {
    Ready,
    Draining,
    /// None: it is no endpoint any more.
    Gone,
    /// None: no route leads to its Service any more, so its endpoints are not looked at.
    Unrouted,
}

impl BackendStanding {
    /// Why sessions did not go on at a backend like this.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Ready => "unavailable",
            Self::Draining => "drained",
            Self::Gone | Self::Unrouted => "gone",
        }
    }
}

/// What an Envoy tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReportedBackend {
    pub(super) host: HostKey,
    /// The Service's namespace.
    pub(super) namespace: Text,
    pub(super) group: Arc<str>,
    pub(super) standing: BackendStanding,
    /// Until when it may have been used: no report keeps a pod that is gone alive.
    pub(super) used_by: Timestamp,
    /// Whether sessions there may have this idle bound, and the longest that they may have, in seconds.
    pub(super) has_bound: bool,
    pub(super) longest: u32,
}

/// A reason of the filter's; `None` if it has no such word. So no report invents labels of metrics.
pub(super) fn known_reason(word: &str) -> Option<&'static str> {
    let refused = RequestOutcome::all().filter(|outcome| matches!(outcome, RequestOutcome::Refused(_)));
    let refused = refused.map(RequestOutcome::word);
    refused.chain(["moved"]).find(|known| *known == word)
}

/// The same for what replicas tell each other.
pub(super) fn known_move(word: &str) -> Option<&'static str> {
    let standings = [BackendStanding::Ready, BackendStanding::Draining, BackendStanding::Gone];
    let of_pods = standings.into_iter().map(BackendStanding::reason);
    let mut others = of_pods.chain([RequestOutcome::Rebalanced.word()]);
    known_reason(word).or_else(|| others.find(|known| *known == word))
}

impl IdleBounds {
    /// These are published. Returns whether one is new.
    fn publish(&mut self, bounds: &[u32]) -> bool {
        let mut is_new = false;
        for bound in bounds {
            is_new |= self.former.insert(*bound, None).is_none();
        }
        is_new
    }

    /// None of them is published any more.
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

/// Whether an Envoy may have an idle bound that is not published any more.
fn stays(bound: u32, since: Timestamp, now: Timestamp) -> bool {
    now.since(since) <= Duration::from_secs(u64::from(bound)).max(LAG)
}

impl BackendPlaces {
    /// Takes in what changed of the published clusters.
    pub(super) fn publish<'a>(&mut self, changed: impl Iterator<Item = PublishedCluster<'a>>, now: Timestamp) {
        let mut ids = BTreeSet::new();
        for published in changed {
            let id = ClusterId::of(published.cluster);
            ids.insert((id, published.cluster));
            self.ungive(published.cluster);
            if published.gateways.is_empty() {
                continue;
            }
            let destination = Destination::of_cluster(published.cluster.0.as_bytes());
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
        // Clusters of one base are given at once.
        let bases: BTreeMap<ClusterId, &ClusterName> = ids.into_iter().collect();
        for (id, cluster) in bases {
            self.publish_cluster(id, cluster, now);
        }
    }

    /// One more cluster of a group. Returns its name, which all of its clusters share.
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

    /// Gives the groups of Envoys what they have of one base. A route may lead to one cluster of it, and another route
    /// to another.
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

    /// The clock was set: what is gone or former is so since now.
    pub(super) fn set_clock(&mut self, now: Timestamp) {
        for served in self.served.values_mut() {
            let hosts = served.hosts.values_mut().filter_map(|host| host.gone_since.as_mut());
            let bounds = served.groups.values_mut().flat_map(|bounds| bounds.former.values_mut());
            hosts.chain(bounds.flatten()).for_each(|since| *since = now);
        }
    }

    /// The Services that are published.
    pub(super) fn services(&self) -> BTreeSet<ObjectName> {
        let published = self.clusters.values().filter_map(|of| self.served.get(&of.id));
        published.map(|served| served.service.clone()).collect()
    }

    /// The Gateways that anything is published for.
    pub(super) fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.keys().map(|group| &**group)
    }

    /// Whether anything is published for a group.
    pub(super) fn knows(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }

    /// How often something became known that reports may be about.
    pub(super) fn additions(&self) -> u64 {
        self.additions
    }

    /// What an Envoy of this group tells of; nothing if it was never given it. Of several clusters that a report may
    /// mean, those that have the host: hardly ever more than one.
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

    /// Whether a group has another cluster that reports and budgets would call the same.
    pub(super) fn is_ambiguous(&self, group: &str, destination: Destination) -> bool {
        let clusters = self.by_destination.get(&destination).into_iter().flatten();
        clusters.filter(|id| self.published_to(group, **id).is_some()).count() > 1
    }

    /// The longest idle bound that sessions of a group may have, in seconds.
    pub(super) fn longest_of(&self, group: &str) -> u32 {
        let bounds = self.served.values().filter_map(|served| served.groups.get(group));
        bounds.map(IdleBounds::longest).max().unwrap_or_default()
    }

    /// The longest idle bound that sessions of a cluster may have, in seconds.
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

    /// A Service that the Envoys of a group were given.
    pub(super) fn published_to(&self, group: &str, id: ClusterId) -> Option<&PublishedService> {
        let served = self.served.get(&id)?;
        let bounds = served.groups.get(group)?;
        bounds.is_given.then_some(served)
    }

    pub(super) fn published(&self) -> impl Iterator<Item = (&ClusterId, &PublishedService)> {
        self.served.iter()
    }

    /// Forgets hosts that are gone and are none of these, and idle bounds that no Envoy has any more.
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

    /// Whether any Envoys have it.
    fn is_published(&self) -> bool {
        self.groups.values().any(|bounds| bounds.is_given)
    }

    /// Whether it, a host or an idle bound of it is a former one.
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

    /// The Gateways whose Envoys have it.
    pub(super) fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.keys().map(|group| &**group)
    }
}

impl BackendHost {
    /// Whether it may have sessions.
    pub(super) fn is_backend(&self) -> bool {
        matches!(self.standing, BackendStanding::Ready | BackendStanding::Draining)
    }

    fn leave(&mut self, now: Timestamp) {
        self.standing = BackendStanding::Gone;
        self.gone_since.get_or_insert(now);
    }
}
