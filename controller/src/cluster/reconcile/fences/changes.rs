//! Addresses with a new owner.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::list::{AddressFence, FenceList};
use super::owners::{ChangedAddress, PodOwners, PodUid, RoutedAddress, RoutedPort};
use super::pace::NamespacePace;
use limpet_api::ObjectName;
use limpet_core::config::schema::FenceConfig;
use limpet_core::time::Timestamp;
use limpet_model::endpoints::Endpoint;

/// How long an address is held back at most: a new pod must not wait for an Envoy that does not answer.
const LONGEST: Duration = Duration::from_secs(5);
/// Seconds from an observed change until its fence begins: until then, Envoys may still issue tokens for the address.
const MARGIN: u64 = 2;

#[derive(Debug, Clone, Copy)]
pub(crate) struct PublishedFences<'a> {
    pub(crate) fences: &'a [FenceConfig],
    /// Whether every connected Envoy has acknowledged them.
    pub(crate) everywhere: bool,
}

impl<'a> PublishedFences<'a> {
    fn begins(self) -> HashMap<(&'a str, String), u64> {
        let mut all = HashMap::new();
        for fence in self.fences {
            #[cfg(test)]
            crate::cluster::looked::at_one();
            if let Some(namespace) = &fence.namespace {
                let begins = all.entry((namespace.as_str(), fence.address.clone())).or_default();
                *begins = fence.not_before.max(*begins);
            }
        }
        all
    }
}

#[derive(Debug, Default)]
pub(crate) struct FenceTracker {
    owners: PodOwners,
    list: FenceList,
    changes: BTreeMap<RoutedAddress, OwnerChange>,
    held: BTreeSet<RoutedAddress>,
    /// Addresses held back since the last `newly_held`, each with the namespace of the Services that lack it.
    newly_held: BTreeSet<(Arc<str>, SocketAddr)>,
    pace: NamespacePace,
    /// Since the last `desired_list`.
    changed: bool,
    /// Namespaces of Services whose changes wait, and until when.
    late: BTreeMap<Arc<str>, Timestamp>,
    unacknowledged: u64,
}

#[derive(Debug)]
struct OwnerChange {
    owner: PodUid,
    /// The namespace of the Services that show the new owner, and lack the address while it is held back.
    keeper: Arc<str>,
    observed_at: Timestamp,
    /// Whether its fence had no room.
    left_out: bool,
}

impl OwnerChange {
    fn fence(&self, at: &RoutedAddress) -> AddressFence {
        AddressFence {
            namespace: at.namespace.to_string(),
            address: at.address,
            not_before: self.observed_at.unix_seconds() + MARGIN,
            owner: self.owner.to_string(),
        }
    }

    /// The fence in the list, whichever replica added it.
    fn fence_in<'a>(&self, at: &RoutedAddress, list: &'a FenceList) -> Option<&'a AddressFence> {
        list.get(at).filter(|fence| *fence.owner == *self.owner)
    }

    /// A clock that goes back ends the wait, too.
    fn is_late(&self, now: Timestamp) -> bool {
        now < self.observed_at || now.since(self.observed_at) >= LONGEST
    }
}

impl FenceTracker {
    /// Replaces the ConfigMap's list, which has owners from before this process started.
    pub(crate) fn set_list(&mut self, list: FenceList, now: Timestamp) {
        let mut namespaces = BTreeSet::new();
        for fence in list.iter() {
            let at = fence.at();
            self.owners.remember(&at, fence.owner.as_str().into(), now);
            // The address may have yet another owner by now, but this fence takes a turn.
            let is_new = self.list.get(&at) != Some(fence);
            let change = self.changes.get(&at).filter(|_| is_new);
            namespaces.extend(change.map(|change| Arc::clone(&change.keeper)));
        }
        self.list = list;
        for namespace in namespaces {
            self.pace.record_turn(namespace, now);
        }
        self.settle();
        self.changed = true;
    }

    /// Returns whether an address changed its owner. If the same namespace showed the former owner, the address is held
    /// back.
    pub(crate) fn observe(&mut self, port: &RoutedPort, endpoints: &[Endpoint], now: Timestamp) -> bool {
        let new = self.owners.observe(port, endpoints, now);
        self.record(new, now)
    }

    /// Watches only these ports of the Services.
    pub(crate) fn watch(
        &mut self,
        services: &BTreeSet<ObjectName>,
        watched: impl Fn(&RoutedPort) -> bool,
        now: Timestamp,
    ) {
        let new = self.owners.retain(services, watched, now);
        self.record(new, now);
    }

    /// Returns whether there are any.
    fn record(&mut self, new: Vec<ChangedAddress>, now: Timestamp) -> bool {
        let changed = !new.is_empty();
        for ChangedAddress {
            at,
            owner,
            keeper,
            same_keeper,
        } in new
        {
            // Another namespace, which may claim anything, must not keep a Service from its pods.
            if same_keeper {
                self.held.insert(at.clone());
                self.newly_held.insert((Arc::clone(&keeper), at.address));
            } else {
                self.held.remove(&at);
            }
            let change = OwnerChange {
                owner,
                keeper,
                observed_at: now,
                left_out: false,
            };
            self.changes.insert(at, change);
        }
        self.changed |= changed;
        if self.owners.make_room() {
            self.settle();
        }
        changed
    }

    pub(crate) fn holds(&self, service: &ObjectName, address: SocketAddr) -> bool {
        // Called for every endpoint, and usually none is held.
        !self.held.is_empty() && self.held_at(address).any(|change| *change.keeper == *service.namespace)
    }

