//! Backends that Envoys reported before this replica knew them: an Envoy may have them from another replica. Their
//! reports are not taken. Once one of them is known, the Envoys of its Gateway report everything again.
//!
//! Each Gateway has a share, and each namespace's Gateways have one, so that the Envoys of one cannot fill another's.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use limpet_api::ObjectName;
use limpet_core::census::Backend;
use limpet_core::census::report::{BackendReport, Report};
use limpet_core::time::Timestamp;

use super::gaps::CountGaps;
use super::places::BackendPlaces;
use crate::settling::SETTLING;

/// The most strays of a Gateway. Beyond that, its sessions are incomplete.
const SHARE: usize = 1000;
/// The most strays of a namespace's Gateways.
const SHARE_OF_NAMESPACE: usize = 4 * SHARE;
/// The longest life of an entry, because reported idle bounds are not trusted.
const LONGEST: Duration = Duration::from_secs(86_400);

#[derive(Debug, Default)]
pub(super) struct StrayBackends {
    gateways: BTreeMap<String, GatewayStrays>,
    /// `BackendPlaces::additions` at the last lookup.
    additions: u64,
}

#[derive(Debug, Default)]
struct GatewayStrays {
    /// Until when sessions there may live.
    backends: HashMap<Backend, Timestamp>,
    /// The same of those without room.
    beyond: Option<Timestamp>,
    /// How often full reports were requested, and when.
    resync_requests: u64,
    last: Option<Timestamp>,
    /// `BackendPlaces::additions` when the last of those without room came.
    additions: u64,
}

impl StrayBackends {
    pub(super) fn record(&mut self, group: &str, report: &Report, places: &BackendPlaces, now: Timestamp) {
        if let Some(of_gateway) = self.gateways.get_mut(group) {
            of_gateway.forget(now);
        }
        let namespace = format!("{}/", ObjectName::namespace_in(group));
        let of_namespace = self.gateways.range(namespace.clone()..);
        let of_namespace = of_namespace.take_while(|(group, _)| group.starts_with(&namespace));
        let mut kept: usize = of_namespace.map(|(_, of_gateway)| of_gateway.backends.len()).sum();
        let told = report.backends.iter().filter_map(BackendReport::backend);
        for backend in told.filter(|backend| !backend.is_others()) {
            if !places.resolve(group, backend, now).is_empty() {
                continue;
            }
            let until = now.after(Duration::from_secs(u64::from(backend.live_for)).min(LONGEST));
            let of_gateway = match self.gateways.get_mut(group) {
                Some(of_gateway) => of_gateway,
                None => self.gateways.entry(group.to_owned()).or_default(),
            };
            let has_room = of_gateway.backends.len() < SHARE && kept < SHARE_OF_NAMESPACE;
            if has_room || of_gateway.backends.contains_key(&backend) {
                kept += usize::from(of_gateway.backends.insert(backend, until).is_none());
            } else {
                of_gateway.beyond = of_gateway.beyond.max(Some(until));
                of_gateway.additions = places.additions();
            }
        }
    }

    /// Requests full reports from the Gateways of which a backend became known.
    pub(super) fn request_resync(&mut self, places: &BackendPlaces, now: Timestamp) {
        let additions = places.additions();
        let is_more_known = additions != std::mem::replace(&mut self.additions, additions);
        for (group, of_gateway) in &mut self.gateways {
            let mut backends = of_gateway.backends.keys();
            let is_known = is_more_known && backends.any(|backend| !places.resolve(group, *backend, now).is_empty());
            // New places may be of strays that had no room. A Gateway with too many is not asked all the time.
            let may_be_known = of_gateway.beyond.is_some() && additions > of_gateway.additions;
            if is_known || (may_be_known && !of_gateway.is_asked(now)) {
                *of_gateway = GatewayStrays {
                    resync_requests: of_gateway.resync_requests.wrapping_add(1),
                    last: Some(now),
                    ..GatewayStrays::default()
                };
            }
        }
    }

    pub(super) fn resync_requests(&self, group: &str) -> u64 {
        self.gateways
            .get(group)
            .map_or(0, |of_gateway| of_gateway.resync_requests)
    }

    pub(super) fn gaps(&self, group: &str, now: Timestamp) -> CountGaps {
        let mut gaps = CountGaps::default();
        let Some(of_gateway) = self.gateways.get(group) else {
            return gaps;
        };
        if of_gateway.is_asked(now) {
            gaps.push(format!(
                "Envoys of the Gateway {group} told of a pod before the controller knew it: they tell everything again"
            ));
        }
        if of_gateway.beyond.is_some_and(|until| until > now) {
            gaps.push(format!(
                "Envoys of the Gateway {group} tell of more backends than the controller keeps that it does not know"
            ));
        }
        gaps
    }

    /// Forgets Gateways without clusters, and expired backends.
    pub(super) fn forget(&mut self, places: &BackendPlaces, now: Timestamp) {
        self.gateways.retain(|group, of_gateway| {
            of_gateway.forget(now);
            places.knows(group)
        });
    }

    pub(super) fn set_clock(&mut self) {
        for of_gateway in self.gateways.values_mut() {
            *of_gateway = GatewayStrays {
                resync_requests: of_gateway.resync_requests,
                ..GatewayStrays::default()
            };
        }
    }
}

impl GatewayStrays {
    fn is_asked(&self, now: Timestamp) -> bool {
        self.last.is_some_and(|last| now.since(last) < SETTLING)
    }

    fn forget(&mut self, now: Timestamp) {
        self.backends.retain(|_, until| *until > now);
        self.beyond.take_if(|until| *until <= now);
    }
}
