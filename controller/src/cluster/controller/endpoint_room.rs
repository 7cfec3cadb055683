//! How many endpoints of each port may be published.
//!
//! An endpoint takes memory for each port: its owner for each namespace of routes that lead to it, and itself in each
//! cluster. Beyond the limit, each namespace of Services has a fair share, and in it each port. The result depends only
//! on what is published, so all replicas leave out the same.

use std::collections::{BTreeMap, BTreeSet};

use limpet_api::{ObjectName, Text};
use limpet_model::WantedSizes;

/// The most entries, of up to 350 bytes each. At most twice as many are published, until others give way to new ports.
const MOST: usize = 500_000;

/// Published endpoints, by namespace of Services.
#[derive(Debug)]
pub(super) struct EndpointRoom {
    most: usize,
    namespaces: BTreeMap<Text, NamespaceEndpoints>,
    sizes: WantedSizes,
    entries: usize,
    /// Published entries, unlike `left_out`, which counts endpoints.
    published: usize,
    left_out: usize,
    /// Whether a port has less than its share until others give way.
    is_short: bool,
    /// Whether shares may differ from those that ports were given.
    has_changed: bool,
}

/// By the name of the Service and of the port.
#[derive(Debug, Default)]
struct NamespaceEndpoints {
    ports: BTreeMap<(Text, String), PortEndpoints>,
    sizes: WantedSizes,
    entries: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PortEndpoints {
    endpoints: usize,
    published: usize,
    /// How many namespaces have routes that lead there.
    namespaces: usize,
    clusters: usize,
}

impl Default for EndpointRoom {
    fn default() -> Self {
        Self {
            most: MOST,
            namespaces: BTreeMap::new(),
            sizes: WantedSizes::default(),
            entries: 0,
            published: 0,
            left_out: 0,
            is_short: false,
            has_changed: false,
        }
    }
}

impl PortEndpoints {
    /// The entries of one endpoint.
    fn weight(&self) -> usize {
        (self.namespaces + self.clusters).max(1)
    }

    fn entries(&self) -> usize {
        #[cfg(test)]
        crate::cluster::looked::at_one();
        self.endpoints * self.weight()
    }

    fn published_entries(&self) -> usize {
        self.published * self.weight()
    }

    /// How many endpoints fit into a share of entries.
    fn within(&self, share: usize) -> usize {
        self.endpoints.min(share / self.weight())
    }
}

impl NamespaceEndpoints {
    /// Entries of a port within a share of its namespace.
    fn share_of_port(&self, share: usize) -> usize {
        if self.entries <= share {
            return usize::MAX;
        }
        self.sizes.share(share)
    }
}

impl EndpointRoom {
    /// Returns how many of a port's endpoints to publish. `namespaces`: the number that has routes to the port.
    /// `clusters`: the number that has the port from now on.
    pub(super) fn request(
        &mut self,
        service: &ObjectName,
        port: &str,
        namespaces: usize,
        clusters: usize,
        endpoints: usize,
    ) -> usize {
        let key = (service.name.clone(), port.to_owned());
        let of = self.namespaces.get(&service.namespace);
        let before = of.and_then(|of| of.ports.get(&key));
        let before = before.map_or(0, PortEndpoints::published_entries);
        let port = PortEndpoints {
            endpoints,
            published: 0,
            namespaces,
            clusters,
        };
        self.set(&service.namespace, key.clone(), port);
        let share = self.share();
        let of = self.namespaces.get(&service.namespace);
        let fair = port.within(of.map_or(usize::MAX, |of| of.share_of_port(share)));
        let free = (2 * self.most).saturating_sub(self.published);
        let published = fair.min(port.within(free.max(before)));
        self.is_short |= published < fair;
        self.has_changed |= published < fair;
        self.set(&service.namespace, key, PortEndpoints { published, ..port });
        published
    }

