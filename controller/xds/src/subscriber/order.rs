//! The order among types: make before break ("xDS protocol": eventual consistency considerations).
//!
//! - Clusters, their endpoints, filter configurations and secrets come before the listeners and routes that may refer to them, which wait until
//!   the node has them.
//! - What listeners and routes may still refer to is removed after they are replaced.
//!
//! What refers to what is not read from the resources; the order holds between all resources of the types. The exception is a cluster's
//! endpoints, which have its name.

use std::time::{Duration, Instant};

use super::Subscriber;
use super::subscription::Item;
use crate::group::Group;
use limpet_resources::{Name, ResourceType};

/// How long something waits for what should come first. Then the node does not get it, or does not say so.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// When a listener that was refused is offered again.
const LISTENERS_AGAIN: Duration = Duration::from_secs(30);

/// Something that waits.
#[derive(Debug, Default)]
pub(super) struct Hold {
    since: Option<Instant>,
}

impl Hold {
    /// Whether it has waited long enough; starts the wait.
    fn is_over(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        now.saturating_duration_since(since) >= PATIENCE
    }

    fn end(&mut self) {
        self.since = None;
    }
}

impl Subscriber {
    /// When to look again for what can be sent, even if nothing happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let holds = [&self.updates_held, &self.removals_held];
        let holds = holds.iter().filter_map(|hold| hold.since).map(|since| since + PATIENCE);
        holds.chain(self.listeners_again).min()
    }

    /// What a listener is refused for may be no fault of its own: its port can be somebody else's for a while. So it is offered again after a time,
    /// where everything else that was refused waits for its next change.
    pub(super) fn offer_listeners_again(&mut self, group: &Group, now: Instant) {
        let listeners = &mut self.types[ResourceType::Listener];
        if listeners.refused.is_empty() {
            self.listeners_again = None;
            return;
        }
        let due = *self.listeners_again.get_or_insert(now + LISTENERS_AGAIN);
        if due <= now {
            self.listeners_again = Some(now + LISTENERS_AGAIN);
            let refused: Vec<Name> = listeners.refused.keys().cloned().collect();
            for name in &refused {
                listeners.force(name, group.catalogue(ResourceType::Listener));
            }
        }
    }

    /// Whether changed resources of this type may be sent.
    pub(super) fn may_update(&mut self, resource_type: ResourceType, group: &Group, now: Instant) -> bool {
        if !matches!(resource_type, ResourceType::Listener | ResourceType::RouteConfiguration) {
            return true;
        }
        let waiting = |each: ResourceType| self.types[each].has_updates() || self.types[each].owed_an_answer;
        if !waiting(ResourceType::Listener) && !waiting(ResourceType::RouteConfiguration) {
            self.updates_held.end();
            return false;
        }
        let endpoints = group.catalogue(ResourceType::ClusterLoadAssignment);
        self.awaited.retain(|name| endpoints.get(name).is_some());
        let first = [
            ResourceType::Cluster,
            ResourceType::ExtensionConfig,
            ResourceType::Secret,
        ];
        let ready = self.awaited.is_empty() && !first.into_iter().any(|each| self.types[each].is_updating());
        if ready {
            self.updates_held.end();
        } else if self.updates_held.is_over(now) {
            // It is not worth another wait.
            self.awaited.clear();
        } else {
            return false;
        }
        true
    }

    /// Whether resources of this type may be removed; `updates`: whether they may be updated.
    pub(super) fn may_remove(
        &mut self,
        resource_type: ResourceType,
        updates: bool,
        group: &Group,
        now: Instant,
    ) -> bool {
        if !self.types[resource_type].has_removals() {
            return self.nothing_to_remove();
        }
        if self.types[resource_type].has_updates() && !updates {
            // One of them may replace what is removed.
            return false;
        }
        let settled = |each: ResourceType| self.types[each].is_settled();
        match resource_type {
            ResourceType::Listener => return true,
            ResourceType::RouteConfiguration => return settled(ResourceType::Listener),
            // A node asks no longer for the endpoints of a cluster that is removed.
            ResourceType::ClusterLoadAssignment if !settled(ResourceType::Cluster) => return false,
            _ if !settled(ResourceType::Listener) || !settled(ResourceType::RouteConfiguration) => return false,
            _ => {}
        }
        // Routes that the node is about to ask for, because a listener names them.
        let routes = &self.types[ResourceType::RouteConfiguration];
        let mut published = group.catalogue(ResourceType::RouteConfiguration).iter();
        if !self.types[ResourceType::Listener].started || published.all(|route| routes.has.contains_key(route.name())) {
            self.removals_held.end();
            return true;
        }
        self.removals_held.is_over(now)
    }

    fn nothing_to_remove(&mut self) -> bool {
        if !ResourceType::ALL
            .into_iter()
            .any(|each| self.types[each].has_removals())
        {
            self.removals_held.end();
        }
        false
    }

    /// A cluster that is sent needs its endpoints after it: a new one, because routes are to find them; a changed one, because Envoy prepares
    /// it afresh ("xDS protocol": resource warming) and waits for endpoints, though they did not change.
    pub(super) fn expect_endpoints(&mut self, resource_type: ResourceType, items: &[Item], group: &Group) {
        if resource_type != ResourceType::Cluster {
            return;
        }
        let endpoints = group.catalogue(ResourceType::ClusterLoadAssignment);
        for item in items {
            if item.resource.is_none() || endpoints.get(&item.name).is_none() {
                continue;
            }
            if !self.types[ResourceType::Cluster].has.contains_key(&item.name) {
                self.awaited.insert(item.name.clone());
            }
            self.types[ResourceType::ClusterLoadAssignment].force(&item.name, endpoints);
        }
    }

    /// Endpoints that have come, or will not.
    pub(super) fn stop_expecting(&mut self, resource_type: ResourceType, items: &[Item], refused: bool) {
        let expected = match resource_type {
            ResourceType::ClusterLoadAssignment => true,
            // A cluster that is refused does not ask for its endpoints.
            ResourceType::Cluster => refused,
            _ => false,
        };
        if expected {
            for item in items {
                self.awaited.remove(&item.name);
            }
        }
    }
}
