//! What happens when an address changes hands.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use super::list::{Fence, List};
use super::owners::{Owner, Owners};
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

/// Knows the owners of addresses, and the addresses whose owner changed.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    owners: Owners,
    list: List,
    changes: BTreeMap<SocketAddr, Change>,
    unacknowledged: u64,
}

/// A change of an address's owner.
#[derive(Debug)]
struct Change {
    owner: Owner,
    seen: Timestamp,
    held: bool,
}

impl Change {
    fn fence(&self, address: SocketAddr) -> Fence {
        Fence {
            address,
            not_before: self.seen.unix_seconds() + MARGIN,
            owner: self.owner.to_string(),
        }
    }

    /// The fence for this change in the list, whichever replica added it.
    fn fence_in<'a>(&self, address: SocketAddr, list: &'a List) -> Option<&'a Fence> {
        list.get(address).filter(|fence| *fence.owner == *self.owner)
    }
}

impl Fences {
    /// Takes in the list of the ConfigMap. Call it before `observe`: the list tells who had addresses before this
    /// process started.
    pub(crate) fn set_list(&mut self, list: List, now: Timestamp) {
        for fence in list.iter() {
            self.owners.remember(fence.address, fence.owner.as_str().into(), now);
        }
        self.list = list;
        self.settle();
    }

    /// Takes in the endpoints of a Service's port. Returns whether an address changed its owner; it is held back from
    /// now on.
    pub(crate) fn observe(&mut self, service: &ObjectName, port: &str, endpoints: &[Endpoint], now: Timestamp) -> bool {
        let new = self.owners.see((service.clone(), port.to_owned()), endpoints, now);
        let changed = !new.is_empty();
        for (address, owner) in new {
            let (seen, held) = (now, true);
            self.changes.insert(address, Change { owner, seen, held });
        }
        changed
    }

    /// Sets the Services and ports that are watched from now on, and forgets the endpoints of all others.
    pub(crate) fn watch(&mut self, watched: impl Fn(&ObjectName, &str) -> bool, now: Timestamp) {
        self.owners.retain(watched, now);
    }

    /// Whether an address is held back.
    pub(crate) fn holds(&self, address: SocketAddr) -> bool {
        // This is called for every endpoint, and usually there is no change.
        !self.changes.is_empty() && self.changes.get(&address).is_some_and(|change| change.held)
    }

    /// The addresses that are held back.
    pub(crate) fn held_back(&self) -> impl Iterator<Item = SocketAddr> {
        let held = self.changes.iter().filter(|(_, change)| change.held);
        held.map(|(address, _)| *address)
    }

    /// The Services with an endpoint at this address.
    pub(crate) fn services(&self, address: SocketAddr) -> impl Iterator<Item = &ObjectName> {
        self.owners.services(address)
    }

    /// Releases the addresses whose fence has begun and is on all Envoys, and those that have waited for too long.
    /// Returns the Services whose endpoints must be published again.
    pub(crate) fn release(&mut self, published: Option<PublishedFences<'_>>, now: Timestamp) -> BTreeSet<ObjectName> {
        let mut services = BTreeSet::new();
        for (address, change) in &mut self.changes {
            let fenced = |fence: &Fence| {
                let text = address.to_string();
                let has = |published: PublishedFences<'_>| {
                    let mut fences = published.fences.iter();
                    published.everywhere
                        && fences.any(|known| known.address == text && known.not_before >= fence.not_before)
                };
                now.unix_seconds() >= fence.not_before && published.is_some_and(has)
            };
            let is_late = now.since(change.seen) >= LONGEST;
            let is_fenced = change.held && change.fence_in(*address, &self.list).is_some_and(fenced);
            if change.held && (is_fenced || is_late) {
                change.held = false;
                self.unacknowledged += u64::from(!is_fenced);
                services.extend(self.owners.services(*address).cloned());
            }
        }
        self.settle();
        services
    }

    /// The list that the leader should write, and how many fences it had to leave out. `None`: the list need not
    /// change.
    pub(crate) fn wanted(&self, life: Duration, now: Timestamp) -> Option<(List, usize)> {
        let missing = self
            .changes
            .iter()
            .filter(|(address, change)| change.fence_in(**address, &self.list).is_none());
        let new: Vec<Fence> = missing.map(|(address, change)| change.fence(*address)).collect();
        self.list.with(&new, life, now)
    }

    /// Forgets owners whose tokens have all expired.
    pub(crate) fn forget(&mut self, life: Duration, now: Timestamp) {
        self.owners.forget(life, now);
    }

    /// The list of the ConfigMap.
    pub(crate) fn list(&self) -> &List {
        &self.list
    }

    /// How many addresses were released before every Envoy had their fence.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.unacknowledged
    }

    /// Forgets changes whose fence is in the list and whose address is released.
    fn settle(&mut self) {
        let list = &self.list;
        self.changes
            .retain(|address, change| change.held || change.fence_in(*address, list).is_none());
    }
}
