//! Users of a filter are written when proxies can have the filter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::difference::{ManifestKey, key};
use limpet_api::ObjectName;
use limpet_outputs::manifests::{Manifest, WriteStage};

/// When objects may be written. Each one of the second stage waits only for the first sufficient version of its own
/// Gateways' filters, because later ones suffice as well.
#[derive(Debug)]
pub(super) struct Propagation {
    /// How long proxies need for a written object.
    time: Duration,
    /// The wanted object (`None`: none), and when it may be written or deleted; after that, when all proxies know.
    due: BTreeMap<ManifestKey, (Option<Arc<Manifest>>, Instant)>,
}

impl Propagation {
    pub(super) fn new(time: Duration) -> Self {
        let due = BTreeMap::new();
        Self { time, due }
    }

    pub(super) fn time(&self) -> Duration {
        self.time
    }

    /// Forgets all, because another replica may write.
    pub(super) fn clear(&mut self) {
        self.due.clear();
    }

    pub(super) fn record(&mut self, key: ManifestKey, wanted: Option<&Arc<Manifest>>, now: Instant) {
        self.due.insert(key, (wanted.cloned(), now + self.time));
    }

    /// If it is new here, another replica may have written it just now.
    pub(super) fn record_unchanged(&mut self, manifest: &Arc<Manifest>, now: Instant) {
        let key = key(manifest);
        if manifest.stage == WriteStage::Filter && self.due(&key, Some(manifest)).is_none() {
            self.record(key, Some(manifest), now);
        }
    }

    /// Decides when new objects may be written, and `excess` deleted. The latter waits for the filters of all Gateways
    /// in its namespace, because its own Gateway is unknown.
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

    /// Gateways whose proxies have everything, without deletions left in their namespaces.
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

    /// Whether proxies lack a change.
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

    /// When it may be written or deleted. `None`: unknown, because its filters are not as wanted.
    pub(super) fn due(&self, key: &ManifestKey, wanted: Option<&Arc<Manifest>>) -> Option<Instant> {
        let (known, since) = self.due.get(key)?;
        (known.as_ref() == wanted).then_some(*since)
    }
}

/// When all proxies have these filters; without filters, now.
fn latest<'a>(mut filters: impl Iterator<Item = &'a Option<Instant>>, now: Instant) -> Option<Instant> {
    filters.try_fold(now, |latest, filter| filter.map(|filter| latest.max(filter)))
}
