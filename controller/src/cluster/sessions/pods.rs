use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use limpet_core::time::Timestamp;
use serde::{Serialize, Serializer};

use crate::time_format;

use super::RegistryState;
use super::gaps::CountGaps;
use super::ledger::HostSummary;
use super::places::{BackendHost, BackendPlaces, BackendStanding, ClusterId, HostKey, PublishedService};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SessionCounts {
    /// Since when sessions are counted; `None`: not yet.
    #[serde(serialize_with = "rfc_3339_or_null")]
    pub(crate) since: Option<Timestamp>,
    #[serde(flatten)]
    pub(crate) gaps: CountGaps,
    /// Sorted by namespace, Service and name.
    pub(crate) pods: Vec<PodSessions>,
    /// Moved sessions by reason.
    pub(crate) moves: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodSessions {
    pub(crate) namespace: String,
    pub(crate) service: String,
    /// The name of the pod; the address, if it is no pod's.
    pub(crate) pod: String,
    /// Tells pods of one name apart. From the EndpointSlice.
    #[serde(serialize_with = "text_or_nothing", skip_serializing_if = "Option::is_none")]
    pub(crate) uid: Option<Arc<str>>,
    /// One of its addresses, with the port.
    pub(crate) address: SocketAddr,
    pub(crate) state: PodState,
    /// Distinct sessions that had a request within their idle bound.
    pub(crate) sessions: usize,
    /// Requests in flight, including `WebSocket`s.
    pub(crate) streams: u64,
    /// Requests of sessions since the controllers started, or since the pod was last unused.
    pub(crate) requests: u64,
    #[serde(serialize_with = "rfc_3339_or_null")]
    pub(crate) last_use: Option<Timestamp>,
    /// When the oldest session began here.
    #[serde(serialize_with = "rfc_3339_or_null")]
    pub(crate) oldest: Option<Timestamp>,
    /// Why there may be more.
    #[serde(flatten)]
    pub(crate) gaps: CountGaps,
}

/// Which sessions a pod may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PodState {
    /// New ones and those that it has.
    Ready,
    /// Only those that it has.
    Draining,
    /// No sessions: no endpoint.
    Gone,
    /// No sessions: no route leads to its Service.
    Unrouted,
}

impl PodState {
    pub(crate) fn is_backend(self) -> bool {
        matches!(self, Self::Ready | Self::Draining)
    }
}

impl From<BackendStanding> for PodState {
    fn from(standing: BackendStanding) -> Self {
        match standing {
            BackendStanding::Ready => Self::Ready,
            BackendStanding::Draining => Self::Draining,
            BackendStanding::Gone => Self::Gone,
            BackendStanding::Unrouted => Self::Unrouted,
        }
    }
}

#[expect(clippy::ref_option, reason = "as serde calls it")]
fn text_or_nothing<S: Serializer>(text: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
    text.as_deref().serialize(serializer)
}

#[expect(clippy::ref_option, reason = "as serde calls it")]
fn rfc_3339_or_null<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(time_format::exact).serialize(serializer)
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct OwnSessions {
    /// Whether the address is a backend's.
    pub(crate) known: bool,
    pub(crate) sessions: usize,
    pub(crate) streams: u64,
    #[serde(serialize_with = "rfc_3339_or_null")]
    pub(crate) since: Option<Timestamp>,
    #[serde(flatten)]
    pub(crate) gaps: CountGaps,
}

pub(super) fn sessions(content: &RegistryState, now: Timestamp) -> SessionCounts {
    let RegistryState { ledger, places, .. } = content;
    let streams = ledger.streams();
    let gaps = GapsBy::new(content, now);
    let mut pods: BTreeMap<(&str, &str, String, Cow<'_, str>), PodSessions> = BTreeMap::new();
    for (cluster, served) in places.published() {
        let unknown = gaps.of(served);
        for (address, host) in served.hosts.iter() {
            let pod = host
                .pod
                .as_ref()
                .map_or_else(|| address.to_string(), ToString::to_string);
            let (namespace, service) = (served.service.namespace.as_str(), served.service.name.as_str());
            // Another pod of the same name has its own sessions.
            let identity = match &host.owner {
                Some(uid) => Cow::Borrowed(&**uid),
                None => Cow::Owned(address.ip().to_string()),
            };
            let row = pods.entry((namespace, service, pod.clone(), identity));
            let row = row.or_insert_with(|| PodSessions {
                namespace: namespace.to_owned(),
                service: service.to_owned(),
                pod,
                uid: host.owner.clone(),
                address: *address,
                state: host.standing.into(),
                sessions: 0,
                streams: 0,
                requests: 0,
                last_use: None,
                oldest: None,
                gaps: CountGaps::default(),
            });
            row.gaps.extend(&unknown);
            row.state = row.state.min(host.standing.into());
            let in_flight = streams.get(&(*cluster, *address)).copied().unwrap_or_default();
            row.streams = row.streams.saturating_add(in_flight);
            let of_host = ledger.summary((*cluster, *address), now);
            row.sessions = row.sessions.saturating_add(count(&of_host));
            row.gaps.extend(&uncounted(&of_host));
            row.requests = row.requests.saturating_add(of_host.requests);
            row.last_use = row.last_use.max(of_host.last_use);
            row.oldest = [row.oldest, of_host.oldest].into_iter().flatten().min();
        }
    }
    SessionCounts {
        since: content.since,
        gaps: gaps.all(),
        pods: pods.into_values().collect(),
        moves: ledger.moves(),
    }
}

/// Sessions of the pod at an address. It may have others, of another family. `namespace`: the pod's, so that
/// EndpointSlices of others do not count; `None`: all count.
///
/// Any pod may ask, so only hosts in its namespace are visited.
pub(super) fn own(content: &RegistryState, ip: IpAddr, namespace: Option<&str>, now: Timestamp) -> OwnSessions {
    let gaps = GapsBy::new(content, now);
    let mut own = OwnSessions {
        known: false,
        sessions: 0,
        streams: 0,
        since: content.since,
        gaps: CountGaps::default(),
    };
    for (key, served, host) in hosts_of_pod(&content.places, ip, namespace) {
        let streams = content.ledger.streams_of(key);
        let of_host = content.ledger.summary(key, now);
        let (sessions, uncounted) = (count(&of_host), uncounted(&of_host));
        // A pod that is gone and has nothing left is not known any more.
        if !host.is_backend() && sessions == 0 && streams == 0 && uncounted.is_complete() {
            continue;
        }
        own.gaps.extend(&uncounted);
        own.known = true;
        own.gaps.extend(&gaps.of(served));
        own.streams = own.streams.saturating_add(streams);
        own.sessions = own.sessions.saturating_add(sessions);
    }
    if !own.known {
        // An Envoy may have reported it before it was known.
        own.gaps.extend(&gaps.everywhere);
        let served = served(&content.places, namespace);
        served.for_each(|(_, served)| own.gaps.extend(&gaps.of(served)));
    }
    own
}

/// The published Services of a namespace; all, without one.
fn served<'p>(
    places: &'p BackendPlaces,
    namespace: Option<&str>,
) -> impl Iterator<Item = (&'p ClusterId, &'p PublishedService)> {
    let served = places.published();
    served.filter(move |(_, served)| namespace.is_none_or(|own| served.service.namespace == own))
}

