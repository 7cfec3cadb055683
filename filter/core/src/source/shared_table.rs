use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use super::table_shard::{EvictedEntry, TableShard};
use super::{EntryKey, SourceRules, SourceTable};
use crate::time::Timestamp;
use crate::token::Claims;
use crate::view::ViewError;

/// Entries of a full table that share a lock.
const OF_A_PART: usize = 1024;
const MOST_PARTS: usize = 256;

/// A table that workers share. In the steady state they only read: a part is locked for writing when a session begins
/// or moves. Beyond 1,024 entries, each part evicts its own least recently used.
#[derive(Debug)]
pub struct SharedTable {
    rules: SourceRules,
    parts: Box<[RwLock<TableShard>]>,
    len: AtomicUsize,
    hasher: RandomState,
}

impl SharedTable {
    /// An empty table.
    #[must_use]
    pub fn new(rules: &SourceRules) -> Self {
        let parts = limit(rules).div_ceil(OF_A_PART).next_power_of_two().min(MOST_PARTS);
        Self {
            rules: *rules,
            parts: (0..parts).map(|_| RwLock::default()).collect(),
            len: AtomicUsize::new(0),
            hasher: RandomState::new(),
        }
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn hash(&self, key: &EntryKey) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The number of a hash's part, whose index uses the other bits.
    fn part_of(&self, hash: u64) -> usize {
        usize::try_from(hash >> 40).unwrap_or(0) & (self.parts.len() - 1)
    }

    /// Takes out the oldest entry of this part, or of the next one with another entry than the key's.
    fn evict(&self, from: usize, newest: &EntryKey) -> Option<EvictedEntry> {
        let (before, behind) = self.parts.split_at_checked(from)?;
        behind.iter().chain(before).find_map(|part| {
            // A panic cannot leave a part half-changed.
            let mut part = part.write().unwrap_or_else(PoisonError::into_inner);
            part.evict(newest, |key| self.hash(key))
        })
    }
}

fn limit(rules: &SourceRules) -> usize {
    usize::try_from(rules.entries).unwrap_or(usize::MAX)
}

impl SourceTable for SharedTable {
    fn find(
        &self,
        key: &EntryKey,
        now: Timestamp,
        is_alive: &dyn Fn(&Claims) -> bool,
    ) -> Result<Option<Claims>, ViewError> {
        let hash = self.hash(key);
        let part = self.parts.get(self.part_of(hash));
        Ok(part.and_then(|part| {
            let part = part.read().unwrap_or_else(PoisonError::into_inner);
            part.find(hash, key, now, is_alive)
        }))
    }

    fn put(&self, key: &EntryKey, claims: &Claims) -> Result<bool, ViewError> {
        let hash = self.hash(key);
        let number = self.part_of(hash);
        let is_new = self.parts.get(number).is_some_and(|part| {
            let mut part = part.write().unwrap_or_else(PoisonError::into_inner);
            part.insert(hash, key, claims, |key| self.hash(key))
        });
        if !is_new || self.len.fetch_add(1, Ordering::Relaxed) < limit(&self.rules) {
            return Ok(false);
        }
        let gone = self.evict(number, key);
        if gone.is_some() {
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(gone.is_some_and(|gone| !gone.was_removed && claims.last_seen.since(gone.last_seen) < self.rules.timeout))
    }

    fn remove(&self, key: &EntryKey) -> Result<(), ViewError> {
        let hash = self.hash(key);
        if let Some(part) = self.parts.get(self.part_of(hash)) {
            let mut part = part.write().unwrap_or_else(PoisonError::into_inner);
            part.remove(hash, key);
        }
        Ok(())
    }
}

/// The tables of a process, kept by configurations that do not change their policy.
#[derive(Debug, Default)]
pub struct SharedTables(Mutex<Vec<KnownTable>>);

#[derive(Debug)]
struct KnownTable {
    policy: String,
    rules: SourceRules,
    table: Weak<SharedTable>,
}

impl SharedTables {
    /// Without any tables.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// The table of a policy, from a configuration still in force, or an empty one.
    pub fn get_or_insert(&self, policy: &str, rules: &SourceRules) -> Arc<SharedTable> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.table.strong_count() > 0);
        let same = known
            .iter()
            .find(|known| known.policy == policy && known.rules == *rules);
        if let Some(table) = same.and_then(|known| known.table.upgrade()) {
            return table;
        }
        let table = Arc::new(SharedTable::new(rules));
        known.push(KnownTable {
            policy: policy.to_owned(),
            rules: *rules,
            table: Arc::downgrade(&table),
        });
        table
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test")]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::token::DestinationId;

