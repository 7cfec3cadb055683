//! One stream of a node: what it asked for, what it has, and what to send next. Pure: requests, publications and the
//! time come in, responses go out. Nothing is queued, so a slow reader costs no more than a fast one.

mod delta;
mod hosts;
mod order;
mod preflight;
mod state_of_the_world;
mod subscription;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use self::order::OrderWait;
use self::preflight::Preflight;
use self::subscription::{
    AllowedNames, InFlight, InitialState, ResourceChange, Subscription, UnpublishedAction, is_complete_state,
    version_of,
};
use super::group::{Catalogue, ResourceGroup};
use super::limits::WORDS_OF_STREAM;
use limpet_resources::{Name, PerType, Resource, ResourceType, ResourceVersion};

/// Replaces an error message for which there is no room.
const LEFT_OUT: &str = "the node has refused too much for its words to be kept";

/// The form of the protocol that a stream speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProtocolVariant {
    /// Incremental: a response has the changes.
    Delta,
    /// State of the world: a response has all resources of a type, or of the names that the node asked for.
    StateOfTheWorld,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamService {
    /// All types (ADS).
    Aggregated,
    /// Only filter configurations (ECDS).
    ExtensionConfig,
}

/// What a node says of itself when it connects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct NodeAbilities {
    /// It takes virtual hosts one by one (VHDS).
    pub(super) takes_hosts: bool,
    pub(super) has_preflight: bool,
}

#[derive(Debug)]
pub(super) struct Subscriber {
    protocol: ProtocolVariant,
    service: StreamService,
    types: PerType<Subscription>,
    last_nonce: u64,
    /// Clusters that are new to the node, and whose endpoints it does not have yet.
    awaited: BTreeSet<Name>,
    clusters_held: OrderWait,
    updates_held: OrderWait,
    removals_held: OrderWait,
    preflight: Preflight,
    takes_hosts: bool,
    has_preflight: bool,
    listeners_due: Option<Instant>,
    filters_changed_at: Option<Instant>,
}

/// Units that some nodes of a group refuse and most accept. All streams of the group share them.
pub(super) type OverruledUnits = Arc<BTreeSet<(Name, ResourceVersion)>>;

#[derive(Debug)]
pub(super) struct SubscriberResponse {
    pub(super) resource_type: ResourceType,
    pub(super) nonce: u64,
    /// The version of all resources of the type that the node has after it, in the state of the world.
    pub(super) version: Option<ResourceVersion>,
    pub(super) resources: Vec<Arc<Resource>>,
    pub(super) removed: Vec<Name>,
}

/// A node's answer to a unit. Of several streams of a node, the least counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UnitVote {
    Refuses,
    Pending,
    Accepts,
}

/// What a request says about the response that it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ResponseVerdict {
    None,
    Acknowledged(Vec<(Name, Option<ResourceVersion>)>),
    Refused(Vec<(Name, Option<ResourceVersion>)>, Arc<str>),
    Approved,
    /// The node refused some of this number of units, or this one.
    Disapproved(usize, Option<Name>, Arc<str>),
    /// The node refused no units at all, with these words, or all units: it is not believed.
    Disbelieved(Option<Arc<str>>),
}

impl Subscriber {
    pub(super) fn new(protocol: ProtocolVariant, service: StreamService, abilities: NodeAbilities) -> Self {
        let mut types = PerType::<Subscription>::default();
        types[ResourceType::ExtensionConfig].unpublished = UnpublishedAction::Kept;
        Self {
            protocol,
            service,
            types,
            last_nonce: 0,
            awaited: BTreeSet::new(),
            clusters_held: OrderWait::default(),
            updates_held: OrderWait::default(),
            removals_held: OrderWait::default(),
            preflight: Preflight::default(),
            takes_hosts: abilities.takes_hosts && protocol == ProtocolVariant::Delta,
            has_preflight: abilities.has_preflight,
            listeners_due: None,
            filters_changed_at: None,
        }
    }

    pub(super) fn is_aggregated(&self) -> bool {
        self.service == StreamService::Aggregated
    }

    pub(super) fn serves(&self, resource_type: ResourceType) -> bool {
        self.is_aggregated() || resource_type == ResourceType::ExtensionConfig
    }

    /// Whether the node gets route configurations with their virtual hosts in them.
    pub(super) fn wants_wholes(&self) -> bool {
        self.is_aggregated() && !self.takes_hosts
    }

    pub(super) fn subscribes(&self, resource_type: ResourceType, name: &str) -> bool {
        self.types[resource_type].subscribes(name)
    }

