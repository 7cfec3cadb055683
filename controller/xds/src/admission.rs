//! Which connections get a place. Authenticated ones are counted apart, so that a client without a certificate cannot
//! take an Envoy's place, nor a client with one the place of another Gateway's Envoy.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::sleep_until;

use super::limits::RequestPace;
use super::peer::{ConnectionOwner, Origin, Peer};
use super::snapshots::lock;

/// Handshakes under way, of all addresses: each costs a descriptor and some kilobytes.
const HANDSHAKES: usize = 512;
/// Handshakes under way from one address, which several Envoys may have.
const HANDSHAKES_OF_ORIGIN: usize = 64;
/// Authenticated addresses that are remembered.
const REMEMBERED: usize = 1024;
const CONNECTIONS: usize = 4096;
const CONNECTIONS_OF_ORIGIN: usize = 256;
/// Large reports that are received at once of one group of owners.
const TURNS_OF_GROUP: usize = 4;
/// Memory of names that streams of one owner from one address ask for, and of the hosts in its load reports.
const NAMES_OF_ORIGIN: usize = 128 << 20;

/// Places of connections that have still to show what they want, such as handshakes. A new one always gets a place: if
/// there is none, the oldest of the address that has most gives way, unknown addresses before known ones. A genuine
/// client needs its place for milliseconds only. Clones are handles of the same.
#[derive(Debug, Clone)]
pub struct Admission {
    all: usize,
    of_origin: usize,
    table: Arc<Mutex<AdmissionTable>>,
}

#[derive(Debug, Default)]
struct AdmissionTable {
    next: u64,
    under_way: BTreeMap<Origin, BTreeMap<u64, oneshot::Sender<()>>>,
    /// Addresses with places; the last one gives way first.
    ranked: BTreeSet<(OriginRank, Origin)>,
    count: usize,
    /// Addresses that go before others, with the number of `next` at the last [`Admission::prefer`].
    preferred: BTreeMap<Origin, u64>,
    by_age: BTreeMap<u64, Origin>,
}

/// Whether an address is unknown, how many places it has, and the oldest of them.
type OriginRank = (bool, usize, Option<Reverse<u64>>);

/// A place, until it is dropped.
#[derive(Debug)]
pub struct AdmissionPermit {
    table: Arc<Mutex<AdmissionTable>>,
    origin: Origin,
    number: u64,
    displaced: oneshot::Receiver<()>,
}

impl Admission {
    /// Creates this many places of all addresses, and of one.
    #[must_use]
    pub fn new(all: usize, of_origin: usize) -> Self {
        Self {
            all,
            of_origin,
            table: Arc::default(),
        }
    }

    pub(super) fn of_handshakes() -> Self {
        Self::new(HANDSHAKES, HANDSHAKES_OF_ORIGIN)
    }

    /// Lets this address go before unknown ones. The last thousand are remembered.
    pub fn prefer(&self, origin: Origin) {
        lock(&self.table).remember(origin);
    }

    /// Takes a place.
    #[must_use]
    pub fn begin(&self, origin: Origin) -> AdmissionPermit {
        let mut table = lock(&self.table);
        let number = table.next();
        let (place, displaced) = oneshot::channel();
        let own = table.change(origin, |places| {
            places.insert(number, place);
        });
        table.count += 1;
        if own > self.of_origin {
            table.displace(origin);
        } else if table.count > self.all
            && let Some(origin) = table.heaviest()
        {
            table.displace(origin);
        }
        drop(table);
        AdmissionPermit {
            table: Arc::clone(&self.table),
            origin,
            number,
            displaced,
        }
    }
}

impl AdmissionTable {
    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn heaviest(&self) -> Option<Origin> {
        self.ranked.last().map(|(_, origin)| *origin)
    }

    fn rank(&self, origin: Origin) -> Option<OriginRank> {
        let places = self.under_way.get(&origin)?;
        let oldest = places.keys().next().copied();
        Some((!self.preferred.contains_key(&origin), places.len(), oldest.map(Reverse)))
    }

