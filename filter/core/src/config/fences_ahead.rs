//! Fences that are ahead of the clock, because of a wrong clock or a mistaken time.
//!
//! Until its time comes, such a fence would refuse every token for its address, also the new owner's: clients that
//! return get another session, again and again.

use std::collections::{BTreeMap, BTreeSet};

use super::keys::Warning;
use super::longest_life;
use super::schema::{FenceConfig, FilterConfig};
use crate::time::Timestamp;

/// When the fences that are ahead of the clock begin. A process has one of it, whatever configurations it reads: a
/// fence that restarted with each of them would never let a session live.
#[derive(Debug, Default)]
pub struct FencesAhead(BTreeMap<FenceConfig, u64>);

impl FencesAhead {
    /// An empty one.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Lets every fence of a configuration begin after `clockSkew` at the latest. `now` is when the configuration is
    /// read. No token can be older than this fence and belong to the new owner: the former one lost the address before
    /// the fence was written.
    pub fn bound(&mut self, config: &mut FilterConfig, now: Timestamp) -> Option<Warning> {
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
                // After its time has come, it still begins when it did: sessions have begun since.
                fence.not_before = *self.0.entry(fence.clone()).or_insert(latest);
            }
        }
        let (index, not_before) = *ahead.first()?;
        Some(Warning::FenceAhead {
            field: format!("fences[{index}].notBefore"),
            not_before,
            skew: config.clock_skew,
            others: ahead.len() - 1,
        })
    }

    /// Forgets fences that are in no configuration any more, and have ended every session that they could.
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
