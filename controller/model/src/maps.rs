//! Persistent maps.

use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;

/// A sorted map. Copies share all but what differs, which [`OrdMap::diff`] finds without a look at the rest.
pub type Map<K, V> = OrdMap<K, Arc<V>>;

pub(crate) fn shared<K: Ord + Clone, V>(all: impl IntoIterator<Item = (K, V)>) -> Map<K, V> {
    let all = all.into_iter();
    all.map(|(key, value)| (key, Arc::new(value))).collect()
}

/// Keys of one map only, or with another value. The time depends on what differs.
pub(crate) fn changed<'a, K: Ord, V: PartialEq>(
    before: &'a OrdMap<K, V>,
    after: &'a OrdMap<K, V>,
) -> impl Iterator<Item = &'a K> {
    before.diff(after).map(|item| match item {
        DiffItem::Add(key, _) | DiffItem::Remove(key, _) | DiffItem::Update { new: (key, _), .. } => key,
    })
}

/// The time depends on what they do not share; `==` looks at everything.
pub(crate) fn are_equal<K: Ord, V: PartialEq>(one: &OrdMap<K, V>, other: &OrdMap<K, V>) -> bool {
    one.len() == other.len() && changed(one, other).next().is_none()
}
