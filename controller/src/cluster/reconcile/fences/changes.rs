//! What happens when an address changes hands.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::list::{Fence, List};
use super::owners::{Changed, Owner, Owners, RoutedAddress, RoutedPort};
use limpet_api::ObjectName;
use limpet_core::config::schema::FenceConfig;
use limpet_core::time::Timestamp;
use limpet_model::endpoints::Endpoint;

/// The maximum time for which an address is held back: a new pod must not wait for an Envoy that does not answer.
const LONGEST: Duration = Duration::from_secs(5);
/// How many seconds after the change was seen a fence begins: until then, Envoys may still issue tokens for the
/// address.
const MARGIN: u64 = 2;

/// What is published of the fences.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PublishedFences<'a> {
    pub(crate) fences: &'a [FenceConfig],
    /// Whether every connected Envoy has acknowledged the fences.
    pub(crate) everywhere: bool,
}

impl<'a> PublishedFences<'a> {
    /// When each fence begins, by namespace and address.
    fn begins(self) -> HashMap<(&'a str, String), u64> {
        let mut all = HashMap::new();
        for fence in self.fences {
            #[cfg(test)]
            super::looked::at_one();
            if let Some(namespace) = &fence.namespace {
                let begins = all.entry((namespace.as_str(), fence.address.clone())).or_default();
                *begins = fence.not_before.max(*begins);
            }
        }
        all
    }
}

/// Knows the owners of addresses, and the addresses whose owner changed.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    owners: Owners,
    list: List,
    changes: BTreeMap<RoutedAddress, Change>,
    unacknowledged: u64,
}

/// A change of an address's owner.
#[derive(Debug)]
struct Change {
    owner: Owner,
    /// The namespace of the Services that are published without the address while it is held back.
    keeper: Arc<str>,
    seen: Timestamp,
    held: bool,
}

impl Change {
    fn fence(&self, at: &RoutedAddress) -> Fence {
        Fence {
            namespace: at.namespace.to_string(),
            address: at.address,
            not_before: self.seen.unix_seconds() + MARGIN,
            owner: self.owner.to_string(),
        }
    }

    /// The fence for this change in the list, whichever replica added it.
    fn fence_in<'a>(&self, at: &RoutedAddress, list: &'a List) -> Option<&'a Fence> {
        list.get(at).filter(|fence| *fence.owner == *self.owner)
    }

    /// Whether nobody waits for the fence any longer. A clock that goes back makes nobody wait either.
    fn is_late(&self, now: Timestamp) -> bool {
        now < self.seen || now.since(self.seen) >= LONGEST
    }
}

impl Fences {
    /// Takes in the list of the ConfigMap. Call it before `observe`: the list tells who had addresses before this
    /// process started.
    pub(crate) fn set_list(&mut self, list: List, now: Timestamp) {
        for fence in list.iter() {
            self.owners.remember(&fence.at(), fence.owner.as_str().into(), now);
        }
        self.list = list;
        self.settle();
    }

    /// Takes in the endpoints of a Service's port. Returns whether an address changed its owner. If the same namespace
    /// showed the former owner, the address is held back from now on.
    pub(crate) fn observe(&mut self, port: &RoutedPort, endpoints: &[Endpoint], now: Timestamp) -> bool {
        let new = self.owners.see(port, endpoints, now);
        self.note(new, now)
    }

    /// Says which ports of these Services are watched from now on, and forgets the endpoints of their others.
    pub(crate) fn watch(
        &mut self,
        services: &BTreeSet<ObjectName>,
        watched: impl Fn(&RoutedPort) -> bool,
        now: Timestamp,
    ) {
        let new = self.owners.retain(services, watched, now);
        self.note(new, now);
    }

    /// Returns whether there are any.
    fn note(&mut self, new: Vec<Changed>, now: Timestamp) -> bool {
        let changed = !new.is_empty();
        for Changed {
            at,
            owner,
            keeper,
            same_keeper,
        } in new
        {
            let change = Change {
                owner,
                keeper,
                seen: now,
                // Another namespace, which may say anything, must not keep a Service from its pods.
                held: same_keeper,
            };
            self.changes.insert(at, change);
        }
        if self.owners.make_room() {
            self.settle();
        }
        changed
    }

