//! The policies that are bound to a scope, kept for the next request of that scope.
//!
//! Scopes come from routes, so only Envoy knows their number, and clients cannot add to it. Routes come and go while a
//! filter lives, so there is a limit, and beyond it each new scope takes the place of one that was not used for a
//! while. Workers share a filter: each part has a lock of its own, and in the steady state they only read.
//!
//! The hash is a quick one with a random seed. To slow it down, names with equal hashes would have to be in routes and
//! fill one part, in which a search is short at its worst.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use foldhash::quality::FixedState;
use hashbrown::HashTable;

use crate::bound_policy::BoundPolicy;

const PARTS: usize = 64;
/// How many are kept in each part. Chance fills parts unequally, so places are taken over before all are taken: at
/// about 28,000 scopes in all. That is more than five times as many as there are rules.
const PLACES: usize = 512;

/// Policies by `<policy>/<scope>`.
#[derive(Debug)]
pub(crate) struct BoundPolicies {
    parts: Box<[RwLock<Part>]>,
    /// One hash of a name finds the part, and the place in it.
    hasher: FixedState,
}

#[derive(Debug, Default)]
struct Part {
    kept: HashTable<Kept>,
    /// The names in `kept`. Once there are as many as places, they are the ring that the hand goes round.
    names: Vec<Arc<[u8]>>,
    hand: usize,
}

#[derive(Debug)]
struct Kept {
    name: Arc<[u8]>,
    bound_policy: Arc<BoundPolicy>,
    /// Whether there was a request of it since the hand passed.
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
        // A panic cannot leave a part half-changed, so a poisoned lock is safe to use.
        let part = self.part(hash)?.read().unwrap_or_else(PoisonError::into_inner);
        part.get(hash, name)
    }

    /// Keeps a policy, unless another worker has bound it meanwhile. Returns the one that is kept.
    pub(crate) fn keep(&self, name: &[u8], fresh: Arc<BoundPolicy>) -> Arc<BoundPolicy> {
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

    fn part(&self, hash: u64) -> Option<&RwLock<Part>> {
        // The table in the part has its places by the lowest bits, and its marks by the highest.
        self.parts.get((hash >> 32) as usize % PARTS)
    }
}

impl Part {
    fn find(&self, hash: u64, name: &[u8]) -> Option<&Kept> {
        self.kept.find(hash, |kept| *kept.name == *name)
    }

    fn get(&self, hash: u64, name: &[u8]) -> Option<Arc<BoundPolicy>> {
        let kept = self.find(hash, name)?;
        // Workers that only read do not take this memory from each other's caches.
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
        let kept = Kept {
            name,
            bound_policy,
            used: AtomicBool::new(false),
        };
        self.kept.insert_unique(hash(&kept.name), kept, |kept| hash(&kept.name));
    }

    /// Forgets a policy that was not used since the hand passed it last, and puts a name into its place in the ring.
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
    /// How many are kept.
    pub(crate) fn len(&self) -> usize {
        let lens = self
            .parts
            .iter()
            .map(|part| part.read().map_or(0, |part| part.kept.len()));
        lens.sum()
    }
}
