//! The preflight: the node says yes or no to what each object adds to route configurations, before anything live
//! changes. Envoy refuses a route configuration as a whole, and a new Envoy has no former one. So one bad route would
//! cost all others.
//!
//! A unit is a virtual host of one object. Units that the node has not accepted yet are put into the route
//! configuration [`PREFLIGHT`], whose listener is bound to no port: Envoy checks it like any other. Live route
//! configurations wait until all units are accepted, but no longer than five seconds after the last answer. So do
//! listeners: Envoy tells every route configuration that it waits for of a refusal, and its listener serves without
//! routes then. Halving finds the bad ones; who publishes reads them from
//! [`Status::disapprovals`](crate::Status::disapprovals) and publishes something else in their place. A node that does
//! not ask for the preflight is served without it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::order::{Hold, REFERRING};
use super::subscription::{Allowed, InFlight, Item, Subscription, version_of};
use super::{Answer, Protocol, Response, Subscriber, catalogue};
use crate::group::Group;
use crate::hosts::with_hosts;
use limpet_resources::{Name, PREFLIGHT, ResourceType, Version};

/// What the node made of the units.
#[derive(Debug, Default)]
pub(super) struct Preflight {
    units: Subscription,
    held: Hold,
    /// When the first of the units that it is asked about was sent.
    began: Option<Instant>,
}

impl Preflight {
    pub(super) fn held(&self) -> &Hold {
        &self.held
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.units.in_flight.is_some()
    }

    /// Whether the node has accepted all units, or does not ask for the preflight.
    pub(super) fn is_idle(&self, group: &Group) -> bool {
        !self.units.started || self.units.is_settled() && self.units.knows(group.sequence())
    }
}

impl Subscriber {
    /// The units that the node refuses, with its error messages.
    pub(crate) fn disapprovals(&self) -> impl Iterator<Item = (&Name, Version, &Arc<str>)> {
        let refused = self.preflight.units.refused.iter();
        refused.map(|(name, refused)| (name, refused.version, &refused.message))
    }

    /// Whether the node has accepted this version of a unit.
    pub(crate) fn approves(&self, unit: &str, version: Version) -> bool {
        let held = self.preflight.units.has.get(unit);
        held.is_some_and(|held| held.version == Some(version))
    }

    /// How long the node took to answer to all units that were new to it, once it has.
    pub(crate) fn preflight_ended(&mut self, now: Instant) -> Option<Duration> {
        let Preflight { units, began, .. } = &mut self.preflight;
        let is_over = units.in_flight.is_none() && !units.has_updates();
        let began = began.take_if(|_| is_over)?;
        Some(now.saturating_duration_since(began))
    }

    pub(super) fn catch_up_preflight(&mut self, group: &Group) {
        if !self.types[ResourceType::RouteConfiguration].subscribes(PREFLIGHT) {
            self.preflight.units = Subscription::default();
            return;
        }
        let units = &mut self.preflight.units;
        (units.started, units.wildcard) = (true, true);
        units.catch_up(group.units(), group.sequence());
        if units.has_updates() && units.in_flight.is_none() && self.is_live() {
            // The node has accepted them with the live route configurations, on an earlier stream.
            let all = group.units().iter().map(|unit| Item {
                name: Arc::clone(unit.name()),
                resource: Some(Arc::clone(unit)),
            });
            self.preflight.units.acknowledge(all.collect(), group.units());
        }
    }

    /// Whether the node has all published route configurations and virtual hosts.
    fn is_live(&self) -> bool {
        let routes = &self.types[ResourceType::RouteConfiguration];
        let hosts = &self.types[ResourceType::VirtualHost];
        // Before the node has said which hosts it has, its route configurations say nothing of them.
        let knows_hosts = hosts.started || !self.takes_hosts;
        routes.is_settled() && routes.asks_for_all() && knows_hosts && hosts.is_settled()
    }

    /// Offers units that the node has not accepted yet.
    pub(super) fn next_preflight(&mut self, group: &Group, now: Instant) -> Option<Response> {
        let frame = group.catalogue(ResourceType::RouteConfiguration).get(PREFLIGHT)?;
        let units = &mut self.preflight.units;
        if !units.started {
            return None;
        }
        let allowed = Allowed {
            updates: true,
            removals: true,
        };
        let (items, gone): (Vec<Item>, _) = units
            .take(group.units(), allowed, false)
            .into_iter()
            .partition(|item| item.resource.is_some());
        // The node has nothing to forget: it has units only until the next ones.
        units.acknowledge(gone, group.units());
        if items.is_empty() {
            return None;
        }
        self.last_nonce += 1;
        let nonce = self.last_nonce;
        let hosts = items.iter().filter_map(|item| item.resource.as_ref());
        let resources = vec![Arc::new(with_hosts(frame, hosts))];
        units.in_flight = Some(InFlight { nonce, items });
        self.preflight.began.get_or_insert(now);
        let routes = &mut self.types[ResourceType::RouteConfiguration];
        routes.sent_nonce = nonce;
        // Not the version of the preflight: a node that reconnects should be known by what it has besides.
        let version = match self.protocol {
            Protocol::Delta => None,
            Protocol::StateOfTheWorld => Some(version_of(routes.view_after(&[]).into_values())),
        };
        Some(Response {
            resource_type: ResourceType::RouteConfiguration,
            nonce,
            version,
            resources,
            removed: Vec::new(),
        })
    }

    /// Takes in the answer to units, if this nonce is theirs.
    pub(super) fn answer_preflight(&mut self, nonce: &str, error: Option<&str>, group: &Group) -> Option<Answer> {
        let units = &mut self.preflight.units;
        let InFlight { items, .. } = units
            .in_flight
            .take_if(|in_flight| in_flight.nonce.to_string() == nonce)?;
        // Each answer is progress.
        self.preflight.held.end();
        let answer = if let Some(error) = error {
            let (count, message) = (items.len(), Arc::from(error));
            let only = items.first().filter(|_| count == 1).map(|item| Arc::clone(&item.name));
            units.refuse(items, &message, group.units());
            Answer::Disapproved(count, only, message)
        } else {
            units.acknowledge(items, group.units());
            Answer::Approved
        };
        if !units.has_updates() {
            // Without units again, so that Envoy does not keep what it checked.
            let published = catalogue(self.takes_hosts, ResourceType::RouteConfiguration, group);
            self.types[ResourceType::RouteConfiguration].force(&PREFLIGHT.into(), published);
        }
        Some(answer)
    }

    /// Whether resources of this type may be sent as far as the preflight is concerned.
    pub(super) fn may_go_live(&mut self, resource_type: ResourceType, group: &Group, now: Instant) -> bool {
        if !REFERRING.contains(&resource_type) {
            return true;
        }
        let changes = |each: ResourceType| {
            let of_type = &self.types[each];
            of_type.has_updates() || of_type.has_removals() || of_type.owed_an_answer
        };
        let units = &self.preflight.units;
        let waits = if !REFERRING.into_iter().any(changes) {
            false
        } else if units.started {
            !units.is_settled()
        } else {
            let routes = group.catalogue(ResourceType::RouteConfiguration);
            self.has_preflight && routes.get(PREFLIGHT).is_some()
        };
        if !waits {
            self.preflight.held.end();
            return true;
        }
        self.preflight.held.is_over(now)
    }
}
