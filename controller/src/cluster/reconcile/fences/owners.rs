//! The owners of addresses, as the routes of each namespace see them.
//!
//! A token reaches only what its rule's route leads to. So owners are compared for each namespace of routes, among the
//! namespaces of its Services. The first of these that shows an address keeps it: the others' owners do not count
//! meanwhile, because an author of EndpointSlices can write any address and any owner into them.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use limpet_api::ObjectName;
use limpet_core::time::Timestamp;
use limpet_model::endpoints::Endpoint;
use limpet_model::{beyond_share, fair_share};

/// The most addresses that no Service shows any more, plus a quarter. Each namespace has a fair share.
const MOST_LEFT: usize = 50_000;

/// A pod whose containers restart keeps it.
pub(super) type PodUid = Arc<str>;

/// An address for the routes of a namespace. Includes the port, because pods in their node's network share the IP
/// address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RoutedAddress {
    pub(crate) address: SocketAddr,
    /// Of the routes.
    pub(crate) namespace: Arc<str>,
}

/// A Service's port for the routes of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RoutedPort {
    pub(crate) service: ObjectName,
    pub(crate) port: String,
    /// Of the routes.
    pub(crate) namespace: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChangedAddress {
    pub(super) at: RoutedAddress,
    pub(super) owner: PodUid,
    /// The namespace of the Services that show the new owner.
    pub(super) keeper: Arc<str>,
    pub(super) same_keeper: bool,
}

#[derive(Debug, Default)]
pub(super) struct PodOwners {
    by_port: BTreeMap<RoutedPort, BTreeMap<SocketAddr, PodUid>>,
    addresses: HashMap<RoutedAddress, AddressOwners>,
    unshown: usize,
}

