//! Fences ahead of a wrong clock, or with a wrong time. Until its time, each would refuse every token for its address,
//! also the new owner's.

use std::collections::{BTreeMap, BTreeSet};

use super::keys::ConfigWarning;
use super::longest_life;
use super::schema::{FenceConfig, FilterConfig};
use crate::time::Timestamp;

/// When the fences ahead of the clock begin. One for the process, because a fence that restarts with each configuration
/// ends all sessions.
#[derive(Debug, Default)]
pub struct FencesAhead(BTreeMap<FenceConfig, u64>);

impl FencesAhead {
    /// An empty one.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Lets every fence begin at most `clockSkew` after `now`, when the configuration is read. The new owner has no
    /// older token.
    pub fn bound(&mut self, config: &mut FilterConfig, now: Timestamp) -> Option<ConfigWarning> {
        let skew = config.clock_skew.get();
        let latest = now.after(skew).unix_millis().div_ceil(1000);
        self.forget(config, now);
        let mut ahead = Vec::new();
        for (index, fence) in config.fences.iter_mut().enumerate() {
            let is_ahead = fence.not_before > latest;
            if is_ahead {
                ahead.push((index, fence.not_before));
            }
            if is_ahead || self.0.contains_key(fence) {
                // Even later, it begins when it did: sessions have begun since.
                fence.not_before = *self.0.entry(fence.clone()).or_insert(latest);
            }
        }
        let (index, not_before) = *ahead.first()?;
        Some(ConfigWarning::FenceAhead {
            field: format!("fences[{index}].notBefore"),
            not_before,
            skew: config.clock_skew,
            others: ahead.len() - 1,
        })
    }

    /// Forgets fences that no configuration has, and that have ended every session that they could.
    fn forget(&mut self, config: &FilterConfig, now: Timestamp) {
        if self.0.is_empty() {
            return;
        }
        let life = longest_life(config);
        let listed: BTreeSet<&FenceConfig> = config.fences.iter().collect();
        self.0
            .retain(|fence, begin| listed.contains(fence) || Timestamp::from_unix_seconds(*begin).after(life) > now);
    }
}
