//! Persistent maps.

use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;

/// A sorted map. A copy costs nothing and shares all but what differs, so what differs between two is found without a
/// look at the rest ([`OrdMap::diff`]).
pub type Map<K, V> = OrdMap<K, Arc<V>>;

/// The same as such a map.
pub(crate) fn shared<K: Ord + Clone, V>(all: impl IntoIterator<Item = (K, V)>) -> Map<K, V> {
    let all = all.into_iter();
    all.map(|(key, value)| (key, Arc::new(value))).collect()
}

/// The keys whose values differ, and those that are in only one of the two. The time depends on what differs.
pub(crate) fn changed<'a, K: Ord, V: PartialEq>(
    before: &'a OrdMap<K, V>,
    after: &'a OrdMap<K, V>,
) -> impl Iterator<Item = &'a K> {
    before.diff(after).map(|item| match item {
        DiffItem::Add(key, _) | DiffItem::Remove(key, _) | DiffItem::Update { new: (key, _), .. } => key,
    })
}

/// Whether two maps are equal. The time depends on what they do not share; `==` looks at everything.
pub(crate) fn are_equal<K: Ord, V: PartialEq>(one: &OrdMap<K, V>, other: &OrdMap<K, V>) -> bool {
    one.len() == other.len() && changed(one, other).next().is_none()
}
