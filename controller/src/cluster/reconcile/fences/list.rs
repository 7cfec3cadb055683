use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::owners::RoutedAddress;
use crate::cluster::reconcile::config_map::{ConfigMapContent, ConfigMapFields, ConfigMapPatch};
use limpet_core::config;
use limpet_core::config::schema::FenceConfig;
use limpet_core::time::Timestamp;
use limpet_model::beyond_share;

/// The most fences. A ConfigMap has room for more (1 MiB). Each namespace has a fair share.
const MOST: usize = 5000;

/// Keeps the sessions of an address's former owners from its new owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AddressFence {
    /// Of the fenced routes.
    pub(crate) namespace: String,
    pub(crate) address: SocketAddr,
    /// Unix seconds. Earlier sessions are not the new owner's.
    pub(crate) not_before: u64,
    /// The new owner's uid.
    pub(crate) owner: String,
}

impl AddressFence {
    pub(super) fn at(&self) -> RoutedAddress {
        RoutedAddress {
            address: self.address,
            namespace: self.namespace.as_str().into(),
        }
    }

    pub(super) fn is_over(&self, life: Duration, now: Timestamp) -> bool {
        Timestamp::from_unix_seconds(self.not_before).after(life) <= now
    }

    pub(super) fn config(&self) -> FenceConfig {
        FenceConfig {
            address: self.address.to_string(),
            namespace: Some(self.namespace.clone()),
            not_before: self.not_before,
        }
    }
}

/// Fences by address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FenceList(BTreeMap<RoutedAddress, AddressFence>);

const FIELD: &str = "fences.json";

impl ConfigMapContent for FenceList {
    const WHAT: &'static str = "fences";
    const ADVICE: &'static str = "the previous fences stay in use where they are known. \
                                  Correct it, or delete it if no fence is needed any more";

    fn parse(fields: &ConfigMapFields) -> Result<Self, String> {
        let list = fields.get(FIELD).map(|text| Self::read(text)).transpose();
        Ok(list
            .map_err(|error| format!("data[{FIELD}]: {error}"))?
            .unwrap_or_default())
    }

    fn changes(&self, _: &Self) -> ConfigMapPatch {
        BTreeMap::from([(FIELD.to_owned(), Some(self.text()))])
    }

    fn count(&self) -> usize {
        self.len()
    }
}

impl FenceList {
    /// Fails with the invalid field and the expectation.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let fences: Vec<AddressFence> = config::read(text.as_bytes(), "the list").map_err(|error| error.to_string())?;
        Ok(fences.into_iter().collect())
    }

    /// Sorted JSON, one fence per line.
    pub(super) fn text(&self) -> String {
        let line = |fence: &AddressFence| serde_json::to_string(fence).unwrap_or_default();
        let lines: Vec<String> = self.0.values().map(line).collect();
        format!("[{}]", lines.join(",\n"))
    }

    pub(crate) fn config(&self) -> Vec<FenceConfig> {
        self.0.values().map(AddressFence::config).collect()
    }

    pub(super) fn get(&self, at: &RoutedAddress) -> Option<&AddressFence> {
        self.0.get(at)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &AddressFence> {
        self.0.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The list with new fences and without expired ones, and how many were dropped for lack of room: the oldest of
    /// each namespace above its share. `None`: unchanged.
    pub(crate) fn with(&self, new: &[AddressFence], life: Duration, now: Timestamp) -> Option<(Self, usize)> {
        let is_over = |fence: &AddressFence| fence.is_over(life, now);
        let over = self.iter().filter(|fence| is_over(fence)).count();
        // Each write makes every Envoy set up the filter again, so expired fences go together.
        if new.is_empty() && (over == 0 || over < self.len() / 4) {
            return None;
        }
        let mut all: FenceList = self.iter().filter(|fence| !is_over(fence)).cloned().collect();
        all.0.extend(new.iter().map(|fence| (fence.at(), fence.clone())));
        let excess = all.excess();
        for at in &excess {
            all.0.remove(at);
        }
        // A list that lacks only dropped fences need not be written.
        (all != *self).then_some((all, excess.len()))
    }

    fn excess(&self) -> Vec<RoutedAddress> {
        let mut by_namespace: BTreeMap<&str, Vec<(u64, &RoutedAddress)>> = BTreeMap::new();
        for (at, fence) in &self.0 {
            let fences = by_namespace.entry(&at.namespace).or_default();
            fences.push((fence.not_before, at));
        }
        let oldest = beyond_share(by_namespace, MOST);
        oldest.into_iter().map(|(_, at)| at.clone()).collect()
    }
}

/// The latest fence for an address counts.
impl FromIterator<AddressFence> for FenceList {
    fn from_iter<I: IntoIterator<Item = AddressFence>>(fences: I) -> Self {
        let mut all = BTreeMap::new();
        for fence in fences {
            let known: Option<&AddressFence> = all.get(&fence.at());
            if known.is_none_or(|known| known.not_before <= fence.not_before) {
                all.insert(fence.at(), fence);
            }
        }
        Self(all)
    }
}
