//! The owners of addresses.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use limpet_api::ObjectName;
use limpet_core::time::Timestamp;
use limpet_model::endpoints::Endpoint;

/// The uid of a pod. A pod whose containers restart keeps it.
pub(super) type Owner = Arc<str>;

/// A Service and the name of its port.
type NamedPort = (ObjectName, String);

/// The owners of addresses. An address includes the port: pods in the network of their node share the IP address.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// The owners by the ports that have them as endpoints.
    seen: BTreeMap<NamedPort, BTreeMap<SocketAddr, Owner>>,
    addresses: HashMap<SocketAddr, Owned>,
}

/// The owners of an address. There may be several while EndpointSlices are updated one by one. An address without an
/// owner keeps its last one.
#[derive(Debug)]
struct Owned {
    /// Each with the number of ports that have it as an endpoint.
    by: Vec<(Owner, usize)>,
    /// Since when it has no owner.
    left: Option<Timestamp>,
}

impl Owners {
    /// Takes in the endpoints of a port. Returns the addresses with a new owner. Endpoints without an owner are
    /// ignored.
    pub(super) fn see(&mut self, port: NamedPort, endpoints: &[Endpoint], now: Timestamp) -> Vec<(SocketAddr, Owner)> {
        let now_seen: BTreeMap<SocketAddr, Owner> = endpoints
            .iter()
            .filter_map(|endpoint| Some((endpoint.address, endpoint.owner.clone()?)))
            .collect();
        if self.seen.get(&port).is_some_and(|seen| *seen == now_seen) {
            return Vec::new();
        }
        let mut new = Vec::new();
        // New owners come before old ones go, so that it is known whom they follow.
        for (address, owner) in &now_seen {
            if self.come(*address, owner) {
                new.push((*address, Arc::clone(owner)));
            }
        }
        let before = if now_seen.is_empty() {
            self.seen.remove(&port)
        } else {
            self.seen.insert(port, now_seen)
        };
        for (address, owner) in before.unwrap_or_default() {
            self.go(address, &owner, now);
        }
        new
    }

    /// Forgets the endpoints of ports that are not watched any more.
    pub(super) fn retain(&mut self, watched: impl Fn(&ObjectName, &str) -> bool, now: Timestamp) {
        let unwatched = self.seen.keys().filter(|(service, port)| !watched(service, port));
        for port in unwatched.cloned().collect::<Vec<_>>() {
            self.see(port, &[], now);
        }
    }

    /// Sets the last owner of an address, unless a newer one is known.
    pub(super) fn remember(&mut self, address: SocketAddr, owner: Owner, now: Timestamp) {
        self.addresses.entry(address).or_insert_with(|| Owned {
            by: vec![(owner, 0)],
            left: Some(now),
        });
    }

    /// Forgets addresses that have had no owner for the time `life`: no session of theirs is alive.
    pub(super) fn forget(&mut self, life: Duration, now: Timestamp) {
        let is_alive = |owned: &Owned| owned.left.is_none_or(|left| now.since(left) < life);
        self.addresses.retain(|_, owned| is_alive(owned));
    }

    /// The Services with an endpoint at this address.
    pub(super) fn services(&self, address: SocketAddr) -> impl Iterator<Item = &ObjectName> {
        let shows = move |seen: &BTreeMap<SocketAddr, Owner>| seen.contains_key(&address);
        let places = self.seen.iter().filter(move |(_, seen)| shows(seen));
        places.map(|((service, _), _)| service)
    }

    /// Returns whether another owner had the address before.
    fn come(&mut self, address: SocketAddr, owner: &Owner) -> bool {
        let known = self.addresses.entry(address).or_insert_with(|| Owned {
            by: Vec::with_capacity(1),
            left: None,
        });
        known.left = None;
        if let Some((_, places)) = known.by.iter_mut().find(|(known, _)| known == owner) {
            *places += 1;
            return false;
        }
        let follows = !known.by.is_empty();
        known.by.retain(|(_, places)| *places > 0);
        known.by.push((Arc::clone(owner), 1));
        follows
    }

    fn go(&mut self, address: SocketAddr, owner: &Owner, now: Timestamp) {
        let Some(known) = self.addresses.get_mut(&address) else {
            return;
        };
        for (known, places) in &mut known.by {
            if known == owner {
                *places = places.saturating_sub(1);
            }
        }
        if known.by.iter().any(|(_, places)| *places > 0) {
            known.by.retain(|(_, places)| *places > 0);
        } else {
            // The last owner stays.
            known.left = Some(now);
        }
    }
}
