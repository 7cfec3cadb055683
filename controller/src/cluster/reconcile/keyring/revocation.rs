//! Tells which Envoys know of a revocation: in the log, each Envoy as it acknowledges the keyring.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::cluster::reconcile::delivery::{Delivery, PublishedFilter};

/// Revoked keys, and the Envoys of this replica that know.
pub(super) struct Progress {
    ids: BTreeSet<u8>,
    since: Instant,
    told: BTreeSet<(String, String)>,
}

impl Progress {
    pub(super) fn new(ids: &BTreeSet<u8>) -> Self {
        Self {
            ids: ids.clone(),
            since: Instant::now(),
            told: BTreeSet::new(),
        }
    }

    pub(super) fn is_of(&self, ids: &BTreeSet<u8>) -> bool {
        self.ids == *ids
    }

    /// Logs the Envoys that have got what is published since the last call.
    pub(super) fn tell(&mut self, delivery: &Delivery, published: &PublishedFilter) {
        let (keys, after) = (words(&self.ids), self.since.elapsed());
        for (gateway, envoy) in delivery.envoys_with(published) {
            if self.told.insert((gateway.clone(), envoy.clone())) {
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

/// `key 3 is revoked`, or `keys 3 and 4 are revoked`.
pub(super) fn are_revoked(ids: &BTreeSet<u8>) -> String {
    let (keys, are) = if ids.len() == 1 { ("key", "is") } else { ("keys", "are") };
    format!("{keys} {} {are} revoked", words(ids))
}

/// `3`, or `3 and 4`.
pub(super) fn words(ids: &BTreeSet<u8>) -> String {
    let ids: Vec<String> = ids.iter().map(u8::to_string).collect();
    ids.join(" and ")
}
