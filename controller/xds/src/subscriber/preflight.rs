//! The preflight: the node accepts or refuses each object's virtual hosts (units) before anything live changes. Envoy
//! refuses a route configuration as a whole, so one bad route would cost all others. See `design/refused-routes.md`.
//!
//! Units that the node has not accepted yet are put into the route configuration [`PREFLIGHT`], whose listener is bound
//! to no port. Live route configurations wait until all units are accepted, but no longer than five seconds after the
//! last answer, and thirty in all: units may change before each answer. So do listeners: Envoy tells every route
//! configuration that it waits for of a refusal, and its listener serves without routes then. Halving finds the bad
//! units, for which live routes wait without a limit; the publisher reads them from
//! [`AckStatus::disapprovals`](crate::AckStatus::disapprovals) and replaces them.
//!
//! A node that refuses something is then asked about no unit at all, which every Envoy accepts. If it refuses that, or
//! all units, it is not believed. The nodes of the group decide together which refusals count: see `judgement`. A node
//! that does not ask for the preflight is served without it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::order::{OrderWait, PATIENCE, REFERRING};
use super::subscription::{AllowedNames, InFlight, RejectedVersion, ResourceChange, Subscription, version_of};
use super::{OverruledUnits, ProtocolVariant, ResponseVerdict, Subscriber, SubscriberResponse, UnitVote, catalogue};
use crate::group::ResourceGroup;
use crate::hosts::with_hosts;
use limpet_resources::{Name, PREFLIGHT, ResourceType, ResourceVersion};

/// The longest wait of live routes, however many answers come: enough for the halving of a thousand units with a bad
/// one, at more than a second for each answer.
pub(super) const PATIENCE_IN_ALL: Duration = PATIENCE.saturating_mul(6);

#[derive(Debug, Default)]
pub(super) struct Preflight {
    units: Subscription,
    units_held: OrderWait,
    /// The wait of live routes, which no answer ends. Once it is too long, they go before further units.
    held_since: Option<Instant>,
    unanswered: OrderWait,
    is_silent: bool,
    canary: CanaryVerdict,
    overruled: OverruledUnits,
    /// When the first of the units that it is asked about was sent.
    began: Option<Instant>,
    /// The wait for the virtual hosts that the node has from an earlier stream.
    hosts_awaited: OrderWait,
}

/// The node's answer to no units at all, since it refused one last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum CanaryVerdict {
    #[default]
    Unasked,
    Accepted,
    Refused,
}

impl Preflight {
    pub(super) fn units(&self) -> &Subscription {
        &self.units
    }

    pub(super) fn refused(&self) -> &BTreeMap<Name, RejectedVersion> {
        &self.units.refused
    }

    pub(super) fn holds(&self) -> [&OrderWait; 3] {
        [&self.units_held, &self.unanswered, &self.hosts_awaited]
    }

    fn wants_canary(&self) -> bool {
        self.canary == CanaryVerdict::Unasked && !self.units.refused.is_empty()
    }

    fn is_asking(&self) -> bool {
        self.is_under_way() || self.units.has_updates() || self.wants_canary()
    }

    fn is_believed(&self) -> bool {
        let refuses_all = self.units.refused.len() > 1 && self.units.has.is_empty();
        self.canary != CanaryVerdict::Refused && !refuses_all
    }

    /// When live routes stop to wait for more answers, because a silent node sends none.
    pub(super) fn limit(&self) -> Option<Instant> {
        self.held_since
            .filter(|_| !self.is_silent)
            .map(|since| since + PATIENCE_IN_ALL)
    }

    fn is_overdue(&self, now: Instant) -> bool {
        self.limit().is_some_and(|limit| limit <= now)
    }

    fn release(&mut self) {
        self.units_held.end();
        self.held_since = None;
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.units.in_flight.is_some()
    }

    pub(super) fn is_idle(&self, group: &ResourceGroup) -> bool {
        !self.units.started || self.units.is_settled() && self.units.knows(group.sequence())
    }
}

impl Subscriber {
    pub(crate) fn disapprovals(&self) -> impl Iterator<Item = (&Name, ResourceVersion, &Arc<str>)> {
        let refused = self.preflight.units.refused.iter();
        refused.map(|(name, refused)| (name, refused.version, &refused.message))
    }

    pub(crate) fn approves(&self, unit: &str, version: ResourceVersion) -> bool {
        let held = self.preflight.units.has.get(unit);
        held.is_some_and(|held| held.version == Some(version))
    }