    fn ranked(&mut self, origin: Origin, change: impl FnOnce(&mut Self)) {
        if let Some(rank) = self.rank(origin) {
            self.ranked.remove(&(rank, origin));
        }
        change(self);
        if let Some(rank) = self.rank(origin) {
            self.ranked.insert((rank, origin));
        }
    }

    /// Changes the places of an address; returns how many it has then.
    fn change(&mut self, origin: Origin, change: impl FnOnce(&mut BTreeMap<u64, oneshot::Sender<()>>)) -> usize {
        let mut left = 0;
        self.ranked(origin, |table| {
            let places = table.under_way.entry(origin).or_default();
            change(places);
            left = places.len();
            if left == 0 {
                table.under_way.remove(&origin);
            }
        });
        left
    }

    /// Takes the oldest place of an address away: its receiver learns that the sender is gone.
    fn displace(&mut self, origin: Origin) {
        let oldest = self.under_way.get(&origin).and_then(|places| places.keys().next());
        if let Some(number) = oldest.copied() {
            self.remove(origin, number);
        }
    }

    fn remove(&mut self, origin: Origin, number: u64) {
        let mut is_gone = false;
        self.change(origin, |places| is_gone = places.remove(&number).is_some());
        self.count -= usize::from(is_gone);
    }

    fn remember(&mut self, origin: Origin) {
        let now = self.next();
        self.ranked(origin, |table| {
            if let Some(before) = table.preferred.insert(origin, now) {
                table.by_age.remove(&before);
            }
            table.by_age.insert(now, origin);
        });
        if self.preferred.len() > REMEMBERED
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.ranked(oldest, |table| {
                table.preferred.remove(&oldest);
            });
        }
    }
}

impl AdmissionPermit {
    /// Waits until another connection has the place.
    pub async fn displaced(&mut self) {
        // The sender sends nothing; it is dropped.
        let _ = (&mut self.displaced).await;
    }

    pub(super) fn succeeded(self) {
        lock(&self.table).remember(self.origin);
    }
}

impl Drop for AdmissionPermit {
    fn drop(&mut self) {
        lock(&self.table).remove(self.origin, self.number);
    }
}

/// Connections that are served. Where no place is left, the group with most of them gives way to one that has fewer,
/// and in a group the owner with most of them.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionAdmission(Arc<Mutex<ConnectionTable>>);

#[derive(Debug, Default)]
struct ConnectionTable {
    next: u64,
    count: usize,
    owners: BTreeMap<ConnectionOwner, BTreeMap<u64, AdmittedConnection>>,
    /// Usage of all connections, also of those that have given way and are ending.
    usage: BTreeMap<OwnerOrigin, OwnerUsage>,
    groups: BTreeMap<ConnectionOwner, GroupUsage>,
}

type OwnerOrigin = (Origin, ConnectionOwner);

#[derive(Debug)]
struct GroupUsage {
    connections: usize,
    /// Turns to send something large that all groups wait for.
    turns: Arc<Semaphore>,
}

impl Default for GroupUsage {
    fn default() -> Self {
        Self {
            connections: 0,
            turns: Arc::new(Semaphore::new(TURNS_OF_GROUP)),
        }
    }
}

#[derive(Debug)]
struct AdmittedConnection {
    origin: Origin,
    _place: oneshot::Sender<()>,
}

#[derive(Debug)]
struct OwnerUsage {
    connections: usize,
    /// The memory of names that its streams ask for, and of the hosts that they report.
    names: usize,
    /// The turn to send a large request.
    turn: Arc<Semaphore>,
    report_turn: Arc<Semaphore>,
    /// The pace of its reports.
    pace: RequestPace,
}

impl Default for OwnerUsage {
    fn default() -> Self {
        Self {
            connections: 0,
            names: 0,
            turn: Arc::new(Semaphore::new(1)),
            report_turn: Arc::new(Semaphore::new(1)),
            pace: RequestPace::new(Instant::now()),
        }
    }
}

