//! What happens when an address changes hands.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use limpet_core::config::schema::FenceConfig;
use limpet_core::time::Timestamp;

use limpet_api::ObjectName;
use limpet_model::endpoints::Endpoint;

use super::list::{Fence, List};
use super::owners::{Owner, Owners};

/// An address is held back so long at the most: a new pod must not wait for an Envoy that does not answer.
const LONGEST: Duration = Duration::from_secs(5);
/// A fence begins so many seconds after the one in which the change was seen: Envoys go on issuing tokens for the address until they are told to leave it.
const MARGIN: u64 = 2;

/// What Envoys have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PublishedFences<'a> {
    /// The fences that are published.
    pub(crate) fences: &'a [FenceConfig],
    /// Whether every connected Envoy has acknowledged them.
    pub(crate) everywhere: bool,
}

/// Watches who has which address, and what is to be done where that changes.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    owners: Owners,
    list: List,
    changes: BTreeMap<SocketAddr, Change>,
    unacknowledged: u64,
}

/// An address that changed hands.
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

    /// Whether the list has its fence, whichever replica saw it first.
    fn fence_in<'a>(&self, address: SocketAddr, list: &'a List) -> Option<&'a Fence> {
        list.get(address).filter(|fence| *fence.owner == *self.owner)
    }
}

impl Fences {
    /// The list, as it is kept now. To be known before anything is observed: it tells who had addresses before this process began.
    pub(crate) fn set_list(&mut self, list: List, now: Timestamp) {
        for fence in list.iter() {
            self.owners.remember(fence.address, fence.owner.as_str().into(), now);
        }
        self.list = list;
        self.settle();
    }

    /// The endpoints of a Service's port, as EndpointSlices show them now. Whether an address changed hands: it is held back from now on.
    pub(crate) fn observe(&mut self, service: &ObjectName, port: &str, endpoints: &[Endpoint], now: Timestamp) -> bool {
        let new = self.owners.see((service.clone(), port.to_owned()), endpoints, now);
        let changed = !new.is_empty();
        for (address, owner) in new {
            let (seen, held) = (now, true);
            self.changes.insert(address, Change { owner, seen, held });
        }
        changed
    }

    /// The Services and ports that are watched from now on; those of others are not observed any more.
    pub(crate) fn watch(&mut self, watched: impl Fn(&ObjectName, &str) -> bool, now: Timestamp) {
        self.owners.retain(watched, now);
    }

    /// Whether an address is to be kept from Envoys.
    pub(crate) fn holds(&self, address: SocketAddr) -> bool {
        // Usually there is none.
        !self.changes.is_empty() && self.changes.get(&address).is_some_and(|change| change.held)
    }

    /// The addresses that are held back.
    pub(crate) fn held_back(&self) -> impl Iterator<Item = SocketAddr> {
        let held = self.changes.iter().filter(|(_, change)| change.held);
        held.map(|(address, _)| *address)
    }

    /// The Services that show an address.
    pub(crate) fn services(&self, address: SocketAddr) -> impl Iterator<Item = &ObjectName> {
        self.owners.services(address)
    }

    /// Lets go of the addresses whose fence Envoys have, once its time has come; and of those that waited for too long. The answer is the Services
    /// whose endpoints are to be published again.
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

    /// The list as it is to be, where it is not; and how many fences had to go because there are too many. For the leader to write.
    pub(crate) fn wanted(&self, life: Duration, now: Timestamp) -> Option<(List, usize)> {
        let missing = self
            .changes
            .iter()
            .filter(|(address, change)| change.fence_in(**address, &self.list).is_none());
        let new: Vec<Fence> = missing.map(|(address, change)| change.fence(*address)).collect();
        self.list.with(&new, life, now)
    }

    /// Forgets who had addresses before any token that is alive was issued.
    pub(crate) fn forget(&mut self, life: Duration, now: Timestamp) {
        self.owners.forget(life, now);
    }

    /// The fences, as they are kept.
    pub(crate) fn list(&self) -> &List {
        &self.list
    }

    /// How many addresses were let go before every Envoy had their fences.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.unacknowledged
    }

    /// A change whose fence is kept and whose address is given is over.
    fn settle(&mut self) {
        let list = &self.list;
        self.changes
            .retain(|address, change| change.held || change.fence_in(*address, list).is_none());
    }
}
