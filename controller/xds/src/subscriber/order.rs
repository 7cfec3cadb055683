//! The order between types: make before break (xDS protocol, "Eventual consistency considerations").
//!
//! - Filter configurations are sent before the clusters that may refer to them: the metadata of a cluster with its own
//!   sessions names a policy.
//! - Clusters, their endpoints, filter configurations and secrets are sent before the listeners and routes that may
//!   refer to them, which wait for acknowledgements of these, if the node has asked for them on this stream.
//! - Resources that listeners and routes may still refer to are removed after these are replaced.
//! - A filter configuration is not removed from a node that asks for it: the connections of a replaced listener need it
//!   while they drain.
//!
//! The server does not read references from resources: the order holds between all resources of two types, except for a
//! cluster's endpoints, which have its name.

use std::time::{Duration, Instant};

use super::Subscriber;
use super::subscription::ResourceChange;
use crate::group::ResourceGroup;
use limpet_resources::{Name, ResourceType};

/// The longest wait for resources that should come first, which the node may not take or acknowledge.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The same for clusters: shorter, so that routes still wait for the clusters.
pub(super) const CLUSTERS_PATIENCE: Duration = Duration::from_millis(2500);

/// How often a node gets changed filter configurations: each worker stops for a moment to set up a filter, which grows
/// with its policies, and changes of one namespace are changes for all.
pub(super) const FILTERS_INTERVAL: Duration = Duration::from_secs(1);

/// What refers to other resources.
pub(super) const REFERRING: [ResourceType; 3] = [
    ResourceType::Listener,
    ResourceType::RouteConfiguration,
    ResourceType::VirtualHost,
];

const LISTENERS_AGAIN: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct OrderWait {
    since: Option<Instant>,
}

impl OrderWait {
    pub(super) fn begin(&mut self, now: Instant) {
        self.since = Some(now);
    }

    /// Starts the wait, if it has not begun, and returns whether it is over.
    pub(super) fn is_over(&mut self, now: Instant) -> bool {
        self.is_over_after(PATIENCE, now)
    }

    fn is_over_after(&mut self, patience: Duration, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        now.saturating_duration_since(since) >= patience
    }

    pub(super) fn end(&mut self) {
        self.since = None;
    }
}

impl Subscriber {
    /// When to look again without an event. A wait that is over asks for nothing: what it held back may wait for an
    /// answer that never comes.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        let clusters = self.clusters_held.since.map(|since| since + CLUSTERS_PATIENCE);
        let holds = [&self.updates_held, &self.removals_held].into_iter();
        let holds = holds.chain(self.preflight.holds()).filter_map(|hold| hold.since);
        let ends = holds.map(|since| since + PATIENCE);
        let ends = ends
            .chain(clusters)
            .chain(self.next_filters())
            .chain(self.preflight.limit())
            .chain(self.listeners_due);
        ends.filter(|end| *end > now).min()
    }

    /// Offers refused listeners again after some time: another process may have held the port.
    pub(super) fn offer_listeners_again(&mut self, group: &ResourceGroup, now: Instant) {
        let listeners = &mut self.types[ResourceType::Listener];
        if listeners.refused.is_empty() {
            self.listeners_due = None;
            return;
        }
        let due = *self.listeners_due.get_or_insert(now + LISTENERS_AGAIN);
        if due <= now {
            self.listeners_due = Some(now + LISTENERS_AGAIN);
            let refused: Vec<Name> = listeners.refused.keys().cloned().collect();
            for name in &refused {
                listeners.force(name, group.catalogue(ResourceType::Listener));
            }
        }
    }

    fn next_filters(&self) -> Option<Instant> {
        let changed = self.filters_changed_at?;
        let has_updates = self.types[ResourceType::ExtensionConfig].has_updates();
        has_updates.then_some(changed + FILTERS_INTERVAL)
    }

    pub(super) fn may_update(&mut self, resource_type: ResourceType, group: &ResourceGroup, now: Instant) -> bool {
        match resource_type {
            ResourceType::Cluster => return self.may_update_clusters(now),
            ResourceType::ExtensionConfig => return self.next_filters().is_none_or(|next| next <= now),
            _ if !REFERRING.contains(&resource_type) => return true,
            _ => {}
        }
        let waiting = |each: ResourceType| self.types[each].has_updates() || self.types[each].owed_an_answer;
        if !REFERRING.into_iter().any(waiting) {
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
            // One wait is enough.
            self.awaited.clear();
        } else {
            return false;
        }
        true
    }

    fn may_update_clusters(&mut self, now: Instant) -> bool {
        let waits = self.types[ResourceType::Cluster].has_updates();
        if !waits || !self.types[ResourceType::ExtensionConfig].is_updating() {
            self.clusters_held.end();
            return true;
        }
        self.clusters_held.is_over_after(CLUSTERS_PATIENCE, now)
    }

    /// `updates` says whether resources of the type may be updated.
    pub(super) fn may_remove(
        &mut self,
        resource_type: ResourceType,
        updates: bool,
        group: &ResourceGroup,
        now: Instant,
    ) -> bool {
        if !self.types[resource_type].has_removals() {
            return self.nothing_to_remove();
        }
        if self.types[resource_type].has_updates() && !updates {
            // An update may replace the removed resource.
            return false;
        }
        let settled = |each: ResourceType| self.types[each].is_settled();
        match resource_type {
            // Virtual hosts with their updates in one response: a domain may move from one to another.
            ResourceType::Listener | ResourceType::VirtualHost => return true,
            ResourceType::RouteConfiguration => return settled(ResourceType::Listener),
            // A node stops asking for the endpoints of a removed cluster by itself.
            ResourceType::ClusterLoadAssignment if !settled(ResourceType::Cluster) => return false,
            _ if !REFERRING.into_iter().all(settled) => return false,
            _ => {}
        }
        // The node will ask for these routes, because a listener names them.
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

    /// A new cluster needs its endpoints before routes lead to it. A changed one needs them, even unchanged, because
    /// Envoy warms it again (xDS protocol, "Resource warming").
    pub(super) fn expect_endpoints(
        &mut self,
        resource_type: ResourceType,
        items: &[ResourceChange],
        group: &ResourceGroup,
    ) {
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

    pub(super) fn stop_expecting(&mut self, resource_type: ResourceType, items: &[ResourceChange], refused: bool) {
        let expected = match resource_type {
            ResourceType::ClusterLoadAssignment => true,
            // A node does not ask for the endpoints of a refused cluster.
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