    pub(super) fn has_named(&self, resource_type: ResourceType, name: &str) -> bool {
        self.types[resource_type].names.contains(name)
    }

    pub(super) fn names(&self, resource_type: ResourceType) -> impl Iterator<Item = &Name> {
        self.types[resource_type].names.iter()
    }

    /// The memory of the error messages that are kept.
    pub(super) fn words(&self) -> usize {
        let refused = ResourceType::ALL.into_iter().map(|each| &self.types[each].refused);
        let refused = refused.chain([self.preflight.refused()]).flat_map(BTreeMap::values);
        refused.map(|refused| refused.message.len()).sum()
    }

    /// Resources that the node has, gets or refuses, and units of the preflight.
    pub(super) fn entries(&self) -> usize {
        let types = ResourceType::ALL.into_iter().map(|each| &self.types[each]);
        types.chain([self.preflight.units()]).map(Subscription::entries).sum()
    }

    fn kept(&self, error: &str) -> Arc<str> {
        let has_room = self.words() + error.len() <= WORDS_OF_STREAM;
        Arc::from(if has_room { error } else { LEFT_OUT })
    }

    pub(super) fn has_asked_for(&self, resource_type: ResourceType) -> bool {
        self.types[resource_type].started
    }

    /// The version that the node has, and the version that it refuses, with its error message.
    pub(super) fn standing(
        &self,
        resource_type: ResourceType,
        name: &str,
    ) -> (Option<ResourceVersion>, Option<(ResourceVersion, &Arc<str>)>) {
        let subscription = &self.types[resource_type];
        let refused = subscription.refused.get(name);
        (
            subscription.has.get(name).and_then(|held| held.version),
            refused.map(|refused| (refused.version, &refused.message)),
        )
    }

    /// Whether the node has any version of a resource, or may have had one when it connected.
    pub(super) fn may_have(&self, resource_type: ResourceType, name: &str) -> bool {
        let subscription = &self.types[resource_type];
        !matches!(subscription.former, InitialState::Nothing) || subscription.has.contains_key(name)
    }

    pub(super) fn refusals(&self) -> impl Iterator<Item = (ResourceType, &Name, ResourceVersion, &Arc<str>)> {
        ResourceType::ALL.into_iter().flat_map(|each| {
            let refused = self.types[each].refused.iter();
            refused.map(move |(name, refused)| (each, name, refused.version, &refused.message))
        })
    }

    pub(super) fn acknowledged(&self) -> impl Iterator<Item = (ResourceType, &Name, ResourceVersion)> {
        ResourceType::ALL.into_iter().flat_map(|each| {
            let has = self.types[each].has.iter();
            has.filter_map(move |(name, held)| Some((each, name, held.version?)))
        })
    }

    /// Whether nothing is left to send, unanswered, or refused.
    pub(super) fn is_idle(&self, group: &ResourceGroup) -> bool {
        ResourceType::ALL.into_iter().all(|each| {
            let subscription = &self.types[each];
            !subscription.started || subscription.is_settled() && subscription.knows(group.sequence())
        }) && self.preflight.is_idle(group)
    }

    /// Whether the node asked for all published resources of this type. If the stream is also idle, it has all of them.
    pub(super) fn asks_for_all(&self, resource_type: ResourceType) -> bool {
        self.types[resource_type].asks_for_all()
    }

    pub(super) fn asks_for_more(&self, resource_type: ResourceType, group: &ResourceGroup) -> bool {
        let catalogue = group.catalogue(resource_type);
        let mut names = self.types[resource_type].names.iter();
        names.any(|name| catalogue.get(name).is_none())
    }

    /// The next response, if one can be sent now.
    pub(super) fn next(&mut self, group: &ResourceGroup, now: Instant) -> Option<SubscriberResponse> {
        if !group.is_published() {
            return None;
        }
        self.keep_hosts(group);
        for each in ResourceType::ALL {
            self.recognize(each, group);
            let catalogue = catalogue(self.takes_hosts, each, group);
            self.types[each].catch_up(catalogue, group.sequence());
        }
        self.catch_up_preflight(group, now);
        self.offer_listeners_again(group, now);
        ResourceType::ALL
            .into_iter()
            .find_map(|each| self.next_of(each, group, now))
    }

