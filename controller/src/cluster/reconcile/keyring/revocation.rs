//! Logs the Envoys that know of a revocation, as each acknowledges the keyring.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::cluster::reconcile::delivery::{Delivery, PublishedFilter};
use crate::tools::keys::ids;

pub(super) struct RevocationProgress {
    ids: BTreeSet<u8>,
    since: Instant,
    logged: BTreeSet<(String, String)>,
}

impl RevocationProgress {
    pub(super) fn new(ids: &BTreeSet<u8>) -> Self {
        Self {
            ids: ids.clone(),
            since: Instant::now(),
            logged: BTreeSet::new(),
        }
    }

    pub(super) fn is_of(&self, ids: &BTreeSet<u8>) -> bool {
        self.ids == *ids
    }

    /// Logs Envoys that have `published` since the last call.
    pub(super) fn log_delivered(&mut self, delivery: &Delivery, published: &PublishedFilter) {
        let (keys, after) = (ids::keys(&self.ids), self.since.elapsed());
        for (gateway, envoy) in delivery.envoys_with(published) {
            if self.logged.insert((gateway.clone(), envoy.clone())) {
                tracing::info!(
                    keys,
                    gateway,
                    envoy,
                    ?after,
                    "this Envoy honours no token of the revoked keys"
                );
            }
        }
    }
}

/// `key 3 is`, or `keys 3 and 4 are`.
pub(super) fn keys_are(ids: &BTreeSet<u8>) -> String {
    let are = if ids.len() > 1 { "are" } else { "is" };
    format!("{} {are}", ids::keys(ids))
}

pub(super) fn are_revoked(ids: &BTreeSet<u8>) -> String {
    format!("{} revoked", keys_are(ids))
}

/// Not every Envoy has the keyring.
pub(super) fn under_way(ids: &BTreeSet<u8>) -> String {
    let (revoked, keys) = (are_revoked(ids), ids::keys(ids));
    format!(
        "{revoked}: sessions with such tokens end, and clients get new ones; until every Envoy knows, some may honour \
         tokens of {keys}"
    )
}

/// Every connected Envoy has the keyring.
pub(super) fn everywhere(ids: &BTreeSet<u8>) -> String {
    format!(
        "{}, and every connected Envoy has the keyring that says so",
        are_revoked(ids)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_is_revoked_and_several_are() {
        assert_eq!(are_revoked(&[3].into()), "key 3 is revoked");
        assert_eq!(are_revoked(&[5, 3, 4].into()), "keys 3, 4 and 5 are revoked");
        let expected = "keys 3 and 4 are revoked: sessions with such tokens end, and clients get new ones; until every \
                        Envoy knows, some may honour tokens of keys 3 and 4";
        assert_eq!(under_way(&[3, 4].into()), expected);
    }
}
