//! The sessions of pods.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use limpet_core::time::Timestamp;
use serde::{Serialize, Serializer};

use crate::time_format;

use super::ledger::Ledger;
use super::places::{Places, Standing};

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
    let mut pods: BTreeMap<(&str, &str, String), PodSessions> = BTreeMap::new();
    for (destination, served) in places.served() {
        for (address, host) in &served.hosts {
            let pod = host
                .pod
                .as_ref()
                .map_or_else(|| address.to_string(), ToString::to_string);
            let (namespace, service) = (served.service.namespace.as_str(), served.service.name.as_str());
            let row = pods.entry((namespace, service, pod.clone()));
            let row = row.or_insert_with(|| PodSessions {
                namespace: namespace.to_owned(),
                service: service.to_owned(),
                pod,
                address: *address,
                state: host.standing.into(),
                sessions: 0,
                streams: 0,
                requests: 0,
                last_use: None,
                oldest: None,
            });
            row.state = row.state.min(host.standing.into());
            row.streams += streams.get(&(*destination, *address)).copied().unwrap_or_default();
            for (live_for, account) in ledger.accounts((*destination, *address)) {
                let (living, oldest) = account.living(live_for, now);
                row.sessions += living.estimate();
                row.requests += account.requests();
                row.last_use = row.last_use.max(Some(account.last_use()));
                row.oldest = [row.oldest, oldest].into_iter().flatten().min();
            }
        }
    }
    Sessions {
        since,
        pods: pods.into_values().collect(),
        moves: ledger.moves(),
    }
}