    fn rules(entries: u32) -> SourceRules {
        SourceRules {
            entries,
            ..SourceRules::DEFAULT
        }
    }

    fn key(client: u32) -> EntryKey {
        EntryKey::of_client(u128::from(client).to_be_bytes(), 1)
    }

    fn at(millis: u64) -> Claims {
        let now = Timestamp::from_unix_millis(millis);
        Claims {
            host: SocketAddr::from(([10, 0, 0, 7], 80)),
            destination: DestinationId([0; 4]),
            issued_at: now,
            last_seen: now,
        }
    }

    fn full(entries: u32) -> SharedTable {
        let table = SharedTable::new(&rules(entries));
        for client in 0..entries {
            assert_eq!(table.put(&key(client), &at(client.into())), Ok(false));
        }
        assert_eq!(table.len(), entries as usize);
        table
    }

    /// Entries read per lookup, on average.
    fn probes(table: &SharedTable, entries: u32) -> f64 {
        let probes = |client: u32| {
            let (key, hash) = (key(client), table.hash(&key(client)));
            f64::from(table.parts[table.part_of(hash)].read().unwrap().probes(hash, &key))
        };
        (0..1000).map(|turn: u32| probes(turn * (entries / 1000))).sum::<f64>() / 1000.0
    }

    /// Takes seconds: it fills a table of a million entries.
    #[test]
    fn a_lookup_in_a_million_looks_at_no_more_entries() {
        let [thousand, million] = [1_000, 1_000_000].map(|entries| (full(entries), entries));
        let [few, many] = [&thousand, &million].map(|(table, entries)| probes(table, *entries));
        assert!(many < 1.5 * few, "{many} instead of {few}");
        a_full_table_loses_one_of_the_oldest(&million.0);
    }

    fn a_full_table_loses_one_of_the_oldest(million: &SharedTable) {
        for client in 1_000_000..1_000_100 {
            assert_eq!(million.put(&key(client), &at(client.into())), Ok(true));
        }
        assert_eq!(million.len(), 1_000_000);
        let is_there = |client: u32| {
            let found = million.find(&key(client), Timestamp::MAX, &|_| false);
            found.is_ok_and(|found| found.is_some())
        };
        assert!((1_000_000..1_000_100).all(is_there));
        // 100 new clients replace the oldest ones of 256 parts.
        let young = (20_000..1_000_000).step_by(7);
        assert_eq!(
            young.filter(|client| !is_there(*client)).count(),
            0,
            "a young one had to go"
        );
    }

    #[test]
    fn workers_fill_a_table_together() {
        let table = SharedTable::new(&rules(1500));
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let table = &table;
                scope.spawn(move || {
                    for turn in 0..3000_u32 {
                        let client = (turn * 7 + worker) % 4000;
                        table.put(&key(client), &at(turn.into())).unwrap();
                        let _ = table.find(&key(client / 2), Timestamp::from_unix_millis(turn.into()), &|_| true);
                    }
                });
            }
        });
        assert!(table.len() <= 1500, "{}", table.len());
        let there = (0..4000).filter(|client| table.find(&key(*client), Timestamp::MAX, &|_| false).unwrap().is_some());
        assert_eq!(there.count(), table.len());
    }

    #[test]
    fn a_policy_keeps_its_table_while_somebody_uses_it() {
        let tables = SharedTables::new();
        let first = tables.get_or_insert("web", &rules(10));
        first.put(&key(1), &at(1)).unwrap();
        let again = tables.get_or_insert("web", &rules(10));
        assert!(Arc::ptr_eq(&first, &again));
        for (policy, entries) in [("api", 10), ("web", 11)] {
            assert!(
                tables.get_or_insert(policy, &rules(entries)).is_empty(),
                "{policy} {entries}"
            );
        }
        drop((first, again));
        assert!(tables.get_or_insert("web", &rules(10)).is_empty());
    }
}