    /// The node's answer to this version of a unit, as far as it counts.
    pub(crate) fn vote(&self, unit: &str, version: ResourceVersion) -> Option<UnitVote> {
        let preflight = &self.preflight;
        if !preflight.units.started {
            return None;
        }
        if self.approves(unit, version) {
            return Some(UnitVote::Accepts);
        }
        if preflight.is_silent {
            return None;
        }
        let refused = preflight.units.refused.get(unit);
        if !self.has_voted() || refused.is_none_or(|refused| refused.version != version) {
            return Some(UnitVote::Pending);
        }
        preflight.is_believed().then_some(UnitVote::Refuses)
    }

    pub(crate) fn has_a_say(&self) -> bool {
        let preflight = &self.preflight;
        preflight.units.started && !preflight.is_silent && preflight.is_believed()
    }

    /// Whether the node has not answered for longer than others wait for it.
    pub(crate) fn is_silent(&self) -> bool {
        self.preflight.is_silent
    }

    /// Whether the node's refusals are certain: it has answered to everything, or, while more and more units change, to
    /// no units since.
    pub(crate) fn has_voted(&self) -> bool {
        self.preflight.canary != CanaryVerdict::Unasked || !self.preflight.is_asking()
    }

    pub(crate) fn waits_for_judgement(&self) -> bool {
        let Preflight { units, overruled, .. } = &self.preflight;
        let is_overruled = |name: &Name, version| overruled.contains(&(Arc::clone(name), version));
        let mut refused = units.refused.iter();
        self.preflight.is_believed() && refused.any(|(name, refused)| !is_overruled(name, refused.version))
    }

    pub(crate) fn overrule(&mut self, units: OverruledUnits) {
        self.preflight.overruled = units;
    }

    /// How long the node took to answer to all units that were new to it, once it has.
    pub(crate) fn preflight_ended(&mut self, now: Instant) -> Option<Duration> {
        let is_over = !self.preflight.is_asking();
        let began = self.preflight.began.take_if(|_| is_over)?;
        Some(now.saturating_duration_since(began))
    }

    pub(super) fn catch_up_preflight(&mut self, group: &ResourceGroup, now: Instant) {
        if !self.types[ResourceType::RouteConfiguration].subscribes(PREFLIGHT) {
            self.preflight = Preflight {
                units_held: std::mem::take(&mut self.preflight.units_held),
                held_since: self.preflight.held_since,
                ..Preflight::default()
            };
            return;
        }
        if !self.has_live_changes() {
            self.preflight.release();
        }
        self.preflight.is_silent = self.preflight.is_under_way() && self.preflight.unanswered.is_over(now);
        let units = &mut self.preflight.units;
        (units.started, units.wildcard) = (true, true);
        units.catch_up(group.units(), group.sequence());
        if units.has_updates() && units.in_flight.is_none() && self.is_live(group) {
            // The node has accepted them with the live route configurations, on an earlier stream.
            let all = group.units().iter().map(|unit| ResourceChange {
                name: Arc::clone(unit.name()),
                resource: Some(Arc::clone(unit)),
            });
            self.preflight.units.acknowledge(all.collect(), group.units());
        }
    }

    fn is_live(&self, group: &ResourceGroup) -> bool {
        let hosts = &self.types[ResourceType::VirtualHost];
        self.has_all_routes() && self.knows_hosts(group) && hosts.is_settled()
    }

    fn has_all_routes(&self) -> bool {
        let routes = &self.types[ResourceType::RouteConfiguration];
        routes.is_settled() && routes.asks_for_all()
    }

    /// Before the node has said which virtual hosts it has, its route configurations say nothing of them.
    fn knows_hosts(&self, group: &ResourceGroup) -> bool {
        let are_inside = !self.takes_hosts || group.catalogue(ResourceType::VirtualHost).is_empty();
        are_inside || self.types[ResourceType::VirtualHost].started
    }

    /// A node that comes back says what it has type by type, and hosts come after all route configurations.
    fn waits_for_hosts(&mut self, group: &ResourceGroup, now: Instant) -> bool {
        if !self.preflight.units.has_updates() || !self.has_all_routes() || self.knows_hosts(group) {
            self.preflight.hosts_awaited.end();
            return false;
        }
        !self.preflight.hosts_awaited.is_over(now)
    }