#[derive(Debug)]
pub(super) struct ConnectionPermit {
    served: Arc<Mutex<ConnectionTable>>,
    source: OwnerOrigin,
    number: u64,
}

/// Closed once another connection has the place.
pub(super) type DisplacementSignal = oneshot::Receiver<()>;

impl ConnectionAdmission {
    /// `None` if there are too many, and no other owner has more of them.
    pub(super) fn enter(&self, peer: &Peer) -> Option<(Arc<ConnectionPermit>, DisplacementSignal)> {
        let (origin, owner) = (Origin::from(peer.address), ConnectionOwner::from(peer));
        let mut served = lock(&self.0);
        let of_origin = |each: &Origin| *each == origin;
        if !served.make_room(&owner, CONNECTIONS_OF_ORIGIN, of_origin)
            || !served.make_room(&owner, CONNECTIONS, |_| true)
        {
            return None;
        }
        let (place, displaced) = oneshot::channel();
        let number = served.next;
        served.next += 1;
        served.count += 1;
        let entry = served.owners.entry(owner.clone()).or_default();
        entry.insert(number, AdmittedConnection { origin, _place: place });
        served.groups.entry(owner.group()).or_default().connections += 1;
        let source = (origin, owner);
        served.usage.entry(source.clone()).or_default().connections += 1;
        drop(served);
        let place = ConnectionPermit {
            served: Arc::clone(&self.0),
            source,
            number,
        };
        Some((Arc::new(place), displaced))
    }
}

impl ConnectionTable {
    /// Makes room for one more connection among at most `limit` from these addresses; returns whether there is room.
    /// All places are looked at only where all are taken.
    fn make_room(&mut self, owner: &ConnectionOwner, limit: usize, from: impl Fn(&Origin) -> bool) -> bool {
        if self.count < limit {
            return true;
        }
        let here = |entered: &&AdmittedConnection| from(&entered.origin);
        let counts = self.owners.iter();
        let counts = counts.map(|(owner, places)| (places.values().filter(here).count(), owner));
        let counts: Vec<(usize, &ConnectionOwner)> = counts.collect();
        if counts.iter().map(|(count, _)| count).sum::<usize>() < limit {
            return true;
        }
        let mut groups: BTreeMap<ConnectionOwner, usize> = BTreeMap::new();
        for (count, each) in &counts {
            *groups.entry(each.group()).or_default() += count;
        }
        let own_group = owner.group();
        let of_own_group = groups.get(&own_group).copied().unwrap_or_default();
        let heaviest_group = groups.into_iter().max_by_key(|(_, count)| *count);
        // If both have as many afterwards, they would take turns for ever.
        let other_group = heaviest_group.filter(|(_, most)| *most > of_own_group + 1);
        let own = counts.iter().find(|(_, each)| *each == owner);
        let own = own.map_or(0, |(count, _)| *count);
        let (group, fewest) = match other_group {
            Some((group, _)) => (group, 0),
            None => (own_group, own + 1),
        };
        let of_group = counts.into_iter().filter(|(_, each)| each.group() == group);
        let Some((_, heaviest)) = of_group.max().filter(|(most, _)| *most > fewest) else {
            return false;
        };
        let heaviest = heaviest.clone();
        let mut oldest = self.owners.get(&heaviest).into_iter().flatten();
        let Some(number) = oldest
            .find(|(_, entered)| from(&entered.origin))
            .map(|(number, _)| *number)
        else {
            return false;
        };
        self.leave(&heaviest, number);
        true
    }

    fn leave(&mut self, owner: &ConnectionOwner, number: u64) {
        let Some(entry) = self.owners.get_mut(owner) else {
            return;
        };
        self.count -= usize::from(entry.remove(&number).is_some());
        if entry.is_empty() {
            self.owners.remove(owner);
        }
    }

    fn usage(&mut self, source: &OwnerOrigin) -> &mut OwnerUsage {
        self.usage.entry(source.clone()).or_default()
    }
}

