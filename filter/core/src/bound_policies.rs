//! The policies that are bound to a scope, kept for its next request.
//!
//! Scopes come from routes, not from clients. Routes come and go, so beyond a limit a new scope replaces an unused one.
//! Each part has its lock, and in the steady state workers only read.
//!
//! The hash is quick, with a random seed. An attack would need routes whose names collide, and would lengthen the
//! search in one part.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use foldhash::quality::FixedState;
use hashbrown::HashTable;

use crate::bound_policy::BoundPolicy;

const PARTS: usize = 64;
/// Policies in a part. Chance fills parts unequally, so replacement begins at about 28,000 scopes in all: over five
/// times as many as there are rules.
const PLACES: usize = 512;

/// Policies by `<policy>/<scope>`.
#[derive(Debug)]
pub(crate) struct BoundPolicies {
    parts: Box<[RwLock<PolicyShard>]>,
    /// One hash finds the part, and the place in it.
    hasher: FixedState,
}

#[derive(Debug, Default)]
struct PolicyShard {
    kept: HashTable<ShardEntry>,
    /// The names in `kept`; once full, the ring that `hand` goes round.
    names: Vec<Arc<[u8]>>,
    hand: usize,
}

#[derive(Debug)]
struct ShardEntry {
    name: Arc<[u8]>,
    bound_policy: Arc<BoundPolicy>,
    /// Whether it was used since the hand passed.
    used: AtomicBool,
}

impl Default for BoundPolicies {
    fn default() -> Self {
        Self {
            parts: (0..PARTS).map(|_| RwLock::default()).collect(),
            hasher: FixedState::with_seed(RandomState::new().hash_one(PARTS)),
        }
    }
}

impl BoundPolicies {
    pub(crate) fn get(&self, name: &[u8]) -> Option<Arc<BoundPolicy>> {
        let hash = self.hasher.hash_one(name);
        // A panic cannot leave a part half-changed.
        let part = self.part(hash)?.read().unwrap_or_else(PoisonError::into_inner);
        part.get(hash, name)
    }

    /// Returns the policy that is kept: another worker may have bound it.
    pub(crate) fn insert(&self, name: &[u8], fresh: Arc<BoundPolicy>) -> Arc<BoundPolicy> {
        let hash = self.hasher.hash_one(name);
        if let Some(part) = self.part(hash) {
            let mut part = part.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(kept) = part.get(hash, name) {
                return kept;
            }
            part.keep(name.into(), Arc::clone(&fresh), |name| self.hasher.hash_one(name));
        }
        fresh
    }

    fn part(&self, hash: u64) -> Option<&RwLock<PolicyShard>> {
        // The part's own table uses the lowest and the highest bits.
        self.parts.get((hash >> 32) as usize % PARTS)
    }
}

impl PolicyShard {
    fn find(&self, hash: u64, name: &[u8]) -> Option<&ShardEntry> {
        self.kept.find(hash, |kept| *kept.name == *name)
    }

    fn get(&self, hash: u64, name: &[u8]) -> Option<Arc<BoundPolicy>> {
        let kept = self.find(hash, name)?;
        // Read first, so that workers do not take this memory from each other's caches.
        if !kept.used.load(Ordering::Relaxed) {
            kept.used.store(true, Ordering::Relaxed);
        }
        Some(Arc::clone(&kept.bound_policy))
    }

    fn keep(&mut self, name: Arc<[u8]>, bound_policy: Arc<BoundPolicy>, hash: impl Fn(&[u8]) -> u64) {
        if self.names.len() < PLACES {
            self.names.push(Arc::clone(&name));
        } else {
            self.make_room_for(&name, &hash);
        }
        let kept = ShardEntry {
            name,
            bound_policy,
            used: AtomicBool::new(false),
        };
        self.kept.insert_unique(hash(&kept.name), kept, |kept| hash(&kept.name));
    }

    /// Replaces a policy unused since the hand passed.
    fn make_room_for(&mut self, name: &Arc<[u8]>, hash: impl Fn(&[u8]) -> u64) {
        while let Some(at) = self.names.get(self.hand).map(Arc::clone) {
            let hash = hash(&at);
            let used = self
                .find(hash, &at)
                .map(|kept| kept.used.swap(false, Ordering::Relaxed));
            if used != Some(true) {
                if let Ok(former) = self.kept.find_entry(hash, |kept| kept.name == at) {
                    former.remove();
                }
                if let Some(place) = self.names.get_mut(self.hand) {
                    *place = Arc::clone(name);
                }
            }
            self.hand = (self.hand + 1) % PLACES;
            if used != Some(true) {
                return;
            }
        }
    }
}

#[cfg(test)]
impl BoundPolicies {
    pub(crate) fn len(&self) -> usize {
        let lens = self
            .parts
            .iter()
            .map(|part| part.read().map_or(0, |part| part.kept.len()));
        lens.sum()
    }
}