    fn held_at(&self, address: SocketAddr) -> impl Iterator<Item = &OwnerChange> {
        let first = RoutedAddress {
            address,
            namespace: Arc::from(""),
        };
        let held = self.held.range(first..).take_while(move |at| at.address == address);
        held.filter_map(|at| self.changes.get(at))
    }

    pub(crate) fn held_back(&self) -> usize {
        let mut addresses: Vec<SocketAddr> = self.held.iter().map(|at| at.address).collect();
        // They are sorted.
        addresses.dedup();
        addresses.len()
    }

    pub(crate) fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// The held addresses, each with the namespace of the Services that lack it.
    pub(crate) fn held_from(&self) -> BTreeSet<(Arc<str>, SocketAddr)> {
        let from = |(at, change): (&RoutedAddress, &OwnerChange)| (Arc::clone(&change.keeper), at.address);
        self.held().map(from).collect()
    }

    fn held(&self) -> impl Iterator<Item = (&RoutedAddress, &OwnerChange)> {
        self.held.iter().filter_map(|at| self.changes.get_key_value(at))
    }

    pub(crate) fn newly_held(&mut self) -> BTreeSet<ObjectName> {
        let newly_held = std::mem::take(&mut self.newly_held);
        self.owners.services(&newly_held)
    }

    /// Releases the addresses whose fence has begun on all Envoys, or which have waited for too long. Returns the
    /// Services to publish again.
    pub(crate) fn release(&mut self, published: Option<PublishedFences<'_>>, now: Timestamp) -> BTreeSet<ObjectName> {
        let everywhere = published.filter(|published| published.everywhere && !self.held.is_empty());
        let begins = everywhere.map(PublishedFences::begins).unwrap_or_default();
        let mut released = BTreeMap::new();
        for (at, change) in self.held() {
            let is_published = |fence: &AddressFence| {
                let key = (fence.namespace.as_str(), fence.address.to_string());
                begins.get(&key).is_some_and(|begins| *begins >= fence.not_before)
            };
            let fence = change.fence_in(at, &self.list);
            let is_fenced = fence.is_some_and(|fence| now.unix_seconds() >= fence.not_before && is_published(fence));
            if is_fenced || change.is_late(now) {
                released.insert(at.clone(), (Arc::clone(&change.keeper), is_fenced));
            }
        }
        if released.is_empty() {
            return BTreeSet::new();
        }
        self.held.retain(|at| !released.contains_key(at));
        self.settle();
        let unfenced = released.values().filter(|(_, is_fenced)| !is_fenced).count();
        self.unacknowledged += u64::try_from(unfenced).unwrap_or_default();
        let released = released.into_iter().map(|(at, (keeper, _))| (keeper, at.address));
        self.owners.services(&released.collect())
    }

    /// Whether `desired_list` may have changed, apart from expired fences.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.changed || self.late.values().any(|turn| *turn <= now)
    }

    pub(crate) fn late(&self) -> &BTreeMap<Arc<str>, Timestamp> {
        &self.late
    }

    /// The list for the leader to write, and how many fences it leaves out. `None`: no change. Namespaces without a
    /// turn wait.
    pub(crate) fn desired_list(&mut self, life: Duration, now: Timestamp) -> Option<(FenceList, usize)> {
        self.changed = false;
        self.late.clear();
        let mut new = Vec::new();
        for (at, change) in &self.changes {
            #[cfg(test)]
            crate::cluster::looked::at_one();
            if change.left_out || change.fence_in(at, &self.list).is_some() {
                continue;
            }
            let turn = self.pace.next(&change.keeper, now);
            if turn > now {
                self.late.insert(Arc::clone(&change.keeper), turn);
            } else {
                new.push(change.fence(at));
            }
        }
        let wanted = self.list.with(&new, life, now);
        self.leave_out(&new, wanted.as_ref().map(|(list, _)| list));
        wanted
    }

    /// Marks the changes of these fences that are in no list.
    fn leave_out(&mut self, new: &[AddressFence], list: Option<&FenceList>) {
        let list = list.unwrap_or(&self.list);
        let mut is_any_left_out = false;
        for at in new.iter().map(AddressFence::at) {
            if let Some(change) = self.changes.get_mut(&at)
                && change.fence_in(&at, list).is_none()
            {
                change.left_out = true;
                is_any_left_out = true;
            }
        }
        if is_any_left_out {
            self.settle();
        }
    }

    /// Forgets owners and changes whose tokens have all expired.
    pub(crate) fn forget(&mut self, life: Duration, now: Timestamp) {
        self.owners.forget(life, now);
        self.pace.forget(now);
        let held = &self.held;
        self.changes
            .retain(|at, change| held.contains(at) || !change.fence(at).is_over(life, now));
    }

    pub(crate) fn list(&self) -> &FenceList {
        &self.list
    }

    /// Addresses that were released before every Envoy had their fence.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.unacknowledged
    }

    /// Forgets released changes whose fence is written or has no room, or whose address is forgotten.
    fn settle(&mut self) {
        let (held, list, owners) = (&self.held, &self.list, &self.owners);
        self.changes.retain(|at, change| {
            #[cfg(test)]
            crate::cluster::looked::at_one();
            let is_open = || !change.left_out && change.fence_in(at, list).is_none() && owners.knows(at);
            held.contains(at) || is_open()
        });
    }
}