    /// Records how many clusters each port of these Services has.
    pub(super) fn watch(&mut self, services: &BTreeSet<ObjectName>, clusters: impl Fn(&ObjectName, &str) -> usize) {
        for service in services {
            let Some(of) = self.namespaces.get(&service.namespace) else {
                continue;
            };
            let ports = of.ports.range((service.name.clone(), String::new())..);
            let ports = ports.take_while(|((name, _), _)| *name == service.name);
            let ports: Vec<_> = ports.map(|(key, port)| (key.clone(), *port)).collect();
            for (key, mut port) in ports {
                port.clusters = clusters(service, &key.1);
                if port.clusters == 0 {
                    port.endpoints = 0;
                    port.published = 0;
                }
                self.set(&service.namespace, key, port);
            }
        }
    }

    /// Replaces a port. One without endpoints is removed.
    fn set(&mut self, namespace: &Text, key: (Text, String), port: PortEndpoints) {
        let of = self.namespaces.entry(namespace.clone()).or_default();
        let before = if port.endpoints == 0 {
            of.ports.remove(&key)
        } else {
            of.ports.insert(key, port)
        };
        let entries = |port: Option<&PortEndpoints>| port.map_or(0, PortEndpoints::entries);
        let (was, is) = (entries(before.as_ref()), port.entries());
        of.sizes.change(was, is);
        let entries_before = of.entries;
        of.entries = of.entries + is - was;
        self.sizes.change(entries_before, of.entries);
        self.entries = self.entries + is - was;
        self.published += port.published_entries();
        self.published -= before.as_ref().map_or(0, PortEndpoints::published_entries);
        self.left_out = self.left_out + port.endpoints - port.published;
        self.left_out -= before.map_or(0, |before| before.endpoints - before.published);
        self.has_changed |= was != is;
        if self.namespaces.get(namespace).is_some_and(|of| of.ports.is_empty()) {
            self.namespaces.remove(namespace);
        }
    }

    fn share(&self) -> usize {
        if self.entries <= self.most {
            return usize::MAX;
        }
        self.sizes.share(self.most)
    }

    /// Whether to ask for those that are [`Self::unsettled`].
    pub(super) fn has_unsettled(&self) -> bool {
        self.has_changed && (self.entries > self.most || self.left_out > 0)
    }

    /// Whether not to wait before that.
    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    /// The Services that must be published again, because their share has changed.
    pub(super) fn unsettled(&mut self) -> BTreeSet<ObjectName> {
        if !self.has_unsettled() {
            return BTreeSet::new();
        }
        self.has_changed = false;
        self.is_short = false;
        let share = self.share();
        let mut unsettled = Vec::new();
        for (namespace, of) in &self.namespaces {
            let share = of.share_of_port(share);
            for (key, port) in &of.ports {
                let published = port.within(share);
                if published != port.published {
                    unsettled.push((namespace.clone(), key.clone(), PortEndpoints { published, ..*port }));
                }
            }
        }
        let mut services = BTreeSet::new();
        for (namespace, key, port) in unsettled {
            services.insert(ObjectName::new(&namespace, &key.0));
            self.set(&namespace, key, port);
        }
        services
    }

    pub(super) fn left_out(&self) -> usize {
        self.left_out
    }

