//! The pods behind the ports of Services, with their sessions.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use super::search::{MatchedWords, SearchWords};
use super::view::{FenceView, PodView, SessionsView};
use crate::cluster::controller::present::PublishedSnapshot;
use crate::cluster::sessions::{PodSessions, PodState};
use crate::time_format;
use limpet_api::ObjectName;
use limpet_core::time::Timestamp;
use limpet_model::endpoints::{Endpoint, EndpointState};

#[derive(Debug)]
pub(super) struct PodIndex<'a> {
    present: &'a PublishedSnapshot,
    /// By namespace and name of the Service.
    counted: BTreeMap<(&'a str, &'a str), Vec<&'a PodSessions>>,
    fences: BTreeMap<SocketAddr, Vec<FenceView>>,
}

#[derive(Debug)]
pub(super) struct PodEntry<'a> {
    name: Option<&'a str>,
    address: SocketAddr,
    state: PodState,
    held_back: bool,
    fences: &'a [FenceView],
    counted: Option<&'a PodSessions>,
}

impl<'a> PodIndex<'a> {
    pub(super) fn new(present: &'a PublishedSnapshot, sessions: &'a [PodSessions]) -> Self {
        let mut counted: BTreeMap<_, Vec<&PodSessions>> = BTreeMap::new();
        for of in sessions {
            let service = (of.namespace.as_str(), of.service.as_str());
            counted.entry(service).or_default().push(of);
        }
        let mut fences: BTreeMap<_, Vec<FenceView>> = BTreeMap::new();
        for fence in present.fences.iter() {
            fences.entry(fence.address).or_default().push(FenceView {
                namespace: fence.namespace.clone(),
                not_before: time_format::exact(Timestamp::from_unix_seconds(fence.not_before)),
            });
        }
        Self {
            present,
            counted,
            fences,
        }
    }

    pub(super) fn endpoints(&self, service: &ObjectName, port_name: &str) -> Vec<Endpoint> {
        self.present.slices.endpoints(service, port_name)
    }

    /// The pods with endpoints, and former ones that still have sessions.
    pub(super) fn pods<'b>(&'b self, service: &ObjectName, endpoints: &'b [Endpoint]) -> Vec<PodEntry<'b>> {
        let keeper: Arc<str> = service.namespace.as_str().into();
        let counted = self.counted.get(&(&*service.namespace, &*service.name));
        let counted = counted.map(Vec::as_slice).unwrap_or_default();
        // Of several pods of a name, the present one counts, or the one of the uid.
        let mut by_name: BTreeMap<(&str, Option<&str>), &PodSessions> = BTreeMap::new();
        for of in counted {
            let names = [(of.pod.as_str(), None), (of.pod.as_str(), of.uid.as_deref())];
            for name in names {
                let known = by_name.entry(name).or_insert(of);
                if of.state < known.state {
                    *known = of;
                }
            }
        }
        let held = |address| self.present.held_back.contains(&(Arc::clone(&keeper), address));
        let mut there = HashSet::new();
        let mut pods: Vec<PodEntry<'_>> = Vec::with_capacity(endpoints.len());
        for endpoint in endpoints {
            let address = endpoint.address.to_string();
            let name = endpoint.pod.as_deref().unwrap_or(&address);
            let counted = by_name.get(&(name, endpoint.owner.as_deref())).copied();
            there.extend(counted.map(|counted| (counted.pod.as_str(), counted.uid.as_deref())));
            let drains = endpoint.state == EndpointState::Draining
                || counted.is_some_and(|counted| counted.state == PodState::Draining);
            pods.push(PodEntry {
                name: endpoint.pod.as_deref(),
                address: endpoint.address,
                state: if drains { PodState::Draining } else { PodState::Ready },
                held_back: held(endpoint.address),
                fences: self.fences_of(endpoint.address),
                counted,
            });
        }
        let gone = counted
            .iter()
            .filter(|of| !there.contains(&(of.pod.as_str(), of.uid.as_deref())));
        pods.extend(gone.filter(|of| of.state == PodState::Gone).map(|of| PodEntry {
            name: Some(&of.pod),
            address: of.address,
            state: of.state,
            held_back: false,
            fences: self.fences_of(of.address),
            counted: Some(of),
        }));
        pods
    }

    fn fences_of(&self, address: SocketAddr) -> &[FenceView] {
        self.fences.get(&address).map(Vec::as_slice).unwrap_or_default()
    }
}

impl PodEntry<'_> {
    pub(super) fn match_words(&self, search: &SearchWords) -> MatchedWords {
        let address = self.address.to_string();
        let fenced = if self.fences.is_empty() { "" } else { "fenced" };
        let held_back = if self.held_back { "held back" } else { "" };
        let name = self.name.unwrap_or_default();
        search.match_words([name, &address, word(self.state), fenced, held_back])
    }

    pub(super) fn is_gone(&self) -> bool {
        self.state == PodState::Gone
    }

    /// Whether it needs more words than its name.
    pub(super) fn is_special(&self) -> bool {
        self.state != PodState::Ready || self.held_back || !self.fences.is_empty()
    }

    /// The counted pod, and its number of sessions. A pod may have several addresses.
    pub(super) fn sessions(&self) -> Option<((&str, Option<&str>), usize)> {
        self.counted
            .map(|counted| ((counted.pod.as_str(), counted.uid.as_deref()), counted.sessions))
    }

    pub(super) fn view(&self) -> PodView {
        PodView {
            name: self.name.map(str::to_owned),
            address: self.address.to_string(),
            state: word(self.state),
            held_back: self.held_back,
            fences: self.fences.to_vec(),
            sessions: self.counted.map(|counted| SessionsView {
                sessions: counted.sessions,
                streams: counted.streams,
                requests: counted.requests,
                last_use: counted.last_use.map(time_format::exact),
                oldest: counted.oldest.map(time_format::exact),
            }),
        }
    }
}

fn word(state: PodState) -> &'static str {
    match state {
        PodState::Ready => "ready",
        PodState::Draining => "draining",
        PodState::Gone => "gone",
        PodState::Unrouted => "unrouted",
    }
}
