//! [`Memory::fit`], kept up to date as single objects change.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use limpet_api::{ObjectRef, Text};

use super::fair_share;
use super::memory::Memory;

/// The order in which a namespace forgets: by rank, and the last by name first.
type EvictionOrder = (u8, Reverse<String>);

#[derive(Debug)]
pub(crate) struct MemoryRoom {
    most_bytes: usize,
    keys: HashMap<ObjectRef, EvictionOrder>,
    namespaces: BTreeMap<Text, NamespaceMemory>,
    share: usize,
    left: Memory,
}

#[derive(Debug, Default)]
struct NamespaceMemory {
    entries: BTreeMap<EvictionOrder, (ObjectRef, usize)>,
    bytes: usize,
    /// The last one that is forgotten, with all before it.
    last_gone: Option<EvictionOrder>,
    gone: usize,
}

impl MemoryRoom {
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self {
            most_bytes,
            keys: HashMap::new(),
            namespaces: BTreeMap::new(),
            share: usize::MAX,
            left: Memory::default(),
        }
    }

    pub(crate) fn update<'o>(&mut self, objects: impl IntoIterator<Item = &'o ObjectRef>, all: &Memory) {
        let mut touched: BTreeSet<Text> = BTreeSet::new();
        for object in objects {
            if let Some(key) = self.keys.remove(object) {
                touched.insert(object.name.namespace.clone());
                if let Some(of_namespace) = self.namespaces.get_mut(&object.name.namespace) {
                    of_namespace.remove(&key);
                }
            }
            self.left.forget(object);
            if let Some((rank, bytes)) = all.entry(object) {
                let key = (rank, Reverse(object.key()));
                touched.insert(object.name.namespace.clone());
                let of_namespace = self.namespaces.entry(object.name.namespace.clone()).or_default();
                if of_namespace.insert(&key, object, bytes) {
                    self.left.copy(all, object);
                }
                self.keys.insert(object.clone(), key);
            }
        }
        self.namespaces.retain(|_, of_namespace| of_namespace.bytes > 0);
        let share = fair_share(self.namespaces.values().map(|of| of.bytes), self.most_bytes);
        let least = share.min(self.share);
        let is_same = share == self.share;
        self.share = share;
        for (name, of_namespace) in &mut self.namespaces {
            if touched.contains(name) || (!is_same && of_namespace.bytes > least) {
                of_namespace.adjust(share, all, &mut self.left);
            }
        }
    }

    /// The memory, and whether something else is forgotten.
    pub(crate) fn remaining(&self) -> (Memory, bool) {
        (
            self.left.clone(),
            self.namespaces.values().any(|of| of.last_gone.is_some()),
        )
    }
}

impl NamespaceMemory {
    fn is_gone(&self, key: &EvictionOrder) -> bool {
        self.last_gone.as_ref().is_some_and(|last| key <= last)
    }

    fn remove(&mut self, key: &EvictionOrder) {
        let is_gone = self.is_gone(key);
        if let Some((_, bytes)) = self.entries.remove(key) {
            self.bytes -= bytes;
            if is_gone {
                self.gone -= bytes;
            }
        }
    }

    /// Returns whether it is not forgotten.
    fn insert(&mut self, key: &EvictionOrder, object: &ObjectRef, bytes: usize) -> bool {
        let is_gone = self.is_gone(key);
        self.entries.insert(key.clone(), (object.clone(), bytes));
        self.bytes += bytes;
        if is_gone {
            self.gone += bytes;
        }
        !is_gone
    }

    /// Forgets as much as there is no room for, and nothing more.
    fn adjust(&mut self, share: usize, all: &Memory, left: &mut Memory) {
        // What is forgotten last comes back first.
        while let Some(last) = self.last_gone.clone() {
            let known = self.entries.range(..=&last).next_back();
            let known = known.map(|(key, (object, bytes))| (key.clone(), object.clone(), *bytes));
            let Some((key, object, bytes)) = known else {
                self.last_gone = None;
                break;
            };
            if self.bytes - (self.gone - bytes) > share {
                self.last_gone = Some(key);
                break;
            }
            self.gone -= bytes;
            left.copy(all, &object);
            let before = self.entries.range(..&key).next_back();
            self.last_gone = before.map(|(before, _)| before.clone());
        }
        while self.bytes - self.gone > share {
            let next = match &self.last_gone {
                Some(last) => self
                    .entries
                    .range((std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded))
                    .next(),
                None => self.entries.iter().next(),
            };
            let Some((key, (object, bytes))) = next else { break };
            self.gone += bytes;
            left.forget(object);
            self.last_gone = Some(key.clone());
        }
    }
}