impl ConnectionPermit {
    /// The turn to send a large request, shared by the owner's connections from the address.
    pub(super) fn turn(&self) -> Arc<Semaphore> {
        Arc::clone(&lock(&self.served).usage(&self.source).turn)
    }

    /// Turns to send something large, shared by the connections of the owner's group.
    pub(super) fn turns_of_group(&self) -> Arc<Semaphore> {
        let mut served = lock(&self.served);
        Arc::clone(&served.groups.entry(self.source.1.group()).or_default().turns)
    }

    /// The turn to send a report of sessions, shared by the owner's connections from the address.
    pub(super) fn report_turn(&self) -> Arc<Semaphore> {
        Arc::clone(&lock(&self.served).usage(&self.source).report_turn)
    }

    pub(super) fn spend_report(&self, bytes: usize) {
        let mut served = lock(&self.served);
        served.usage(&self.source).pace.spend_report(bytes, Instant::now());
    }

    pub(super) async fn pace(&self) {
        let next = || {
            let served = lock(&self.served);
            served.usage.get(&self.source)?.pace.next(Instant::now())
        };
        while let Some(next) = next() {
            sleep_until(next.into()).await;
        }
    }

    /// Counts the memory of a stream's names; returns whether the owner may have as much from the address.
    fn change(&self, before: usize, now: usize) -> bool {
        let mut served = lock(&self.served);
        let usage = served.usage(&self.source);
        usage.names = usage.names.saturating_sub(before).saturating_add(now);
        usage.names <= NAMES_OF_ORIGIN
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut served = lock(&self.served);
        served.leave(&self.source.1, self.number);
        if let Some(usage) = served.usage.get_mut(&self.source) {
            usage.connections -= 1;
            if usage.connections == 0 {
                served.usage.remove(&self.source);
            }
        }
        let group = self.source.1.group();
        if let Some(of_group) = served.groups.get_mut(&group) {
            of_group.connections -= 1;
            if of_group.connections == 0 {
                served.groups.remove(&group);
            }
        }
    }
}

/// The memory of the names that one stream asks for, until it is dropped.
#[derive(Debug)]
pub(super) struct NamesPermit {
    place: Arc<ConnectionPermit>,
    names: usize,
}

impl NamesPermit {
    pub(super) fn new(place: Arc<ConnectionPermit>) -> Self {
        Self { place, names: 0 }
    }

    /// Returns whether the stream's owner may have as much from its address.
    pub(super) fn set(&mut self, names: usize) -> bool {
        let before = std::mem::replace(&mut self.names, names);
        self.place.change(before, names)
    }
}

