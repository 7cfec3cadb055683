//! Virtual hosts one by one (VHDS), for nodes that can take them so.
//!
//! Envoy asks for them once on a stream, without names, and drops hosts of route configurations that it does not have.
//! So a node gets all hosts of each route configuration at once the first time, after it: a listener serves with what
//! comes first.

use std::sync::Arc;

use super::Subscriber;
use super::subscription::{ResourceChange, Subscription};
use crate::group::{Catalogue, ResourceGroup, of_parent};
use limpet_resources::{Name, ResourceType};

impl Subscriber {
    pub(super) fn expect_hosts(
        &mut self,
        resource_type: ResourceType,
        items: &[ResourceChange],
        group: &ResourceGroup,
    ) {
        if resource_type != ResourceType::RouteConfiguration || !self.takes_hosts {
            return;
        }
        let hosts = &mut self.types[ResourceType::VirtualHost];
        for item in items {
            if item.resource.is_some() {
                hosts.subscribe_hosts(&item.name, group.catalogue(ResourceType::VirtualHost));
            }
        }
    }

    /// Called when the node asks for virtual hosts for the first time and got nothing: it has the route configurations
    /// from before the stream.
    pub(super) fn recognize_hosts(&mut self, group: &ResourceGroup) {
        let known: Vec<Name> = self.types[ResourceType::RouteConfiguration]
            .has
            .keys()
            .cloned()
            .collect();
        let hosts = &mut self.types[ResourceType::VirtualHost];
        for routes in known {
            hosts.subscribe_hosts(&routes, group.catalogue(ResourceType::VirtualHost));
        }
        hosts.started = false;
    }

    /// Connections of a removed listener still need its virtual hosts while they drain. Then the node stops asking for
    /// the route configuration.
    pub(super) fn keep_hosts(&mut self, group: &ResourceGroup) {
        let hosts = &mut self.types[ResourceType::VirtualHost];
        let is_gone = |routes: &&Name| group.catalogue(ResourceType::RouteConfiguration).get(routes).is_none();
        hosts.kept = hosts.parents.iter().filter(is_gone).cloned().collect();
    }

    /// The node asks no longer for this route configuration.
    pub(super) fn forget_hosts(&mut self, routes: &str, group: &ResourceGroup) {
        let hosts = &mut self.types[ResourceType::VirtualHost];
        hosts.unsubscribe_hosts(routes, group.catalogue(ResourceType::VirtualHost));
    }
}

impl Subscription {
    fn subscribe_hosts(&mut self, routes: &Name, catalogue: &Catalogue) {
        self.started = true;
        if self.parents.insert(Arc::clone(routes)) {
            self.compare_hosts(routes, catalogue);
        }
    }

    fn unsubscribe_hosts(&mut self, routes: &str, catalogue: &Catalogue) {
        if self.parents.remove(routes) {
            let refused = of_parent(&self.refused, routes).map(|(name, _)| name);
            let gone = of_parent(&self.has, routes).map(|(name, _)| name).chain(refused);
            let gone: Vec<Name> = gone.cloned().collect();
            for name in &gone {
                self.forget(name);
            }
            self.compare_hosts(routes, catalogue);
        }
    }

    fn compare_hosts(&mut self, routes: &str, catalogue: &Catalogue) {
        let published = catalogue.hosts_of(routes).map(|host| host.name());
        let had = of_parent(&self.has, routes).map(|(name, _)| name);
        let hosts: Vec<Name> = published.chain(had).cloned().collect();
        for name in &hosts {
            self.compare(name, catalogue);
        }
    }
}
