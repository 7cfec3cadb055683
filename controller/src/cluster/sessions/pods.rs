//! The sessions of pods.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use limpet_core::time::Timestamp;
use serde::{Serialize, Serializer};

use crate::time_format;

use super::ledger::Ledger;
use super::places::{Host, HostKey, Places, Served, Standing};

/// All sessions that are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Sessions {
    /// Since when sessions are counted. Envoys tell all that they know at once.
    #[serde(serialize_with = "rfc_3339")]
    pub(crate) since: Timestamp,
    /// Sorted by namespace, Service and name.
    pub(crate) pods: Vec<PodSessions>,
    /// How many sessions did not go on where they were, by reason.
    pub(crate) moves: BTreeMap<String, u64>,
}

/// The sessions of a pod, as a backend of a Service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodSessions {
    pub(crate) namespace: String,
    pub(crate) service: String,
    /// The name of the pod; the address, if it is no pod's.
    pub(crate) pod: String,
    /// One of its addresses, with the port.
    pub(crate) address: SocketAddr,
    pub(crate) state: PodState,
    /// Distinct sessions that had a request within their idle bound.
    pub(crate) sessions: usize,
    /// Whether there may be more sessions: Envoys told something that cannot be counted.
    #[serde(skip)]
    pub(crate) incomplete: bool,
    /// Requests in flight, those of `WebSocket`s among them.
    pub(crate) streams: u64,
    /// Requests of sessions since the controller's start.
    pub(crate) requests: u64,
    #[serde(serialize_with = "rfc_3339_or_null")]
    pub(crate) last_use: Option<Timestamp>,
    /// When the oldest session began here.
    #[serde(serialize_with = "rfc_3339_or_null")]
    pub(crate) oldest: Option<Timestamp>,
}

/// Which sessions a pod may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PodState {
    /// New ones.
    Ready,
    /// Those that it has.
    Draining,
    /// None.
    Gone,
}

/// What lives at the pod that asks, for `limpet drained`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OwnSessions {
    /// Whether the address is a backend's.
    pub(crate) known: bool,
    pub(crate) sessions: usize,
    pub(crate) streams: u64,
    /// Seconds since when anything is counted. Envoys may not have told everything yet if they are few.
    pub(crate) counted_for: u64,
}

impl From<Standing> for PodState {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Ready => Self::Ready,
            Standing::Draining => Self::Draining,
            Standing::Gone => Self::Gone,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn rfc_3339<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time_format::exact(*time))
}

#[expect(clippy::ref_option, reason = "as serde calls it")]
fn rfc_3339_or_null<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(time_format::exact).serialize(serializer)
}

pub(super) fn sessions(ledger: &Ledger, places: &Places, since: Timestamp, now: Timestamp) -> Sessions {
    let streams = ledger.streams();
    let mut rows = Rows::default();
    for (cluster, served) in places.served() {
        for (address, host) in &served.hosts {
            let backend = (*cluster, *address);
            let streams = streams.get(&backend).copied().unwrap_or_default();
            rows.add(served, host, ledger, backend, streams, now);
        }
    }
    Sessions {
        since,
        pods: rows.0.into_values().collect(),
        moves: ledger.moves(),
    }
}

/// The same for the pods that have this address, with all of their addresses, and nothing of others.
pub(super) fn sessions_at(ledger: &Ledger, places: &Places, ip: IpAddr, now: Timestamp) -> Vec<PodSessions> {
    let mut rows = Rows::default();
    for (cluster, served) in places.served() {
        let there = served.hosts.iter().filter(|(address, _)| address.ip() == ip);
        let pods: BTreeSet<_> = there.map(|(address, host)| pod(*address, host)).collect();
        if pods.is_empty() {
            continue;
        }
        for (address, host) in &served.hosts {
            if pods.contains(&pod(*address, host)) {
                let backend = (*cluster, *address);
                rows.add(served, host, ledger, backend, ledger.streams_of(backend), now);
            }
        }
    }
    // Who is gone and has nothing left is not known any more.
    let is_known = |row: &PodSessions| row.state != PodState::Gone || row.sessions > 0 || row.streams > 0;
    rows.0.into_values().filter(is_known).collect()
}

/// The name of the pod; the address, if it is no pod's.
fn pod(address: SocketAddr, host: &Host) -> Cow<'_, str> {
    let pod = host.pod.as_deref().map(Cow::Borrowed);
    pod.unwrap_or_else(|| address.to_string().into())
}

/// By namespace, Service and pod.
#[derive(Default)]
struct Rows<'a>(BTreeMap<(&'a str, &'a str, Cow<'a, str>), PodSessions>);

impl<'a> Rows<'a> {
    fn add(
        &mut self,
        served: &'a Served,
        host: &'a Host,
        ledger: &Ledger,
        backend: HostKey,
        streams: u64,
        now: Timestamp,
    ) {
        let (_, address) = backend;
        let pod = pod(address, host);
        let (namespace, service) = (served.service.namespace.as_str(), served.service.name.as_str());
        let row = self.0.entry((namespace, service, pod.clone()));
        let row = row.or_insert_with(|| PodSessions {
            namespace: namespace.to_owned(),
            service: service.to_owned(),
            pod: pod.into_owned(),
            address,
            state: host.standing.into(),
            sessions: 0,
            incomplete: false,
            streams: 0,
            requests: 0,
            last_use: None,
            oldest: None,
        });
        row.state = row.state.min(host.standing.into());
        row.streams = row.streams.saturating_add(streams);
        let of_host = ledger.summary(backend, now);
        let sessions = usize::try_from(of_host.sessions).unwrap_or(usize::MAX);
        row.sessions = row.sessions.saturating_add(sessions);
        row.incomplete |= of_host.incomplete;
        row.requests = row.requests.saturating_add(of_host.requests);
        row.last_use = row.last_use.max(of_host.last_use);
        row.oldest = [row.oldest, of_host.oldest].into_iter().flatten().min();
    }
}
