//! Entries in a memory that keeps bytes by name and never gives them back.
//!
//! The number of names is fixed. Of the entries of a name, the least recently used goes first.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::{EntryKey, SourceRules};
use crate::time::Timestamp;
use crate::token::{Claims, DestinationId};

/// Entries of one name. More take longer to copy; fewer are full sooner.
const OF_A_NAME: u32 = 32;

/// Bytes of an entry: key, address, port, kind of address, destination, two times.
const LEN: usize = EntryKey::LEN + 16 + 2 + 1 + 4 + 6 + 6;
const IPV4: u8 = 4;
const IPV6: u8 = 6;

/// The entries that have one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryBucket(Vec<u8>);

impl EntryBucket {
    /// The number of names.
    #[must_use]
    pub fn names(rules: &SourceRules) -> u32 {
        rules.entries.div_ceil(OF_A_NAME).max(1)
    }

    /// The number of the key's name. Without the seed, it is not known which clients share one.
    #[must_use]
    pub fn number(rules: &SourceRules, seed: &[u8], key: &EntryKey) -> u32 {
        let digest = Sha256::new().chain_update(seed).chain_update(key.bytes()).finalize();
        let (number, _) = digest.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        let number = u64::from_be_bytes(*number) % u64::from(Self::names(rules));
        u32::try_from(number).unwrap_or_default()
    }

    /// The most entries of a name. All names together have the rules' number.
    fn most(rules: &SourceRules, name: u32) -> usize {
        let names = Self::names(rules);
        let most = rules.entries / names + u32::from(name < rules.entries % names);
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// Reads a name's content. Bytes of another form count as no entries.
    #[must_use]
    pub fn read(bytes: Vec<u8>) -> Self {
        Self(if bytes.len().is_multiple_of(LEN) {
            bytes
        } else {
            Vec::new()
        })
    }

    /// The name's content.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The entry of a key.
    #[must_use]
    pub fn find(&self, key: &EntryKey) -> Option<Claims> {
        decode(self.0.chunks_exact(LEN).find(|entry| is_of(entry, key))?)
    }

    /// Sets the entry of a key. Returns whether it evicted a living one.
    pub fn insert(&mut self, key: &EntryKey, claims: &Claims, rules: &SourceRules, name: u32) -> bool {
        self.remove(key);
        let mut evicted = false;
        while self.0.len() / LEN >= Self::most(rules, name).max(1) {
            let last_seen = |entry: &[u8]| decode(entry).map(|claims| claims.last_seen);
            let ages = self.0.chunks_exact(LEN).map(last_seen).enumerate();
            let Some((oldest, seen)) = ages.min_by_key(|(_, last_seen)| *last_seen) else {
                break;
            };
            evicted |= seen.is_some_and(|seen| claims.last_seen.since(seen) < rules.timeout);
            self.0.drain(oldest * LEN..(oldest + 1) * LEN);
        }
        self.0.extend(encode(key, claims));
        evicted
    }

    /// Removes the entry of a key. Returns whether there was one.
    pub fn remove(&mut self, key: &EntryKey) -> bool {
        let Some(at) = self.0.chunks_exact(LEN).position(|entry| is_of(entry, key)) else {
            return false;
        };
        self.0.drain(at * LEN..(at + 1) * LEN);
        true
    }

    /// How far the noted last use may lag: writing costs more than reading.
    #[must_use]
    pub fn lag(rules: &SourceRules) -> Duration {
        (rules.timeout / 100).min(Duration::from_secs(1))
    }
}

fn is_of(entry: &[u8], key: &EntryKey) -> bool {
    entry.starts_with(&key.bytes())
}

fn encode(key: &EntryKey, claims: &Claims) -> impl Iterator<Item = u8> {
    let (ip, kind) = match claims.host.ip() {
        IpAddr::V4(ip) => (ip.to_ipv6_mapped(), IPV4),
        IpAddr::V6(ip) => (ip, IPV6),
    };
    // `Timestamp::MAX` ensures that the two high bytes are zero.
    let time = |time: Timestamp| time.unix_millis().to_be_bytes().into_iter().skip(2);
    let entry = key.bytes().into_iter().chain(ip.octets());
    let entry = entry.chain(claims.host.port().to_be_bytes()).chain([kind]);
    let entry = entry.chain(claims.destination.0);
    entry.chain(time(claims.issued_at)).chain(time(claims.last_seen))
}

fn decode(entry: &[u8]) -> Option<Claims> {
    let (ip, rest) = entry.get(EntryKey::LEN..)?.split_first_chunk::<16>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let (kind, rest) = rest.split_first()?;
    let (destination, rest) = rest.split_first_chunk::<4>()?;
    let (issued_at, last_seen) = rest.split_first_chunk::<6>()?;
    let ip = match *kind {
        IPV6 => IpAddr::V6(Ipv6Addr::from(*ip)),
        _ => IpAddr::V4(Ipv6Addr::from(*ip).to_ipv4_mapped().unwrap_or(Ipv4Addr::UNSPECIFIED)),
    };
    let time = |bytes: &[u8]| {
        let millis = bytes.iter().fold(0, |millis, byte| millis << 8 | u64::from(*byte));
        Timestamp::from_unix_millis(millis)
    };
    Some(Claims {
        host: SocketAddr::new(ip, u16::from_be_bytes(*port)),
        destination: DestinationId(*destination),
        issued_at: time(issued_at),
        last_seen: time(last_seen),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_names_together_have_as_many_places_as_entries() {
        for entries in [1, 31, 32, 33, 100, 100_000, 1_000_000, 10_000_000] {
            let rules = SourceRules {
                entries,
                ..SourceRules::DEFAULT
            };
            let places = (0..EntryBucket::names(&rules)).map(|name| EntryBucket::most(&rules, name));
            assert!(places.clone().all(|places| (1..=32).contains(&places)), "{entries}");
            assert_eq!(places.sum::<usize>(), entries as usize);
        }
    }

    /// With the name and a node of Envoy's map for up to 32 entries, less than 70 bytes each.
    #[test]
    fn an_entry_takes_59_bytes() {
        assert_eq!(LEN, 59);
    }

    /// Some names are full earlier than others.
    #[test]
    fn few_entries_go_before_all_places_are_taken() {
        let rules = SourceRules::DEFAULT;
        let mut counts = vec![0; EntryBucket::names(&rules) as usize];
        for client in 0..rules.entries {
            let key = EntryKey::of_client(u128::from(client).to_be_bytes(), 1);
            if let Some(count) = counts.get_mut(EntryBucket::number(&rules, b"seed", &key) as usize) {
                *count += 1;
            }
        }
        let gone: u32 = counts.iter().map(|count: &u32| count.saturating_sub(32)).sum();
        assert!((5_000..8_000).contains(&gone), "{gone} of 100,000");
    }
}
