//! Maps and sets that mostly have an entry or two.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

/// A map with more entries is a tree.
const FEW: usize = 16;
/// So many entries reserve no further room.
const WITHOUT_ROOM: usize = 4;

/// A sorted map for mostly one or two entries, which take only their own room, where a tree reserves room for eleven.
/// With many entries it is a tree.
#[derive(Clone)]
pub struct FewMap<K, V>(Entries<K, V>);

#[derive(Clone)]
enum Entries<K, V> {
    /// Sorted.
    Few(Vec<(K, V)>),
    Many(BTreeMap<K, V>),
}

/// A sorted set of the same kind.
#[derive(Clone, PartialEq, Eq)]
pub struct FewSet<T>(FewMap<T, ()>);

impl<K, V> FewMap<K, V> {
    /// The entries, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let (few, many) = match &self.0 {
            Entries::Few(few) => (few.as_slice(), None),
            Entries::Many(many) => (Default::default(), Some(many)),
        };
        let few = few.iter().map(|(key, value)| (key, value));
        few.chain(many.into_iter().flat_map(|many| many.iter()))
    }

    /// The keys, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// The values, by key.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The values, to change them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        let (few, many) = match &mut self.0 {
            Entries::Few(few) => (few.as_mut_slice(), None),
            Entries::Many(many) => (Default::default(), Some(many)),
        };
        let few = few.iter_mut().map(|(_, value)| value);
        few.chain(many.into_iter().flat_map(|many| many.values_mut()))
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Entries::Few(few) => few.len(),
            Entries::Many(many) => many.len(),
        }
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Ord, V> FewMap<K, V> {
    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// The value of a key, with the key as the map has it.
    pub fn get_key_value<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        match &self.0 {
            Entries::Few(few) => {
                let (key, value) = few.get(find(few, key).ok()?)?;
                Some((key, value))
            }
            Entries::Many(many) => many.get_key_value(key),
        }
    }

    /// The entries with these keys, in their order.
    pub fn range(&self, keys: RangeInclusive<K>) -> impl Iterator<Item = (&K, &V)>
    where
        K: Clone,
    {
        let (few, many) = match &self.0 {
            Entries::Few(few) => (few.as_slice(), None),
            Entries::Many(many) => (Default::default(), Some(many)),
        };
        // A tree panics where the first key is behind the last one.
        let many = many.filter(|_| keys.start() <= keys.end());
        let of_many = keys.clone();
        let few = few.iter().map(|(key, value)| (key, value));
        let few = few.filter(move |(key, _)| keys.contains(key));
        few.chain(many.into_iter().flat_map(move |many| many.range(of_many.clone())))
    }

    /// The value of a key, to change it.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        match &mut self.0 {
            Entries::Few(few) => {
                let at = find(few, key).ok()?;
                few.get_mut(at).map(|(_, value)| value)
            }
            Entries::Many(many) => many.get_mut(key),
        }
    }

    /// Whether it has the key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// Returns the key's former value.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let few = match &mut self.0 {
            Entries::Few(few) => few,
            Entries::Many(many) => return many.insert(key, value),
        };
        match find(few, &key) {
            Ok(at) => few.get_mut(at).map(|(_, known)| std::mem::replace(known, value)),
            Err(at) if few.len() < FEW => {
                if few.len() < WITHOUT_ROOM {
                    few.reserve_exact(1);
                }
                few.insert(at, (key, value));
                None
            }
            Err(_) => {
                let all = std::mem::take(few).into_iter().chain([(key, value)]);
                self.0 = Entries::Many(all.collect());
                None
            }
        }
    }

    /// Returns the key's value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        match &mut self.0 {
            Entries::Few(few) => {
                let at = find(few, key).ok()?;
                Some(few.remove(at).1)
            }
            Entries::Many(many) => many.remove(key),
        }
    }

    /// Keeps only these entries.
    pub fn retain(&mut self, mut stays: impl FnMut(&K, &mut V) -> bool) {
        match &mut self.0 {
            Entries::Few(few) => few.retain_mut(|(key, value)| stays(key, value)),
            Entries::Many(many) => many.retain(stays),
        }
    }
}