    /// Whether an address of a Service is held back.
    pub(crate) fn holds(&self, service: &ObjectName, address: SocketAddr) -> bool {
        // This is called for every endpoint, and usually there is no change.
        !self.changes.is_empty()
            && self
                .of(address)
                .any(|change| change.held && *change.keeper == *service.namespace)
    }

    /// The changes of an address, in all namespaces.
    fn of(&self, address: SocketAddr) -> impl Iterator<Item = &Change> {
        let first = RoutedAddress {
            address,
            namespace: Arc::from(""),
        };
        let from = self.changes.range(first..);
        from.take_while(move |(at, _)| at.address == address)
            .map(|(_, change)| change)
    }

    /// The addresses that are held back.
    pub(crate) fn held_back(&self) -> BTreeSet<SocketAddr> {
        self.held().map(|(at, _)| at.address).collect()
    }

    /// The same, each with the namespace of the Services that are published without it.
    pub(crate) fn held_from(&self) -> BTreeSet<(Arc<str>, SocketAddr)> {
        let from = |(at, change): (&RoutedAddress, &Change)| (Arc::clone(&change.keeper), at.address);
        self.held().map(from).collect()
    }

    fn held(&self) -> impl Iterator<Item = (&RoutedAddress, &Change)> {
        self.changes.iter().filter(|(_, change)| change.held)
    }

    /// The Services with addresses that are held back.
    pub(crate) fn incomplete(&self) -> BTreeSet<ObjectName> {
        self.owners.services(&self.held_from())
    }

    /// Releases the addresses whose fence has begun and is on all Envoys, and those that have waited for too long.
    /// Returns the Services whose endpoints must be published again.
    pub(crate) fn release(&mut self, published: Option<PublishedFences<'_>>, now: Timestamp) -> BTreeSet<ObjectName> {
        let is_any_held = self.held().next().is_some();
        let everywhere = published.filter(|published| published.everywhere && is_any_held);
        let begins = everywhere.map(PublishedFences::begins).unwrap_or_default();
        let mut released = BTreeSet::new();
        for (at, change) in self.changes.iter_mut().filter(|(_, change)| change.held) {
            let is_published = |fence: &Fence| {
                let key = (fence.namespace.as_str(), fence.address.to_string());
                begins.get(&key).is_some_and(|begins| *begins >= fence.not_before)
            };
            let fence = change.fence_in(at, &self.list);
            let is_fenced = fence.is_some_and(|fence| now.unix_seconds() >= fence.not_before && is_published(fence));
            if is_fenced || change.is_late(now) {
                change.held = false;
                self.unacknowledged += u64::from(!is_fenced);
                released.insert((Arc::clone(&change.keeper), at.address));
            }
        }
        self.settle();
        self.owners.services(&released)
    }

    /// The list that the leader should write, and how many fences it had to leave out. `None`: the list need not
    /// change.
    pub(crate) fn wanted(&self, life: Duration, now: Timestamp) -> Option<(List, usize)> {
        let missing = self
            .changes
            .iter()
            .filter(|(at, change)| change.fence_in(at, &self.list).is_none());
        let new: Vec<Fence> = missing.map(|(at, change)| change.fence(at)).collect();
        self.list.with(&new, life, now)
    }

    /// Forgets owners whose tokens have all expired, and changes that no token is about any more: there may never have
    /// been room for their fences.
    pub(crate) fn forget(&mut self, life: Duration, now: Timestamp) {
        self.owners.forget(life, now);
        self.changes
            .retain(|at, change| change.held || !change.fence(at).is_over(life, now));
    }

    /// The list of the ConfigMap.
    pub(crate) fn list(&self) -> &List {
        &self.list
    }

    /// How many addresses were released before every Envoy had their fence.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.unacknowledged
    }

    /// Forgets changes whose fence is in the list, or whose address is forgotten, once the address is released.
    fn settle(&mut self) {
        let (list, owners) = (&self.list, &self.owners);
        self.changes
            .retain(|at, change| change.held || (change.fence_in(at, list).is_none() && owners.knows(at)));
    }
}
