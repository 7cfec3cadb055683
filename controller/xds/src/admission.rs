//! Which connections get a place. Those that have authenticated are counted apart from those that have not yet, so
//! that nobody without a certificate can take the place of an Envoy.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::sync::{Semaphore, oneshot};

use super::peer::Origin;
use super::snapshots::lock;

/// The limit of handshakes under way, of all addresses. Each costs a descriptor and some kilobytes.
const HANDSHAKES: usize = 512;
/// The limit of handshakes under way from one address. Several Envoys may come from one address.
const HANDSHAKES_OF_ORIGIN: usize = 64;
/// How many addresses that have authenticated are remembered.
const REMEMBERED: usize = 1024;
/// The limit of connections, of all addresses.
const CONNECTIONS: usize = 4096;
/// The limit of connections from one address.
const CONNECTIONS_OF_ORIGIN: usize = 256;
/// The memory that names which streams of one address ask for may take.
const NAMES_OF_ORIGIN: usize = 128 << 20;

/// The handshakes under way. A new one always gets a place. If there is none, another gives way: the oldest of the
/// address that has most, before those of addresses that have authenticated before. A genuine handshake takes
/// milliseconds, so what gives way is one that does not go on.
#[derive(Debug, Clone, Default)]
pub(super) struct Handshakes(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    next: u64,
    under_way: BTreeMap<Origin, BTreeMap<u64, oneshot::Sender<()>>>,
    count: usize,
    /// The addresses that have authenticated, the last one last.
    known: VecDeque<Origin>,
}

/// A handshake's place, until it is dropped.
#[derive(Debug)]
pub(super) struct Handshake {
    table: Arc<Mutex<Table>>,
    origin: Origin,
    number: u64,
    displaced: oneshot::Receiver<()>,
}

impl Handshakes {
    pub(super) fn begin(&self, origin: Origin) -> Handshake {
        let mut table = lock(&self.0);
        let number = table.next;
        table.next += 1;
        let (place, displaced) = oneshot::channel();
        let own = table.under_way.entry(origin).or_default();
        own.insert(number, place);
        let own = own.len();
        table.count += 1;
        if own > HANDSHAKES_OF_ORIGIN {
            table.displace(origin);
        } else if table.count > HANDSHAKES
            && let Some(origin) = table.heaviest()
        {
            table.displace(origin);
        }
        drop(table);
        Handshake {
            table: Arc::clone(&self.0),
            origin,
            number,
            displaced,
        }
    }
}

impl Table {
    /// The address that has to give way.
    fn heaviest(&self) -> Option<Origin> {
        let key = |(origin, places): &(&Origin, &BTreeMap<u64, oneshot::Sender<()>>)| {
            let oldest = places.keys().next().copied();
            (!self.known.contains(origin), places.len(), Reverse(oldest))
        };
        self.under_way.iter().max_by_key(key).map(|(origin, _)| *origin)
    }

    /// Ends the oldest handshake of this address: the receiver learns that the sender is gone.
    fn displace(&mut self, origin: Origin) {
        let oldest = self.under_way.get(&origin).and_then(|places| places.keys().next());
        if let Some(number) = oldest.copied() {
            self.remove(origin, number);
        }
    }

    fn remove(&mut self, origin: Origin, number: u64) {
        let Some(places) = self.under_way.get_mut(&origin) else {
            return;
        };
        if places.remove(&number).is_some() {
            self.count -= 1;
        }
        if places.is_empty() {
            self.under_way.remove(&origin);
        }
    }

    fn remember(&mut self, origin: Origin) {
        self.known.retain(|known| *known != origin);
        self.known.push_back(origin);
        if self.known.len() > REMEMBERED {
            self.known.pop_front();
        }
    }
}

impl Handshake {
    /// Waits until the handshake has to give way.
    pub(super) async fn displaced(&mut self) {
        // The sender sends nothing; it is dropped.
        let _ = (&mut self.displaced).await;
    }

    /// The handshake has succeeded.
    pub(super) fn succeeded(self) {
        lock(&self.table).remember(self.origin);
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        lock(&self.table).remove(self.origin, self.number);
    }
}

/// The connections that are served, by address.
#[derive(Debug, Clone, Default)]
pub(super) struct Connections(Arc<Mutex<Served>>);

#[derive(Debug, Default)]
struct Served {
    count: usize,
    by_origin: BTreeMap<Origin, Usage>,
}

#[derive(Debug)]
struct Usage {
    connections: usize,
    /// The memory of the names that its streams ask for.
    names: usize,
    /// Whose turn it is to send a large request.
    turn: Arc<Semaphore>,
}

impl Default for Usage {
    fn default() -> Self {
        Self {
            connections: 0,
            names: 0,
            turn: Arc::new(Semaphore::new(1)),
        }
    }
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    served: Arc<Mutex<Served>>,
    origin: Origin,
}

impl Connections {
    /// `None` if there are too many.
    pub(super) fn enter(&self, origin: Origin) -> Option<Arc<Place>> {
        let mut served = lock(&self.0);
        let own = served.by_origin.get(&origin).map_or(0, |usage| usage.connections);
        if served.count >= CONNECTIONS || own >= CONNECTIONS_OF_ORIGIN {
            return None;
        }
        served.count += 1;
        served.by_origin.entry(origin).or_default().connections += 1;
        drop(served);
        Some(Arc::new(Place {
            served: Arc::clone(&self.0),
            origin,
        }))
    }
}

