//! Idle timeouts that became shorter.
//!
//! A token is renewed only when it lags by a tenth of its idle timeout, so a session in use may have a token older than
//! a new, shorter timeout. The filter's configuration has this lag until all sessions have other tokens or are over:
//! for the present policy, and only for the namespace of its rules, because equal policies of several namespaces are
//! one. The lags are in memory only: a controller that restarts meanwhile loses them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use limpet_api::Text;
use limpet_core::config::schema::FormerLagConfig;
use limpet_core::config::{idle_bound, longest_lag};
use limpet_core::time::{GatewayDuration, Timestamp};
use limpet_model::Graph;
use limpet_outputs::envoy::ReplacedPolicy;

/// How long Envoys may have the former policy, in seconds: longer than responsive Envoys need for new routes, including
/// their wait for the others.
const UNTIL_ENVOYS_HAVE_IT: u64 = 60;
/// Ends are whole minutes, so that replicas agree, and many changes of one minute are one configuration.
const MINUTE: u64 = 60;

/// Durations are written in milliseconds, and the filter refuses a lag of zero.
const LEAST: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq)]
struct PolicyLag {
    lag: Duration,
    /// Unix time when all sessions from before the change have other tokens, or are over.
    until: u64,
}

/// The lags of a Gateway's sessions, by their present policy and namespace.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct FormerLags(BTreeMap<(Text, Text), PolicyLag>);

impl FormerLags {
    /// Drops expired lags, and adds the replaced policies' lags.
    pub(super) fn catch_up(
        &mut self,
        replaced: &BTreeSet<ReplacedPolicy>,
        (before, after): (&Graph, &Graph),
        max_idle: GatewayDuration,
        now: Timestamp,
    ) {
        self.0.retain(|_, former| now.unix_seconds() <= former.until);
        let kept = self.0.clone();
        for ReplacedPolicy {
            namespace,
            before: was,
            after: is,
        } in replaced
        {
            let with_tokens = |graph: &Graph, policy| {
                let policy = graph.policies.get(policy).filter(|policy| policy.source.is_none());
                policy.cloned()
            };
            let (Some(was_policy), Some(is_policy)) = (with_tokens(before, was), with_tokens(after, is)) else {
                continue;
            };
            let Some(bound) = idle_bound(&is_policy, max_idle) else {
                continue;
            };
            // Tokens may be from before an earlier change, too.
            let earlier = kept.get(&(was.clone(), namespace.clone())).map(|former| former.lag);
            let lag = longest_lag(&was_policy, max_idle).max(earlier.unwrap_or_default());
            if lag <= longest_lag(&is_policy, max_idle) {
                continue;
            }
            let end = now.unix_seconds() + UNTIL_ENVOYS_HAVE_IT + (bound + bound / 10).as_secs();
            let until = end.next_multiple_of(MINUTE);
            let known = self.0.get(&(is.clone(), namespace.clone()));
            let lag = known.map_or(lag, |known| known.lag.max(lag));
            self.0.insert((is.clone(), namespace.clone()), PolicyLag { lag, until });
        }
    }

    pub(super) fn retain(&mut self, has: impl Fn(&Text, &Text) -> bool) {
        self.0.retain(|(policy, namespace), _| has(policy, namespace));
    }

    /// By how much the life of all tokens is longer.
    pub(super) fn longest(&self) -> Option<Duration> {
        self.0.values().map(|former| former.lag).max()
    }

    pub(super) fn for_filter(&self) -> BTreeMap<Text, Vec<FormerLagConfig>> {
        let mut all: BTreeMap<Text, Vec<_>> = BTreeMap::new();
        for ((policy, namespace), former) in &self.0 {
            all.entry(policy.clone()).or_default().push(FormerLagConfig {
                namespace: Some(namespace.to_string()),
                lag: former.lag.max(LEAST).into(),
                until: former.until,
            });
        }
        all
    }
}