/// The hosts of the pod at an address, including those at its other addresses.
fn hosts_of_pod<'p>(
    places: &'p BackendPlaces,
    ip: IpAddr,
    namespace: Option<&str>,
) -> Vec<(HostKey, &'p PublishedService, &'p BackendHost)> {
    let served = || served(places, namespace);
    let (first, last) = (SocketAddr::new(ip, 0), SocketAddr::new(ip, u16::MAX));
    let mut at_address = Vec::new();
    for (cluster, served) in served() {
        let hosts = served.hosts.range(first..=last);
        at_address.extend(hosts.map(|(address, host)| ((*cluster, *address), served, host)));
    }
    // A former pod may have had the address. A namespace's EndpointSlices say nothing about the pods of another one.
    let reused: BTreeSet<&str> = at_address
        .iter()
        .filter(|(.., host)| host.is_backend() && host.owner.is_some())
        .map(|(_, served, _)| served.namespace())
        .collect();
    let owners: HashSet<(&str, &Arc<str>)> = at_address
        .iter()
        .map(|(_, served, host)| (served.namespace(), host))
        .filter(|(namespace, host)| host.is_backend() || !reused.contains(namespace))
        .filter_map(|(namespace, host)| Some((namespace, host.owner.as_ref()?)))
        .collect();
    let namespaces: BTreeSet<&str> = owners.iter().map(|(namespace, _)| *namespace).collect();
    let of_owners = served()
        .filter(|(_, served)| namespaces.contains(served.namespace()))
        .flat_map(|(cluster, served)| {
            let hosts = served.hosts.iter();
            hosts.map(move |(address, host)| ((*cluster, *address), served, host))
        })
        .inspect(|_| {
            #[cfg(test)]
            crate::cluster::looked::at_one();
        })
        .filter(|(_, served, host)| {
            let owner = host.owner.as_ref();
            owner.is_some_and(|owner| owners.contains(&(served.namespace(), owner)))
        });
    let without_owner = at_address.iter().filter(|(.., host)| host.owner.is_none()).copied();
    without_owner.chain(of_owners).collect()
}

fn count(of_host: &HostSummary) -> usize {
    usize::try_from(of_host.sessions).unwrap_or(usize::MAX)
}

fn uncounted(of_host: &HostSummary) -> CountGaps {
    let mut gaps = CountGaps::default();
    if of_host.incomplete {
        gaps.push("Envoys told of sessions that cannot be counted: too many, or of another time or idle bound");
    }
    gaps
}

struct GapsBy<'a> {
    everywhere: CountGaps,
    by_group: BTreeMap<&'a str, CountGaps>,
}

impl<'a> GapsBy<'a> {
    fn new(content: &'a RegistryState, now: Timestamp) -> Self {
        let groups = content.places.groups();
        let by_group = groups.map(|group| (group, content.attendance.gaps_of(group, now)));
        Self {
            everywhere: content.attendance.gaps(now),
            by_group: by_group.filter(|(_, gaps)| !gaps.is_complete()).collect(),
        }
    }

    fn all(&self) -> CountGaps {
        let mut all = self.everywhere.clone();
        self.by_group.values().for_each(|gaps| all.extend(gaps));
        all
    }

    fn of(&self, served: &PublishedService) -> CountGaps {
        let mut all = self.everywhere.clone();
        let groups = served.groups().filter_map(|group| self.by_group.get(group));
        groups.for_each(|gaps| all.extend(gaps));
        all
    }
}