impl<K: Ord + Clone, V: Default> FewMap<K, V> {
    /// Changes the value of a key, by default a new one.
    pub fn update<R>(&mut self, key: &K, change: impl FnOnce(&mut V) -> R) -> R {
        if let Some(value) = self.get_mut(key) {
            return change(value);
        }
        let mut value = V::default();
        let changed = change(&mut value);
        self.insert(key.clone(), value);
        changed
    }
}

fn find<K: Borrow<Q>, V, Q: Ord + ?Sized>(few: &[(K, V)], key: &Q) -> Result<usize, usize> {
    few.binary_search_by(|(known, _)| known.borrow().cmp(key))
}

impl<K, V> Default for FewMap<K, V> {
    fn default() -> Self {
        Self(Entries::Few(Vec::new()))
    }
}

/// Compares entries: a tree stays one when most of them are gone.
impl<K: PartialEq, V: PartialEq> PartialEq for FewMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<K: Eq, V: Eq> Eq for FewMap<K, V> {}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for FewMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord, V> Extend<(K, V)> for FewMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for FewMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut all = Self::default();
        all.extend(entries);
        all
    }
}

impl<T: Ord> FewSet<T> {
    /// The items, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.keys()
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it has this item.
    pub fn contains<Q: Ord + ?Sized>(&self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.0.contains_key(item)
    }

    /// Returns whether it is new.
    pub fn insert(&mut self, item: T) -> bool {
        self.0.insert(item, ()).is_none()
    }
}

impl<T> Default for FewSet<T> {
    fn default() -> Self {
        Self(FewMap::default())
    }
}

impl<T: Ord + fmt::Debug> fmt::Debug for FewSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<T: Ord> Extend<T> for FewSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        self.0.extend(items.into_iter().map(|item| (item, ())));
    }
}

impl<T: Ord> FromIterator<T> for FewSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut all = Self::default();
        all.extend(items);
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_sorted_map(changes in prop::collection::vec((any::<bool>(), 0..40_u8, any::<u16>()), 0..120)) {
            let (mut map, mut tree) = (FewMap::default(), BTreeMap::new());
            for (adds, key, value) in changes {
                if adds {
                    prop_assert_eq!(map.insert(key, value), tree.insert(key, value));
                } else {
                    prop_assert_eq!(map.remove(&key), tree.remove(&key));
                }
                prop_assert_eq!(map.get(&key), tree.get(&key));
                prop_assert_eq!(map.len(), tree.len());
            }
            prop_assert!(map.iter().eq(tree.iter()));
            prop_assert!(map.range(10..=20).eq(tree.range(10..=20)));
            prop_assert!(map.range(RangeInclusive::new(20, 10)).next().is_none());
            prop_assert_eq!(&map, &tree.iter().map(|(key, value)| (*key, *value)).collect());
            for value in map.values_mut() {
                *value /= 2;
            }
            map.retain(|key, _| key % 2 == 0);
            for value in tree.values_mut() {
                *value /= 2;
            }
            tree.retain(|key, _| key % 2 == 0);
            prop_assert!(map.iter().eq(tree.iter()));
            for key in 0..40 {
                map.update(&key, |value| *value = value.wrapping_add(1));
                let value = tree.entry(key).or_default();
                *value = value.wrapping_add(1);
            }
            prop_assert!(map.iter().eq(tree.iter()));
        }
    }

    #[test]
    fn what_has_an_entry_has_no_room_for_more() {
        let map: FewMap<_, _> = [("a", 1)].into_iter().collect();
        assert!(matches!(&map.0, Entries::Few(few) if few.capacity() == 1));
    }

    #[test]
    fn equal_entries_are_equal_maps() {
        let mut many: FewMap<_, _> = (0..20).map(|number| (number, ())).collect();
        many.retain(|number, ()| *number < 2);
        assert_eq!(many, (0..2).map(|number| (number, ())).collect());
    }
}