    pub(super) fn next_preflight(&mut self, group: &ResourceGroup, now: Instant) -> Option<SubscriberResponse> {
        let frame = group.catalogue(ResourceType::RouteConfiguration).get(PREFLIGHT)?;
        if !self.preflight.units.started || self.waits_for_hosts(group, now) {
            return None;
        }
        let is_overdue = self.preflight.is_overdue(now);
        let units = &mut self.preflight.units;
        let allowed = AllowedNames {
            updates: true,
            removals: true,
        };
        let taken = if is_overdue {
            Vec::new()
        } else {
            units.next_changes(group.units(), allowed, false)
        };
        let (items, gone): (Vec<ResourceChange>, _) = taken.into_iter().partition(|item| item.resource.is_some());
        // The node has nothing to remove: it has units only until the next ones.
        units.acknowledge(gone, group.units());
        if items.is_empty() && !self.preflight.wants_canary() {
            return None;
        }
        let units = &mut self.preflight.units;
        self.last_nonce += 1;
        let nonce = self.last_nonce;
        let hosts = items.iter().filter_map(|item| item.resource.as_ref());
        let resources = vec![Arc::new(with_hosts(frame, hosts))];
        units.in_flight = Some(InFlight { nonce, items });
        self.preflight.began.get_or_insert(now);
        self.preflight.unanswered.begin(now);
        let routes = &mut self.types[ResourceType::RouteConfiguration];
        routes.sent_nonce = nonce;
        // A node that reconnects should be known by its other route configurations.
        let version = match self.protocol {
            ProtocolVariant::Delta => None,
            ProtocolVariant::StateOfTheWorld => Some(version_of(routes.view_after(&[]).into_values())),
        };
        Some(SubscriberResponse {
            resource_type: ResourceType::RouteConfiguration,
            nonce,
            version,
            resources,
            removed: Vec::new(),
        })
    }

    pub(super) fn answer_preflight(
        &mut self,
        nonce: &str,
        error: Option<&str>,
        group: &ResourceGroup,
    ) -> Option<ResponseVerdict> {
        let message = error.map(|error| self.kept(error));
        let units = &mut self.preflight.units;
        let InFlight { items, .. } = units
            .in_flight
            .take_if(|in_flight| in_flight.nonce.to_string() == nonce)?;
        self.preflight.units_held.end();
        self.preflight.unanswered.end();
        self.preflight.is_silent = false;
        let answer = if items.is_empty() {
            self.preflight.canary = error.map_or(CanaryVerdict::Accepted, |_| CanaryVerdict::Refused);
            if self.preflight.is_believed() {
                ResponseVerdict::Approved
            } else {
                ResponseVerdict::Disbelieved(message)
            }
        } else if let Some(message) = message {
            let count = items.len();
            let only = items.first().filter(|_| count == 1).map(|item| Arc::clone(&item.name));
            self.preflight.canary = CanaryVerdict::Unasked;
            units.refuse(items, &message, group.units());
            ResponseVerdict::Disapproved(count, only, message)
        } else {
            units.acknowledge(items, group.units());
            ResponseVerdict::Approved
        };
        if !self.preflight.is_asking() {
            // Without units again, so that Envoy does not keep what it checked.
            let published = catalogue(self.takes_hosts, ResourceType::RouteConfiguration, group);
            self.types[ResourceType::RouteConfiguration].force(&PREFLIGHT.into(), published);
        }
        Some(answer)
    }

    /// Whether the preflight permits resources of this type to be sent.
    pub(super) fn may_go_live(&mut self, resource_type: ResourceType, group: &ResourceGroup, now: Instant) -> bool {
        if !REFERRING.contains(&resource_type) {
            return true;
        }
        let waits = if !self.has_live_changes() {
            false
        } else if self.preflight.units.started {
            self.preflight.is_asking()
        } else {
            let routes = group.catalogue(ResourceType::RouteConfiguration);
            self.has_preflight && routes.get(PREFLIGHT).is_some()
        };
        if waits {
            self.preflight.held_since.get_or_insert(now);
            if !self.preflight.units_held.is_over(now) && !self.preflight.is_overdue(now) {
                return false;
            }
        } else {
            self.preflight.release();
        }
        !self.waits_for_judgement()
    }

    fn has_live_changes(&self) -> bool {
        let changes = |each: ResourceType| {
            let of_type = &self.types[each];
            of_type.has_updates() || of_type.has_removals() || of_type.owed_an_answer
        };
        REFERRING.into_iter().any(changes)
    }
}