    pub(super) fn services_left_out(&self) -> BTreeSet<ObjectName> {
        if self.left_out == 0 {
            return BTreeSet::new();
        }
        let services = self.namespaces.iter().flat_map(|(namespace, of)| {
            let ports = of.ports.iter().filter(|(_, port)| port.published < port.endpoints);
            ports.map(|((name, _), _)| ObjectName::new(namespace, name))
        });
        services.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::looked;

    fn name(namespace: &str, service: &str) -> ObjectName {
        ObjectName::new(namespace, service)
    }

    fn room(most: usize) -> EndpointRoom {
        EndpointRoom {
            most,
            ..EndpointRoom::default()
        }
    }

    /// Requests all ports until nothing changes, and returns how many endpoints of each are published.
    fn settled(room: &mut EndpointRoom, ports: &[(&ObjectName, &str, usize)]) -> Vec<usize> {
        let take = |room: &mut EndpointRoom, (service, port, endpoints): &(&ObjectName, &str, usize)| {
            room.request(service, port, 1, 1, *endpoints)
        };
        let mut kept: Vec<usize> = ports.iter().map(|port| take(room, port)).collect();
        let unsettled = room.unsettled();
        for (port, kept) in ports.iter().zip(&mut kept) {
            if unsettled.contains(port.0) {
                *kept = take(room, port);
            }
        }
        assert!(room.unsettled().is_empty());
        kept
    }

    #[test]
    fn endpoints_of_one_namespace_took_the_room_of_all() {
        let (many, few) = (name("many", "a"), name("few", "a"));
        let ports = [(&many, "1", 400), (&many, "2", 400), (&many, "3", 10), (&few, "1", 90)];
        // Each has an entry for its cluster, and one for the only namespace of routes.
        let mut all = room(1800);
        assert_eq!(settled(&mut all, &ports), [400, 400, 10, 90]);
        assert_eq!(all.left_out(), 0);
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
            let mut room = room(600);
            let ports = order.map(|port| ports[port]);
            let kept = settled(&mut room, &ports);
            let expected = [100, 100, 10, 90];
            assert_eq!(kept, order.map(|port| expected[port]), "in whatever order they come");
            assert_eq!(
                (room.left_out(), room.services_left_out()),
                (600, [many.clone()].into())
            );
        }
    }

    #[test]
    fn what_others_leave_is_for_those_who_need_it() {
        let mut room = room(600);
        let (one, other) = (name("one", "a"), name("other", "a"));
        assert_eq!(settled(&mut room, &[(&one, "", 300), (&other, "", 300)]), [150, 150]);
        // No endpoint or cluster has the port any more.
        room.watch(&[other.clone()].into(), |_, _| 0);
        assert_eq!(room.unsettled(), [one.clone()].into());
        assert_eq!(room.request(&one, "", 1, 1, 300), 300);
        assert_eq!((room.left_out(), room.entries), (0, 600));
        assert_eq!(room.request(&one, "", 1, 1, 0), 0);
        assert!(room.namespaces.is_empty() && room.entries == 0 && room.unsettled().is_empty());
    }

    #[test]
    fn clusters_and_namespaces_of_routes_count() {
        let mut room = room(600);
        let one = name("one", "a");
        assert_eq!(room.request(&one, "", 2, 1, 200), 200);
        room.watch(&[one.clone()].into(), |_, _| 4);
        assert_eq!(room.unsettled(), [one.clone()].into());
        assert_eq!(room.request(&one, "", 2, 4, 200), 100);
        assert_eq!(room.request(&one, "", 11, 4, 200), 40);
    }

    #[test]
    fn ports_that_came_one_after_the_other_had_more_together_than_there_is_room_for() {
        const MANY: usize = 100;
        let mut room = room(600);
        let all: Vec<_> = (0..MANY).map(|number| name("many", &number.to_string())).collect();
        let few = name("few", "a");
        let kept: usize = all.iter().map(|service| room.request(service, "", 1, 1, 300)).sum();
        assert_eq!(2 * kept, 1200);
        assert_eq!(room.request(&few, "", 1, 1, 10), 0);
        assert!(room.is_short() && room.has_unsettled());
        assert_eq!(room.unsettled().len(), MANY + 1);
        assert_eq!(room.request(&few, "", 1, 1, 10), 10);
        assert!(all.iter().all(|service| room.request(service, "", 1, 1, 300) == 2));
        assert!(!room.is_short() && room.unsettled().is_empty());
    }

    #[test]
    fn a_request_went_through_all_ports_of_its_namespace_and_all_namespaces() {
        const MANY: usize = 1000;
        let mut room = room(600);
        let ports: Vec<_> = (0..MANY).map(|port| (name("one", "a"), port.to_string())).collect();
        let others: Vec<_> = (0..MANY)
            .map(|other| (name(&other.to_string(), "a"), String::new()))
            .collect();
        looked::take_count();
        for (service, port) in ports.iter().chain(&others) {
            room.request(service, port, 1, 1, 10);
        }
        let looked = looked::take_count();
        assert!((2 * MANY..=10 * MANY).contains(&looked), "{looked}");
    }
}