impl Place {
    /// Whose turn it is to send a large request, of all connections of the address.
    pub(super) fn turn(&self) -> Arc<Semaphore> {
        let mut served = lock(&self.served);
        Arc::clone(&served.by_origin.entry(self.origin).or_default().turn)
    }

    /// Counts the memory of names that a stream asks for, which was `before` and is `now`. Returns whether the address
    /// may have as much.
    fn change(&self, before: usize, now: usize) -> bool {
        let mut served = lock(&self.served);
        let usage = served.by_origin.entry(self.origin).or_default();
        usage.names = usage.names.saturating_sub(before).saturating_add(now);
        usage.names <= NAMES_OF_ORIGIN
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut served = lock(&self.served);
        served.count -= 1;
        if let Some(usage) = served.by_origin.get_mut(&self.origin) {
            usage.connections -= 1;
            if usage.connections == 0 {
                served.by_origin.remove(&self.origin);
            }
        }
    }
}

/// The memory of the names that one stream asks for, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    place: Arc<Place>,
    names: usize,
}

impl Share {
    pub(super) fn new(place: Arc<Place>) -> Self {
        Self { place, names: 0 }
    }

    /// Returns whether the stream's address may have as much.
    pub(super) fn set(&mut self, names: usize) -> bool {
        let before = std::mem::replace(&mut self.names, names);
        self.place.change(before, names)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.place.change(self.names, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn origin(number: usize) -> Origin {
        let [.., high, low] = number.to_be_bytes();
        SocketAddr::from(([10, 0, high, low], 1)).into()
    }

    fn is_displaced(handshake: &mut Handshake) -> bool {
        handshake.displaced.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn the_oldest_handshake_of_an_address_gives_way() {
        let handshakes = Handshakes::default();
        let mut other = handshakes.begin(origin(1));
        let mut many: Vec<_> = (0..=HANDSHAKES_OF_ORIGIN)
            .map(|_| handshakes.begin(origin(2)))
            .collect();
        let displaced: Vec<_> = many.iter_mut().map(is_displaced).collect();
        assert!(displaced[0]);
        assert!(!displaced[1..].contains(&true));
        assert!(!is_displaced(&mut other));
        // A place that is free again is used again.
        many.truncate(HANDSHAKES_OF_ORIGIN - 1);
        let mut next = handshakes.begin(origin(2));
        assert!(!is_displaced(&mut next) && !is_displaced(&mut many[1]));
        drop((many, next, other));
        assert_eq!(lock(&handshakes.0).count, 0);
        assert!(lock(&handshakes.0).under_way.is_empty());
    }

    #[test]
    fn who_has_most_handshakes_gives_way_to_others() {
        let handshakes = Handshakes::default();
        let mut greedy: Vec<_> = (0..3).map(|_| handshakes.begin(origin(1))).collect();
        let mut others: Vec<_> = (3..HANDSHAKES).map(|number| handshakes.begin(origin(number))).collect();
        let mut late = handshakes.begin(origin(2));
        assert!(is_displaced(&mut greedy[0]));
        assert!(!others.iter_mut().any(is_displaced) && !is_displaced(&mut late));
    }

    #[test]
    fn an_address_that_has_authenticated_goes_before() {
        let handshakes = Handshakes::default();
        handshakes.begin(origin(1)).succeeded();
        let mut known: Vec<_> = (0..3).map(|_| handshakes.begin(origin(1))).collect();
        let mut others: Vec<_> = (3..=HANDSHAKES)
            .map(|number| handshakes.begin(origin(number)))
            .collect();
        assert!(!known.iter_mut().any(is_displaced));
        // Of those that have one each, the oldest.
        assert!(is_displaced(&mut others[0]));
        assert_eq!(
            others
                .iter_mut()
                .filter_map(|each| is_displaced(each).then_some(()))
                .count(),
            1
        );
    }

    #[test]
    fn addresses_have_places_of_their_own() {
        let connections = Connections::default();
        let mut places: Vec<_> = (0..CONNECTIONS_OF_ORIGIN)
            .map(|_| connections.enter(origin(1)).unwrap())
            .collect();
        assert!(connections.enter(origin(1)).is_none());
        let other = connections.enter(origin(2)).unwrap();
        places.pop();
        assert!(connections.enter(origin(1)).is_some());
        drop((places, other));
        assert_eq!(lock(&connections.0).count, 0);
        assert!(lock(&connections.0).by_origin.is_empty());
    }

    #[test]
    fn streams_of_an_address_share_memory_for_names() {
        let connections = Connections::default();
        let place = connections.enter(origin(1)).unwrap();
        let [mut one, mut two] = [(); 2].map(|()| Share::new(Arc::clone(&place)));
        assert!(one.set(NAMES_OF_ORIGIN));
        assert!(!two.set(1));
        assert!(one.set(NAMES_OF_ORIGIN - 1));
        drop(one);
        assert!(two.set(NAMES_OF_ORIGIN));
        let mut elsewhere = Share::new(connections.enter(origin(2)).unwrap());
        assert!(elsewhere.set(NAMES_OF_ORIGIN));
    }
}
