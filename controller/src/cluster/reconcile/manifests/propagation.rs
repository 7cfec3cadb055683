//! How long objects wait for others: what uses a filter is written when proxies can have the filter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::difference::{ManifestKey, key};
use limpet_api::ObjectName;
use limpet_outputs::manifests::{Manifest, WriteStage};

/// When objects may be written. Each object of the second stage waits for the filters of its own Gateways, and only for
/// the first version of them that has what it needs: later ones have that, too, as long as the object is wanted.
#[derive(Debug)]
pub(super) struct Propagation {
    /// How long proxies need to get what was written.
    time: Duration,
    /// What is wanted, or that nothing is, and when an object may be written or deleted. What was written or deleted is
    /// so at all proxies then.
    due: BTreeMap<ManifestKey, (Option<Arc<Manifest>>, Instant)>,
}

impl Propagation {
    pub(super) fn new(time: Duration) -> Self {
        let due = BTreeMap::new();
        Self { time, due }
    }

    /// How long proxies need to get what was written.
    pub(super) fn time(&self) -> Duration {
        self.time
    }

    /// Forgets all: another replica may write.
    pub(super) fn clear(&mut self) {
        self.due.clear();
    }

    /// An object was written, or deleted, where none is wanted.
    pub(super) fn record(&mut self, key: ManifestKey, wanted: Option<&Arc<Manifest>>, now: Instant) {
        self.due.insert(key, (wanted.cloned(), now + self.time));
    }

    /// An object is as wanted. If that is new, it may have been written just now by another replica.
    pub(super) fn record_unchanged(&mut self, manifest: &Arc<Manifest>, now: Instant) {
        let key = key(manifest);
        if manifest.stage == WriteStage::Filter && self.due(&key, Some(manifest)).is_none() {
            self.record(key, Some(manifest), now);
        }
    }

    /// Finds out when objects that are new may be written, and when those that are not wanted any more (`excess`) may
    /// be deleted, if the filters are as wanted. The latter wait for the filters of all Gateways in their namespace,
    /// because which ones they were for is not known, and so for all that takes their places.
    pub(super) fn admit(&mut self, manifests: &[Arc<Manifest>], excess: Vec<ManifestKey>, now: Instant) {
        let deleted = self
            .due
            .iter()
            .filter(|(_, (wanted, since))| wanted.is_none() && *since > now);
        let mut due: BTreeMap<_, _> = deleted.map(|(key, deleted)| (key.clone(), deleted.clone())).collect();
        // `None`: a filter is not as wanted.
        let mut by_gateway: BTreeMap<&ObjectName, Option<Instant>> = BTreeMap::new();
        for filter in manifests.iter().filter(|manifest| manifest.stage == WriteStage::Filter) {
            let key = key(filter);
            let since = self.due(&key, Some(filter));
            for gateway in &filter.gateways {
                let of_gateway = by_gateway.entry(gateway).or_insert(since);
                *of_gateway = of_gateway.zip(since).map(|(one, other)| one.max(other));
            }
            due.extend(since.map(|since| (key, (Some(Arc::clone(filter)), since))));
        }
        for manifest in manifests.iter().filter(|manifest| manifest.stage > WriteStage::Filter) {
            let key = key(manifest);
            let filters = manifest.gateways.iter().filter_map(|gateway| by_gateway.get(gateway));
            let since = self.due(&key, Some(manifest)).or_else(|| latest(filters, now));
            due.extend(since.map(|since| (key, (Some(Arc::clone(manifest)), since))));
        }
        for key in excess {
            let filters = by_gateway.iter();
            let filters = filters.filter(|(gateway, _)| gateway.namespace == key.1.namespace);
            let filters = filters.map(|(_, since)| since);
            let since = self.due(&key, None).or_else(|| latest(filters, now));
            due.extend(since.map(|since| (key, (None, since))));
        }
        self.due = due;
    }

    /// The Gateways of these whose proxies have all that was written or deleted, and nothing is left to be deleted in
    /// their namespaces.
    pub(super) fn settled(&self, gateways: &BTreeSet<ObjectName>, now: Instant) -> BTreeSet<ObjectName> {
        let (mut unsettled, mut namespaces) = (BTreeSet::new(), BTreeSet::new());
        for ((_, name), (wanted, since)) in &self.due {
            match wanted {
                Some(manifest) if *since > now => unsettled.extend(&manifest.gateways),
                Some(_) => {}
                None => drop(namespaces.insert(&name.namespace)),
            }
        }
        let is_settled =
            |gateway: &&ObjectName| !unsettled.contains(gateway) && !namespaces.contains(&gateway.namespace);
        gateways.iter().filter(is_settled).cloned().collect()
    }

    /// Whether anything may be at proxies soon that is not yet.
    pub(super) fn settles(&self, now: Instant) -> bool {
        self.due.values().any(|(_, due)| *due > now)
    }

    /// Lets time pass.
    #[cfg(test)]
    pub(super) fn pass(&mut self, time: Duration) {
        for (_, due) in self.due.values_mut() {
            *due -= time;
        }
    }

    /// When this may be so; `None`: its filters are not as wanted, so that is not known.
    pub(super) fn due(&self, key: &ManifestKey, wanted: Option<&Arc<Manifest>>) -> Option<Instant> {
        let (known, since) = self.due.get(key)?;
        (known.as_ref() == wanted).then_some(*since)
    }
}

/// When the last of these filters is at all proxies: by now, if there is none.
fn latest<'a>(mut filters: impl Iterator<Item = &'a Option<Instant>>, now: Instant) -> Option<Instant> {
    filters.try_fold(now, |latest, filter| filter.map(|filter| latest.max(filter)))
}
