//! Fences in the event loop: which endpoints are published.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::endpoint_room::EndpointRoom;
use crate::cluster::reconcile::delivery::{Delivery, PublishedFilter};
use crate::cluster::reconcile::fences::{self, FenceList, FenceTracker, RoutedPort};
use crate::time_format;
use limpet_api::ObjectName;
use limpet_core::time::Timestamp;
use limpet_model::endpoints::Endpoint;
use limpet_model::{FewSet, Map};
use limpet_resources::changes;

/// How often Envoys' fences are compared with held addresses.
const LOOK: Duration = Duration::from_millis(100);
/// How often expired owners and fences are removed.
const CLEAN: Duration = Duration::from_secs(60);
/// How often endpoints are published again for changed room.
const ROOM: Duration = Duration::from_secs(10);

/// Holds endpoints back whose address has a new owner, until Envoys have its fence.
#[derive(Debug)]
pub(crate) struct EndpointGuard {
    fences: FenceTracker,
    /// The namespaces of routes to each Service.
    led_from: Map<ObjectName, FewSet<Arc<str>>>,
    published_fences: watch::Receiver<Option<FenceList>>,
    desired_fences: watch::Sender<Option<FenceList>>,
    delivery: Delivery,
    room: EndpointRoom,
    /// When shares of the room are settled again.
    settle_due: Instant,
    release_due: Instant,
    expiry_due: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FenceFigures {
    pub(crate) fences: usize,
    pub(crate) held_back: usize,
    /// Addresses that were published before every Envoy had their fence.
    pub(crate) unacknowledged: u64,
    /// Endpoints without room.
    pub(crate) left_out: usize,
}

impl EndpointGuard {
    /// `kept`: the ConfigMap's fences. `wanted`: those that it is to have.
    pub(crate) fn new(
        kept: watch::Receiver<Option<FenceList>>,
        wanted: watch::Sender<Option<FenceList>>,
        delivery: Delivery,
    ) -> Self {
        Self {
            fences: FenceTracker::default(),
            led_from: Map::new(),
            published_fences: kept,
            desired_fences: wanted,
            delivery,
            room: EndpointRoom::default(),
            settle_due: Instant::now(),
            release_due: Instant::now(),
            expiry_due: Instant::now(),
        }
    }

    fn refresh(&mut self) {
        if self.published_fences.has_changed().unwrap_or_default() {
            let kept = self.published_fences.borrow_and_update().clone();
            self.fences.set_list(kept.unwrap_or_default(), time_format::now());
        }
    }

    /// Takes all endpoints of a Service's port, in order, and returns those to publish in so many clusters: the first
    /// ones, if there is too little room.
    pub(crate) fn endpoints(
        &mut self,
        service: &ObjectName,
        port: &str,
        clusters: usize,
        mut all: Vec<Endpoint>,
    ) -> Vec<Endpoint> {
        let now = time_format::now();
        let from = || self.led_from.get(service).into_iter().flat_map(|from| from.iter());
        all.truncate(self.room.request(service, port, from().count(), clusters, all.len()));
        if self.room.is_short() {
            self.settle_due = Instant::now();
        }
        if self.room.has_unsettled() {
            self.release_due = self.release_due.min(self.settle_due);
        }
        for namespace in from() {
            let port = RoutedPort {
                service: service.clone(),
                port: port.to_owned(),
                namespace: Arc::clone(namespace),
            };
            if self.fences.observe(&port, &all, now) {
                self.release_due = Instant::now();
            }
        }
        all.retain(|endpoint| !self.fences.holds(service, endpoint.address));
        all.shrink_to_fit();
        all
    }

    /// Sets the namespaces of the routes that lead to each Service, for which `endpoints` checks owners. Reads the
    /// ConfigMap's fences before: they know owners from before this process started. Returns the Services that other
    /// namespaces lead to than before.
    pub(crate) fn set_routed_from(&mut self, led_from: Map<ObjectName, FewSet<Arc<str>>>) -> BTreeSet<ObjectName> {
        self.refresh();
        let before = std::mem::replace(&mut self.led_from, led_from);
        changes(&before, &self.led_from)
            .map(|(service, ..)| service.clone())
            .collect()
    }