/// Since when no Service shows each, by the namespace that showed it last.
type ByKeeper<'a> = BTreeMap<Option<&'a str>, Vec<(Timestamp, &'a RoutedAddress)>>;

/// An address that is not shown keeps its last owners.
#[derive(Debug)]
struct AddressOwners {
    shown: Vec<ShownOwner>,
    /// The namespace whose Services decide. `None`: a former process knew.
    keeper: Option<Arc<str>>,
    /// Sorted. Several while EndpointSlices are updated one by one.
    owners: Vec<PodUid>,
    unshown_since: Option<Timestamp>,
}

#[derive(Debug)]
struct ShownOwner {
    keeper: Arc<str>,
    owner: PodUid,
    /// How many ports have it as an endpoint.
    ports: usize,
}

impl PodOwners {
    /// Returns the addresses with a new owner. Endpoints without an owner are ignored.
    pub(super) fn observe(&mut self, port: &RoutedPort, endpoints: &[Endpoint], now: Timestamp) -> Vec<ChangedAddress> {
        let now_seen: BTreeMap<SocketAddr, PodUid> = endpoints
            .iter()
            .filter_map(|endpoint| Some((endpoint.address, endpoint.owner.clone()?)))
            .collect();
        if self.by_port.get(port).is_some_and(|seen| *seen == now_seen) {
            return Vec::new();
        }
        let before = self.by_port.remove(port).unwrap_or_default();
        let keeper: Arc<str> = port.service.namespace.as_str().into();
        let mut new = Vec::new();
        // New owners come before old ones go, so an address is never without one between them.
        for (address, owner) in now_seen
            .iter()
            .filter(|(address, owner)| before.get(address) != Some(owner))
        {
            let at = port.at(*address);
            let owned = self.addresses.entry(at.clone()).or_default();
            self.unshown -= usize::from(owned.unshown_since.is_some());
            owned.show(&keeper, owner);
            new.extend(owned.settle(at, now));
        }
        for (address, owner) in before
            .iter()
            .filter(|(address, owner)| now_seen.get(address) != Some(owner))
        {
            let at = port.at(*address);
            if let Some(owned) = self.addresses.get_mut(&at) {
                owned.hide(&keeper, owner);
                new.extend(owned.settle(at, now));
                self.unshown += usize::from(owned.unshown_since.is_some());
            }
        }
        if !now_seen.is_empty() {
            self.by_port.insert(port.clone(), now_seen);
        }
        new
    }

    /// Forgets endpoints of these Services' unwatched ports. Returns the addresses that another namespace keeps now,
    /// with another owner.
    pub(super) fn retain(
        &mut self,
        services: &BTreeSet<ObjectName>,
        watched: impl Fn(&RoutedPort) -> bool,
        now: Timestamp,
    ) -> Vec<ChangedAddress> {
        let ports = services.iter().flat_map(|service| {
            let first = RoutedPort {
                service: service.clone(),
                port: String::new(),
                namespace: "".into(),
            };
            let ports = self.by_port.range(first..).map(|(port, _)| port);
            ports.take_while(move |port| port.service == *service)
        });
        let unwatched = ports.filter(|port| !watched(port));
        let unwatched: Vec<RoutedPort> = unwatched.cloned().collect();
        unwatched.iter().flat_map(|port| self.observe(port, &[], now)).collect()
    }

    pub(super) fn remember(&mut self, at: &RoutedAddress, owner: PodUid, now: Timestamp) {
        if let Entry::Vacant(vacant) = self.addresses.entry(at.clone()) {
            vacant.insert(AddressOwners {
                owners: vec![owner],
                unshown_since: Some(now),
                ..AddressOwners::default()
            });
            self.unshown += 1;
        }
    }

    /// Forgets addresses that were not shown for `life`: their sessions are over.
    pub(super) fn forget(&mut self, life: Duration, now: Timestamp) {
        let is_alive = |owned: &AddressOwners| owned.unshown_since.is_none_or(|left| now.since(left) < life);
        self.addresses.retain(|_, owned| {
            #[cfg(test)]
            crate::cluster::looked::at_one();
            is_alive(owned)
        });
        self.unshown = self
            .addresses
            .values()
            .filter(|owned| owned.unshown_since.is_some())
            .count();
    }

    /// The Services with an endpoint at one of these addresses, in its namespace.
    pub(super) fn services(&self, addresses: &BTreeSet<(Arc<str>, SocketAddr)>) -> BTreeSet<ObjectName> {
        let mut by_keeper: BTreeMap<&str, BTreeSet<SocketAddr>> = BTreeMap::new();
        for (keeper, address) in addresses {
            by_keeper.entry(keeper).or_default().insert(*address);
        }
        let mut services = BTreeSet::new();
        for (keeper, addresses) in by_keeper {
            let first = RoutedPort {
                service: ObjectName::new(keeper, ""),
                port: String::new(),
                namespace: "".into(),
            };
            let ports = self.by_port.range(first..);
            let ports = ports.take_while(|(port, _)| port.service.namespace == keeper);
            let with_any = ports.filter(|(_, seen)| {
                #[cfg(test)]
                crate::cluster::looked::at_one();
                // Searches for the fewer among the others.
                if seen.len() < addresses.len() {
                    seen.keys().any(|address| addresses.contains(address))
                } else {
                    addresses.iter().any(|address| seen.contains_key(address))
                }
            });
            services.extend(with_any.map(|(port, _)| port.service.clone()));
        }
        services
    }

    /// Forgets surplus addresses that no Service shows: the oldest of each namespace of routes above its share, and
    /// among these, of each namespace of Services. Returns whether any was.
    pub(super) fn make_room(&mut self) -> bool {
        // With slack, because a search for the oldest visits all addresses.
        if self.unshown <= MOST_LEFT + MOST_LEFT / 4 {
            return false;
        }
        let mut left: BTreeMap<&str, ByKeeper<'_>> = BTreeMap::new();
        for (at, owned) in &self.addresses {
            if let Some(since) = owned.unshown_since {
                let of_routes = left.entry(&at.namespace).or_default();
                of_routes.entry(owned.keeper.as_deref()).or_default().push((since, at));
            }
        }
        let sizes = left.values().map(|of_routes| of_routes.values().map(Vec::len).sum());
        let share = fair_share(sizes, MOST_LEFT);
        let excess = left.into_values().flat_map(|of_routes| beyond_share(of_routes, share));
        let excess: Vec<RoutedAddress> = excess.map(|(_, at)| at.clone()).collect();
        for at in &excess {
            self.addresses.remove(at);
        }
        self.unshown -= excess.len();
        true
    }

    pub(super) fn knows(&self, at: &RoutedAddress) -> bool {
        self.addresses.contains_key(at)
    }
}

impl RoutedPort {
    fn at(&self, address: SocketAddr) -> RoutedAddress {
        RoutedAddress {
            address,
            namespace: Arc::clone(&self.namespace),
        }
    }
}

impl Default for AddressOwners {
    fn default() -> Self {
        Self {
            shown: Vec::with_capacity(1),
            keeper: None,
            owners: Vec::new(),
            unshown_since: None,
        }
    }
}

impl AddressOwners {
    fn show(&mut self, keeper: &Arc<str>, owner: &PodUid) {
        match self.shown.iter_mut().find(|shown| shown.is(keeper, owner)) {
            Some(shown) => shown.ports += 1,
            None => self.shown.push(ShownOwner {
                keeper: Arc::clone(keeper),
                owner: Arc::clone(owner),
                ports: 1,
            }),
        }
    }

    fn hide(&mut self, keeper: &str, owner: &str) {
        if let Some(shown) = self.shown.iter_mut().find(|shown| shown.is(keeper, owner)) {
            shown.ports = shown.ports.saturating_sub(1);
        }
        self.shown.retain(|shown| shown.ports > 0);
    }

    /// Returns the address if it has a new owner.
    fn settle(&mut self, at: RoutedAddress, now: Timestamp) -> Option<ChangedAddress> {
        let Some(keeper) = self.keeper_now(&at.namespace) else {
            self.unshown_since.get_or_insert(now);
            return None;
        };
        let shown = self.shown.iter().filter(|shown| shown.keeper == keeper);
        let mut owners: Vec<PodUid> = shown.map(|shown| Arc::clone(&shown.owner)).collect();
        owners.sort_unstable();
        let is_new = |owner: &&PodUid| self.owners.binary_search(owner).is_err();
        let new = owners.iter().find(is_new).cloned();
        let new = new.filter(|_| !self.owners.is_empty());
        let same_keeper = self.keeper.as_ref().is_none_or(|former| *former == keeper);
        self.owners = owners;
        self.keeper = Some(Arc::clone(&keeper));
        self.unshown_since = None;
        new.map(|owner| ChangedAddress {
            at,
            owner,
            keeper,
            same_keeper,
        })
    }

    /// The namespace of the routes if it shows the address, else the present keeper.
    fn keeper_now(&self, routes: &Arc<str>) -> Option<Arc<str>> {
        let shows = |keeper: &Arc<str>| self.shown.iter().any(|shown| shown.keeper == *keeper);
        let first = self.shown.first().map(|shown| Arc::clone(&shown.keeper));
        let known = [Some(routes), self.keeper.as_ref()].into_iter().flatten();
        known.filter(|keeper| shows(keeper)).map(Arc::clone).next().or(first)
    }
}

impl ShownOwner {
    fn is(&self, keeper: &str, owner: &str) -> bool {
        *self.keeper == *keeper && *self.owner == *owner
    }
}
