//! The list of fences.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cluster::reconcile::config_map::Content;
use limpet_core::config::schema::FenceConfig;
use limpet_core::time::Timestamp;

/// The maximum number of fences. A ConfigMap has room for more (1 MiB).
const MOST: usize = 5000;

/// Keeps the sessions of an address's former owners from its new owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Fence {
    pub(crate) address: SocketAddr,
    /// In Unix seconds. Sessions that began before this time are not those of the new owner.
    pub(crate) not_before: u64,
    /// The uid of the new owner.
    pub(crate) owner: String,
}

/// Fences by address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct List(BTreeMap<SocketAddr, Fence>);

impl Content for List {
    const FIELD: &'static str = "fences.json";
    const ADVICE: &'static str = "the previous fences stay in use where they are known. \
                                  Correct it, or delete it if no fence is needed any more";

    fn parse(text: &str) -> Result<Self, String> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let read: Result<Vec<Fence>, _> = serde_path_to_error::deserialize(&mut deserializer);
        let fences = read.map_err(|error| error.to_string())?;
        deserializer.end().map_err(|error| error.to_string())?;
        Ok(fences.into_iter().collect())
    }

    /// The list as sorted JSON, one fence per line.
    fn text(&self) -> String {
        let line = |fence: &Fence| serde_json::to_string(fence).unwrap_or_default();
        let lines: Vec<String> = self.0.values().map(line).collect();
        format!("[{}]", lines.join(",\n"))
    }

    fn count(&self) -> usize {
        self.len()
    }
}

impl List {
    /// The fences for the filter's configuration.
    pub(crate) fn config(&self) -> Vec<FenceConfig> {
        let config = |fence: &Fence| FenceConfig {
            address: fence.address.to_string(),
            not_before: fence.not_before,
        };
        self.0.values().map(config).collect()
    }

    pub(crate) fn get(&self, address: SocketAddr) -> Option<&Fence> {
        self.0.get(&address)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Fence> {
        self.0.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The list with new fences and without expired ones, and how many of the oldest had to go because there are too
    /// many. `None`: the list need not be written.
    pub(crate) fn with(&self, new: &[Fence], life: Duration, now: Timestamp) -> Option<(Self, usize)> {
        let is_over = |fence: &Fence| Timestamp::from_unix_seconds(fence.not_before).after(life) <= now;
        let over = self.iter().filter(|fence| is_over(fence)).count();
        // After each write of the list, every Envoy sets up the filter again. So expired fences go together.
        if new.is_empty() && (over == 0 || over < self.len() / 4) {
            return None;
        }
        let mut all: List = self.iter().filter(|fence| !is_over(fence)).cloned().collect();
        all.0.extend(new.iter().map(|fence| (fence.address, fence.clone())));
        let excess = all.len().saturating_sub(MOST);
        if excess > 0 {
            let mut by_age: Vec<_> = all.iter().map(|fence| (fence.not_before, fence.address)).collect();
            by_age.sort_unstable();
            for (_, address) in by_age.into_iter().take(excess) {
                all.0.remove(&address);
            }
        }
        Some((all, excess))
    }
}

/// Of several fences for one address, the latest counts.
impl FromIterator<Fence> for List {
    fn from_iter<I: IntoIterator<Item = Fence>>(fences: I) -> Self {
        let mut all = BTreeMap::new();
        for fence in fences {
            let known: Option<&Fence> = all.get(&fence.address);
            if known.is_none_or(|known| known.not_before <= fence.not_before) {
                all.insert(fence.address, fence);
            }
        }
        Self(all)
    }
}