    /// Sets in how many clusters each port of these Services is published.
    pub(crate) fn watch(&mut self, services: &BTreeSet<ObjectName>, clusters: impl Fn(&ObjectName, &str) -> usize) {
        let led_from = &self.led_from;
        let is_watched = |port: &RoutedPort| {
            let leads = led_from.get(&port.service);
            leads.is_some_and(|from| from.contains(&port.namespace)) && clusters(&port.service, &port.port) > 0
        };
        self.room.watch(services, &clusters);
        self.fences.watch(services, is_watched, time_format::now());
    }

    /// The Services with addresses that are held back since the last call. Another Service with the same address must
    /// be published without it.
    pub(crate) fn newly_held(&mut self) -> BTreeSet<ObjectName> {
        self.fences.newly_held()
    }

    pub(crate) fn release_due(&self) -> Instant {
        self.release_due
    }

    /// Compares Envoys' fences with held addresses. Returns the Services to publish again.
    pub(crate) fn release(&mut self, published_filter: Option<&PublishedFilter>) -> BTreeSet<ObjectName> {
        self.refresh();
        let now = time_format::now();
        let of = published_filter.map(|published_filter| fences::PublishedFences {
            fences: &published_filter.inputs.fences,
            everywhere: self.delivery.has(published_filter),
        });
        let mut services = self.fences.release(of, now);
        if self.settle_due <= Instant::now() && self.room.has_unsettled() {
            self.settle_due = Instant::now() + ROOM;
            services.extend(self.room.unsettled());
        }
        let cleans = self.expiry_due <= Instant::now();
        if cleans {
            self.expiry_due = Instant::now() + CLEAN;
        }
        if let Some(published_filter) = published_filter {
            if cleans {
                self.fences.forget(published_filter.life, now);
            }
            if cleans || self.fences.is_due(now) {
                self.update_fence_list(published_filter.life, now);
            }
        }
        let turns = self.fences.late().values().map(|turn| Instant::now() + turn.since(now));
        let turns = turns.chain(self.room.has_unsettled().then_some(self.settle_due));
        // The leader, which writes the wanted list, waits for nothing here.
        let holds = self.fences.holds_any();
        let look = Instant::now() + if holds { LOOK } else { CLEAN };
        self.release_due = turns.chain([look]).fold(self.expiry_due, Instant::min);
        services
    }

    /// Sends the list that the ConfigMap should have.
    fn update_fence_list(&mut self, life: Duration, now: Timestamp) {
        let before = self.fences.late().clone();
        let wanted = self.fences.desired_list(life, now);
        let late = self.fences.late().keys();
        for namespace in late.filter(|namespace| !before.contains_key(*namespace)) {
            tracing::warn!(
                namespace = &**namespace,
                "its addresses change their owners too often: their fences come within a minute, and until then their \
                 addresses' sessions may reach new owners"
            );
        }
        let excess = wanted.as_ref().map_or(0, |(_, excess)| *excess);
        let wanted = wanted.map(|(list, _)| list);
        self.desired_fences.send_if_modified(|known| {
            let changed = *known != wanted;
            if changed && excess > 0 {
                tracing::warn!(
                    excess,
                    "too many fences: the oldest of the namespaces with most of them are dropped, and their \
                     addresses' sessions may reach new owners"
                );
            }
            *known = wanted;
            changed
        });
    }

    pub(crate) fn fences(&self) -> &FenceTracker {
        &self.fences
    }

    pub(crate) fn figures(&self) -> FenceFigures {
        FenceFigures {
            fences: self.fences.list().len(),
            held_back: self.fences.held_back(),
            unacknowledged: self.fences.unacknowledged(),
            left_out: self.room.left_out(),
        }
    }

