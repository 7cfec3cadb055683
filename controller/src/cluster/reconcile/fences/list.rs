//! The list of fences.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use limpet_core::config::schema::FenceConfig;
use limpet_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// How many fences are kept at the most: what a ConfigMap holds (1 MiB), with room to spare.
const MOST: usize = 5000;

/// An address that changed hands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Fence {
    /// The address, with its port.
    pub(crate) address: SocketAddr,
    /// Unix seconds: sessions that began before are not its new owner's.
    pub(crate) not_before: u64,
    /// The new owner, by its uid.
    pub(crate) owner: String,
}

/// Fences by their addresses, one for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct List(BTreeMap<SocketAddr, Fence>);

impl List {
    /// Reads the JSON that [`List::text`] makes.
    ///
    /// # Errors
    /// The first field that is wrong, and how.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let read: Result<Vec<Fence>, _> = serde_path_to_error::deserialize(&mut deserializer);
        let fences = read.map_err(|error| error.to_string())?;
        deserializer.end().map_err(|error| error.to_string())?;
        Ok(fences.into_iter().collect())
    }

    /// The list as JSON, sorted, one fence a line.
    pub(crate) fn text(&self) -> String {
        let line = |fence: &Fence| serde_json::to_string(fence).unwrap_or_default();
        let lines: Vec<String> = self.0.values().map(line).collect();
        format!("[{}]", lines.join(",\n"))
    }

    /// As the filter's configuration has them.
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

    /// With further fences, without those that no token is old enough for any more; `None`: that is no reason to write it anew. Should there be
    /// too many, those that are oldest go; how many these are is the second answer.
    pub(crate) fn with(&self, new: &[Fence], life: Duration, now: Timestamp) -> Option<(Self, usize)> {
        let is_over = |fence: &Fence| Timestamp::from_unix_seconds(fence.not_before).after(life) <= now;
        let over = self.iter().filter(|fence| is_over(fence)).count();
        // Each time the list is written, every Envoy sets up the filter again: so not for every one that is over.
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

/// Of several for one address the last one counts.
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