    fn next_of(
        &mut self,
        resource_type: ResourceType,
        group: &ResourceGroup,
        now: Instant,
    ) -> Option<SubscriberResponse> {
        let subscription = &self.types[resource_type];
        if !subscription.started || subscription.in_flight.is_some() {
            return None;
        }
        if resource_type == ResourceType::RouteConfiguration {
            if self.preflight.is_under_way() {
                return None;
            }
            if let Some(response) = self.next_preflight(group, now) {
                return Some(response);
            }
        }
        let updates = self.may_update(resource_type, group, now) && self.may_go_live(resource_type, group, now);
        let removals = self.may_remove(resource_type, updates, group, now);
        let allowed = AllowedNames { updates, removals };
        let complete = is_complete_state(resource_type);
        // A listener begins to serve with the first virtual hosts of its route configuration.
        let whole = complete || resource_type == ResourceType::VirtualHost;
        let catalogue = catalogue(self.takes_hosts, resource_type, group);
        let subscription = &mut self.types[resource_type];
        let mut items = subscription.next_changes(catalogue, allowed, whole);
        if self.protocol == ProtocolVariant::StateOfTheWorld && !complete {
            // This form of the protocol cannot announce removals here. The node stops asking for the resource by
            // itself.
            let (gone, rest) = items.into_iter().partition(|item| item.resource.is_none());
            subscription.acknowledge(gone, catalogue);
            items = rest;
        }
        let owed = subscription.owed_an_answer && allowed.updates;
        if items.is_empty() && !owed {
            return None;
        }
        subscription.owed_an_answer = false;
        self.last_nonce += 1;
        let nonce = self.last_nonce;
        let response = self.response(resource_type, nonce, &items);
        self.expect_endpoints(resource_type, &items, group);
        self.expect_hosts(resource_type, &items, group);
        let subscription = &mut self.types[resource_type];
        let replaces = |item: &ResourceChange| item.resource.is_some() && subscription.has.contains_key(&item.name);
        if resource_type == ResourceType::ExtensionConfig && items.iter().any(replaces) {
            self.filters_changed_at = Some(now);
        }
        subscription.sent_nonce = nonce;
        subscription.in_flight = Some(InFlight { nonce, items });
        Some(response)
    }

    fn response(&self, resource_type: ResourceType, nonce: u64, items: &[ResourceChange]) -> SubscriberResponse {
        let subscription = &self.types[resource_type];
        let mut response = SubscriberResponse {
            resource_type,
            nonce,
            version: None,
            resources: items.iter().filter_map(|item| item.resource.clone()).collect(),
            removed: Vec::new(),
        };
        match self.protocol {
            ProtocolVariant::Delta => {
                let removed = items.iter().filter(|item| item.resource.is_none());
                response.removed = removed.map(|item| Arc::clone(&item.name)).collect();
            }
            ProtocolVariant::StateOfTheWorld => {
                let view = subscription.view_after(items);
                response.version = Some(version_of(view.values().copied()));
                if is_complete_state(resource_type) {
                    response.resources = view.into_values().cloned().collect();
                }
            }
        }
        response
    }

    /// Takes in the answer to the response with this nonce, if that response is still unanswered.
    fn answer(
        &mut self,
        resource_type: ResourceType,
        nonce: &str,
        error: Option<&str>,
        group: &ResourceGroup,
    ) -> ResponseVerdict {
        if resource_type == ResourceType::RouteConfiguration
            && let Some(answer) = self.answer_preflight(nonce, error, group)
        {
            return answer;
        }
        let subscription = &mut self.types[resource_type];
        let answered = subscription
            .in_flight
            .take_if(|in_flight| in_flight.nonce.to_string() == nonce);
        let Some(InFlight { items, .. }) = answered else {
            return ResponseVerdict::None;
        };
        let version = |item: &ResourceChange| item.resource.as_ref().map(|resource| resource.version());
        let told = items
            .iter()
            .map(|item| (Arc::clone(&item.name), version(item)))
            .collect();
        let catalogue = catalogue(self.takes_hosts, resource_type, group);
        let single = items.len() == 1;
        if error.is_none() || single {
            self.stop_expecting(resource_type, &items, error.is_some());
        }
        let message = error.map(|error| self.kept(error));
        let subscription = &mut self.types[resource_type];
        if let Some(message) = message {
            subscription.refuse(items, &message, catalogue);
            return ResponseVerdict::Refused(told, message);
        }
        subscription.acknowledge(items, catalogue);
        ResponseVerdict::Acknowledged(told)
    }
}

/// Published resources for a node: with `takes_hosts`, route configurations are without virtual hosts.
fn catalogue(takes_hosts: bool, resource_type: ResourceType, group: &ResourceGroup) -> &Catalogue {
    if !takes_hosts && resource_type == ResourceType::RouteConfiguration {
        group.wholes()
    } else {
        group.catalogue(resource_type)
    }
}