    pub(crate) fn services_left_out(&self) -> BTreeSet<ObjectName> {
        self.room.services_left_out()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Range;

    use limpet_outputs::{FilterInputs, FilterKeys};

    use super::*;
    use crate::cluster::looked;
    use crate::cluster::reconcile::manifests::WrittenManifests;
    use limpet_model::endpoints::EndpointState;

    fn service(namespace: &str) -> ObjectName {
        ObjectName::new(namespace, "shop")
    }

    fn endpoints(addresses: Range<u32>, owner: &str) -> Vec<Endpoint> {
        let endpoint = |n: u32| Endpoint {
            address: (std::net::Ipv4Addr::from(n), 80).into(),
            state: EndpointState::Ready,
            owner: Some(owner.into()),
            pod: None,
        };
        addresses.map(endpoint).collect()
    }

    fn published() -> PublishedFilter {
        PublishedFilter {
            inputs: Arc::new(FilterInputs::with_keys(FilterKeys::Listed(Vec::new()))),
            life: Duration::from_secs(3600),
            versions: BTreeMap::new(),
            generation: 1,
        }
    }

    /// A guard with so many addresses whose owner changes. No Service waits for them, because another namespace has the
    /// new owner.
    fn crowded(
        count: u32,
    ) -> (
        EndpointGuard,
        watch::Sender<Option<FenceList>>,
        watch::Receiver<Option<FenceList>>,
    ) {
        let (keep, kept) = watch::channel(None);
        let (wanted, wants) = watch::channel(None);
        let delivery = Delivery::Objects {
            written: watch::channel(WrittenManifests::default()).1,
            leads: watch::channel(true).1,
        };
        let mut guard = EndpointGuard::new(kept, wanted, delivery);
        let from: FewSet<Arc<str>> = [Arc::from("routes")].into_iter().collect();
        let led_from = ["first", "second"].map(|name| (service(name), Arc::new(from.clone())));
        guard.set_routed_from(led_from.into_iter().collect());
        guard.endpoints(&service("first"), "http", 1, endpoints(0..count, "a"));
        guard.endpoints(&service("first"), "http", 1, Vec::new());
        guard.endpoints(&service("second"), "http", 1, endpoints(0..count, "heir"));
        assert!(guard.release_due() <= Instant::now(), "a change is looked at once");
        guard.release(Some(&published()));
        let list = wants.borrow().clone();
        assert_eq!(list.as_ref().map(FenceList::len), Some(5000));
        keep.send_replace(list);
        guard.release(Some(&published()));
        assert!(wants.borrow().is_none(), "all there is room for is kept");
        (guard, keep, wants)
    }

    #[test]
    fn fences_without_room_are_not_looked_at_all_the_time() {
        let (guard, ..) = crowded(5001);
        assert!(guard.release_due() > Instant::now() + CLEAN / 2);
    }

    #[test]
    fn while_an_address_was_held_back_each_look_went_through_all_changes() {
        const LOOKS: usize = 50;
        let (mut guard, _keep, wants) = crowded(10_000);
        for owner in ["a", "heir"] {
            guard.endpoints(&service("first"), "http", 1, endpoints(20_000..20_001, owner));
        }
        guard.release(Some(&published()));
        assert!(wants.borrow().is_some(), "a change is looked at once");
        assert_eq!(guard.figures().held_back, 1);
        looked::take_count();
        for _ in 0..LOOKS {
            guard.release(Some(&published()));
        }
        let looked = looked::take_count();
        assert!(looked <= 2 * LOOKS, "{looked}");
        assert!(guard.release_due() <= Instant::now() + LOOK);
        assert_eq!(guard.figures().held_back, 1);
    }

    /// The other namespace's endpoints have a fair share, in any order.
    #[test]
    fn a_namespace_with_endpoints_without_number_left_no_room_for_those_of_another() {
        let (mut guard, ..) = crowded(10_000);
        let mut kept = |ports: u32, service: &ObjectName, count: u32| -> Vec<usize> {
            let port = |port: u32| {
                guard
                    .endpoints(service, &port.to_string(), 1, endpoints(100_000..100_000 + count, "a"))
                    .len()
            };
            let kept = (0..ports).map(port).collect();
            let again = guard.release(Some(&published()));
            assert!(again.is_empty() || again == [self::service("first")].into());
            kept
        };
        // Each endpoint has two entries: for its cluster, and for the namespace of routes.
        assert_eq!(kept(10, &service("first"), 20_000), [20_000; 10]);
        assert_eq!(kept(2, &service("second"), 30_000), [30_000; 2]);
        // Of 500,000 entries, the other one leaves 360,000: it had 10,000 endpoints before.
        assert_eq!(kept(10, &service("first"), 20_000), [18_000; 10]);
        assert_eq!(guard.figures().left_out, 20_000);
        assert_eq!(guard.services_left_out(), [service("first")].into());
        guard.watch(&[service("second")].into(), |_, _| 0);
        assert_eq!(guard.room.unsettled(), [service("first")].into());
    }
}