impl Drop for NamesPermit {
    fn drop(&mut self) {
        self.place.change(self.names, 0);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::peer::CertificateIdentity;
    use crate::validity::Validity;

    fn origin(number: usize) -> Origin {
        let [.., high, low] = number.to_be_bytes();
        SocketAddr::from(([10, 0, high, low], 1)).into()
    }

    fn is_displaced(handshake: &mut AdmissionPermit) -> bool {
        handshake.displaced.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn the_oldest_handshake_of_an_address_gives_way() {
        let handshakes = Admission::of_handshakes();
        let mut other = handshakes.begin(origin(1));
        let mut many: Vec<_> = (0..=HANDSHAKES_OF_ORIGIN)
            .map(|_| handshakes.begin(origin(2)))
            .collect();
        let displaced: Vec<_> = many.iter_mut().map(is_displaced).collect();
        assert!(displaced[0]);
        assert!(!displaced[1..].contains(&true));
        assert!(!is_displaced(&mut other));
        many.truncate(HANDSHAKES_OF_ORIGIN - 1);
        let mut next = handshakes.begin(origin(2));
        assert!(!is_displaced(&mut next) && !is_displaced(&mut many[1]));
        drop((many, next, other));
        assert_eq!(lock(&handshakes.table).count, 0);
        assert!(lock(&handshakes.table).under_way.is_empty());
    }

    #[test]
    fn who_has_most_handshakes_gives_way_to_others() {
        let handshakes = Admission::of_handshakes();
        let mut greedy: Vec<_> = (0..3).map(|_| handshakes.begin(origin(1))).collect();
        let mut others: Vec<_> = (3..HANDSHAKES).map(|number| handshakes.begin(origin(number))).collect();
        let mut late = handshakes.begin(origin(2));
        assert!(is_displaced(&mut greedy[0]));
        assert!(!others.iter_mut().any(is_displaced) && !is_displaced(&mut late));
    }

    #[test]
    fn an_address_that_has_authenticated_goes_before() {
        let handshakes = Admission::of_handshakes();
        handshakes.begin(origin(1)).succeeded();
        let mut known: Vec<_> = (0..3).map(|_| handshakes.begin(origin(1))).collect();
        let mut others: Vec<_> = (3..=HANDSHAKES)
            .map(|number| handshakes.begin(origin(number)))
            .collect();
        assert!(!known.iter_mut().any(is_displaced));
        assert!(is_displaced(&mut others[0]));
        assert_eq!(
            others
                .iter_mut()
                .filter_map(|each| is_displaced(each).then_some(()))
                .count(),
            1
        );
    }

    /// Takes seconds: after each of 20,000 changes all addresses are looked at to compare.
    #[test]
    fn ranks_follow_every_change() {
        let handshakes = Admission::of_handshakes();
        let mut under_way: Vec<AdmissionPermit> = Vec::new();
        let mut state = 1_u64;
        for turn in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = usize::try_from(state >> 33).unwrap();
            let of = if turn % 3 == 0 { 2 * REMEMBERED } else { 50 };
            if number % 7 < 4 {
                under_way.push(handshakes.begin(origin(number % of)));
            } else if !under_way.is_empty() {
                let handshake = under_way.swap_remove(number % under_way.len());
                if number % 2 == 0 {
                    handshake.succeeded();
                }
            }
            let table = lock(&handshakes.table);
            let all: BTreeSet<_> = table
                .under_way
                .keys()
                .map(|origin| (table.rank(*origin).unwrap(), *origin))
                .collect();
            assert_eq!(table.ranked, all);
            assert!(table.count <= HANDSHAKES && table.preferred.len() <= REMEMBERED);
            assert_eq!(table.preferred.len(), table.by_age.len());
        }
        drop(under_way);
        assert!(lock(&handshakes.table).ranked.is_empty());
    }

    pub(crate) fn peer(number: usize, name: &str) -> Peer {
        let [.., high, low] = number.to_be_bytes();
        let begins = std::time::SystemTime::UNIX_EPOCH;
        Peer {
            address: SocketAddr::from(([10, 0, high, low], 1)),
            identity: Some(CertificateIdentity {
                subject: String::new(),
                uris: vec![name.to_owned()],
                dns_names: Vec::new(),
                validity: Validity { begins, ends: begins },
            }),
        }
    }

    fn gave_way(places: &mut [(Arc<ConnectionPermit>, DisplacementSignal)]) -> Vec<usize> {
        let gone = |(_, displaced): &mut (_, DisplacementSignal)| {
            displaced.try_recv() == Err(oneshot::error::TryRecvError::Closed)
        };
        (0..places.len()).filter(|index| gone(&mut places[*index])).collect()
    }

    #[test]
    fn connections_of_one_gateway_kept_out_the_envoys_of_another() {
        let addresses = CONNECTIONS / CONNECTIONS_OF_ORIGIN;
        let connections = ConnectionAdmission::default();
        let enter = |number: usize| connections.enter(&peer(number % addresses, "greedy"));
        let mut greedy: Vec<_> = (0..CONNECTIONS).map(|number| enter(number).unwrap()).collect();
        let enter = |number: usize| connections.enter(&peer(addresses + number, "modest"));
        let mut modest: Vec<_> = (0..CONNECTIONS / 2).map(|number| enter(number).unwrap()).collect();
        let expected: Vec<_> = (0..CONNECTIONS / 2).collect();
        assert_eq!(gave_way(&mut greedy), expected, "the oldest of the owner with most");
        assert_eq!(gave_way(&mut modest), [0; 0]);
        assert!(connections.enter(&peer(1, "greedy")).is_none() && enter(0).is_none());
        assert!(connections.enter(&peer(1, "third")).is_some());
        drop((greedy, modest));
        let served = lock(&connections.0);
        assert_eq!((served.count, served.owners.len(), served.usage.len()), (0, 0, 0));
    }

    #[test]
    fn connections_of_many_gateways_in_one_namespace_kept_out_those_of_another() {
        let name = |namespace: &str, gateway: usize| format!("spiffe://limpet.dev/gateway/{namespace}/{gateway}");
        // At one address, with a connection for each Gateway.
        let connections = ConnectionAdmission::default();
        let enter = |name: &str| connections.enter(&peer(1, name));
        let mut modest: Vec<_> = (0..100).map(|_| enter(&name("shop", 1)).unwrap()).collect();
        let greedy: Vec<_> = (0..2 * CONNECTIONS_OF_ORIGIN)
            .map(|gateway| enter(&name("greedy", gateway)))
            .collect();
        assert_eq!(greedy.iter().flatten().count(), CONNECTIONS_OF_ORIGIN - 100);
        assert_eq!(gave_way(&mut modest), [0; 0]);
        assert!(enter(&name("third", 1)).is_some());
        // At many addresses, with fewer for each Gateway than another one has.
        let connections = ConnectionAdmission::default();
        let enter = |number: usize, name: &str| connections.enter(&peer(number, name));
        let mut modest: Vec<_> = (0..300)
            .map(|number| enter(1000 + number, &name("shop", 1)).unwrap())
            .collect();
        let greedy = |number: usize| enter(number / 250, &name("greedy", number % 20));
        let mut kept: Vec<_> = (0..CONNECTIONS).filter_map(greedy).collect();
        kept.drain(..100);
        kept.extend((0..200).filter_map(greedy));
        assert_eq!(gave_way(&mut modest), [0; 0]);
        assert!(enter(2000, &name("shop", 1)).is_some());
    }

    #[test]
    fn addresses_have_places_of_their_own() {
        let connections = ConnectionAdmission::default();
        let mut places: Vec<_> = (0..CONNECTIONS_OF_ORIGIN)
            .map(|_| connections.enter(&peer(1, "web")).unwrap())
            .collect();
        assert!(connections.enter(&peer(1, "web")).is_none());
        let mut others = [connections.enter(&peer(2, "web")).unwrap()];
        let neighbour = connections.enter(&peer(1, "neighbour")).unwrap();
        assert_eq!((gave_way(&mut places), gave_way(&mut others)), (vec![0], vec![]));
        places.pop();
        assert!(connections.enter(&peer(1, "web")).is_some());
        drop((places, others, neighbour));
        let served = lock(&connections.0);
        assert_eq!((served.count, served.usage.len(), served.groups.len()), (0, 0, 0));
    }

    #[test]
    fn streams_of_an_address_share_memory_for_names() {
        let connections = ConnectionAdmission::default();
        let (place, _) = connections.enter(&peer(1, "web")).unwrap();
        let [mut one, mut two] = [(); 2].map(|()| NamesPermit::new(Arc::clone(&place)));
        assert!(one.set(NAMES_OF_ORIGIN));
        assert!(!two.set(1));
        assert!(one.set(NAMES_OF_ORIGIN - 1));
        drop(one);
        assert!(two.set(NAMES_OF_ORIGIN));
        for elsewhere in [peer(2, "web"), peer(1, "neighbour")] {
            let (place, _) = connections.enter(&elsewhere).unwrap();
            assert!(NamesPermit::new(place).set(NAMES_OF_ORIGIN));
        }
    }
}
