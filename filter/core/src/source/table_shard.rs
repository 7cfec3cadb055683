//! Entries that share a lock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashTable;

use super::EntryKey;
use crate::time::Timestamp;
use crate::token::{Claims, DestinationId};

type EntryIndex = u32;

#[derive(Debug, Default)]
pub(super) struct TableShard {
    entries: Vec<TableEntry>,
    index: HashTable<EntryIndex>,
    /// Each entry once, by the time of its last use or an earlier one: to use it changes nothing here, so living
    /// sessions only read.
    oldest: BinaryHeap<Reverse<(u64, EntryIndex)>>,
    /// Places of evicted entries.
    free: Vec<EntryIndex>,
}

/// An entry in one line of the CPU's caches: to find one in a large table waits for memory once.
#[derive(Debug)]
#[repr(align(64))]
struct TableEntry {
    key: EntryKey,
    ip: [u8; 16],
    port: u16,
    is_v4: bool,
    is_removed: bool,
    destination: DestinationId,
    issued_at: AtomicU64,
    last_seen: AtomicU64,
}

impl TableEntry {
    fn new(key: EntryKey, claims: &Claims) -> Self {
        let ip = match claims.host.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        Self {
            key,
            ip: ip.octets(),
            port: claims.host.port(),
            is_v4: claims.host.is_ipv4(),
            is_removed: false,
            destination: claims.destination,
            issued_at: AtomicU64::new(claims.issued_at.unix_millis()),
            last_seen: AtomicU64::new(claims.last_seen.unix_millis()),
        }
    }

    fn claims(&self) -> Claims {
        let ip = Ipv6Addr::from(self.ip);
        let ip = if self.is_v4 {
            IpAddr::V6(ip).to_canonical()
        } else {
            ip.into()
        };
        // In the reverse order of `note_use`.
        let last_seen = self.last_seen.load(Ordering::Acquire);
        let issued_at = self.issued_at.load(Ordering::Relaxed);
        Claims {
            host: SocketAddr::new(ip, self.port),
            destination: self.destination,
            issued_at: Timestamp::from_unix_millis(issued_at),
            last_seen: Timestamp::from_unix_millis(last_seen),
        }
    }

    fn note_use(&self, used: &Claims) {
        self.issued_at.store(used.issued_at.unix_millis(), Ordering::Relaxed);
        self.last_seen.store(used.last_seen.unix_millis(), Ordering::Release);
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct EvictedEntry {
    pub(super) last_seen: Timestamp,
    pub(super) was_removed: bool,
}

impl TableShard {
    /// Finds an entry, and notes it as used now if `is_alive`, without a writer's lock.
    pub(super) fn find(
        &self,
        hash: u64,
        key: &EntryKey,
        now: Timestamp,
        is_alive: &dyn Fn(&Claims) -> bool,
    ) -> Option<Claims> {
        let entry = self.entry(self.place(hash, key)?).filter(|entry| !entry.is_removed)?;
        let claims = entry.claims();
        if claims.last_seen != now && is_alive(&claims) {
            entry.note_use(&claims.used_at(now));
        }
        Some(claims)
    }

    /// Sets the entry of a key. Returns whether it is new.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        key: &EntryKey,
        claims: &Claims,
        hash_of: impl Fn(&EntryKey) -> u64,
    ) -> bool {
        let entry = TableEntry::new(*key, claims);
        if let Some(known) = self.place(hash, key).and_then(|place| self.entry_mut(place)) {
            *known = entry;
            return false;
        }
        let last_seen = claims.last_seen.unix_millis();
        // A table has at most `u32::MAX` entries.
        let next = || EntryIndex::try_from(self.entries.len()).unwrap_or(EntryIndex::MAX);
        let place = self.free.pop().unwrap_or_else(next);
        if let Some(vacated) = self.entry_mut(place) {
            *vacated = entry;
        } else {
            let (len, capacity) = (self.entries.len(), self.entries.capacity());
            grow(len, capacity, |more| self.entries.reserve_exact(more));
            self.entries.push(entry);
        }
        let (len, capacity) = (self.oldest.len(), self.oldest.capacity());
        grow(len, capacity, |more| self.oldest.reserve_exact(more));
        self.oldest.push(Reverse((last_seen, place)));
        let entries = &self.entries;
        let rehash = |place: &EntryIndex| at(entries, *place).map_or(0, |entry| hash_of(&entry.key));
        self.index.insert_unique(hash, place, rehash);
        true
    }

    /// Removes the entry of a key. Its place stays taken until it is the oldest.
    pub(super) fn remove(&mut self, hash: u64, key: &EntryKey) {
        if let Some(known) = self.place(hash, key).and_then(|place| self.entry_mut(place)) {
            known.is_removed = true;
        }
    }

    /// Takes out the least recently used entry, but not this key's.
    pub(super) fn evict(&mut self, newest: &EntryKey, hash_of: impl Fn(&EntryKey) -> u64) -> Option<EvictedEntry> {
        let mut passed = None;
        let gone = loop {
            let Some(mut top) = self.oldest.peek_mut() else {
                break None;
            };
            let Reverse((noted, place)) = *top;
            let Some(found) = at(&self.entries, place) else {
                break None;
            };
            let last_seen = found.last_seen.load(Ordering::Relaxed);
            if last_seen > noted {
                *top = Reverse((last_seen, place));
            } else if found.key == *newest {
                // Another one may be as young.
                passed = Some(PeekMut::pop(top));
            } else {
                PeekMut::pop(top);
                let gone = EvictedEntry {
                    last_seen: Timestamp::from_unix_millis(last_seen),
                    was_removed: found.is_removed,
                };
                if let Ok(indexed) = self.index.find_entry(hash_of(&found.key), |known| *known == place) {
                    indexed.remove();
                }
                self.free.push(place);
                break Some(gone);
            }
        };
        self.oldest.extend(passed);
        gone
    }

    fn place(&self, hash: u64, key: &EntryKey) -> Option<EntryIndex> {
        let is_of_key = |place: &EntryIndex| self.entry(*place).is_some_and(|entry| entry.key == *key);
        self.index.find(hash, is_of_key).copied()
    }

    fn entry(&self, place: EntryIndex) -> Option<&TableEntry> {
        at(&self.entries, place)
    }

    fn entry_mut(&mut self, place: EntryIndex) -> Option<&mut TableEntry> {
        self.entries.get_mut(usize::try_from(place).ok()?)
    }
}

fn at(entries: &[TableEntry], place: EntryIndex) -> Option<&TableEntry> {
    entries.get(usize::try_from(place).ok()?)
}

/// Makes room by eighths, because doubling would waste half.
fn grow(len: usize, capacity: usize, reserve: impl FnOnce(usize)) {
    if len == capacity {
        reserve(len / 8 + 4);
    }
}

#[cfg(test)]
impl TableShard {
    pub(super) fn probes(&self, hash: u64, key: &EntryKey) -> u32 {
        let mut probes = 0;
        let found = self.index.find(hash, |place| {
            probes += 1;
            self.entry(*place).is_some_and(|entry| entry.key == *key)
        });
        assert!(found.is_some(), "no entry of {key:?}");
        probes
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_entry_has_64_bytes() {
        assert_eq!(size_of::<super::TableEntry>(), 64);
    }
}
