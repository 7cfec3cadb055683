//! Idle timeouts that became shorter.
//!
//! A token is renewed only when it lags by a tenth of its idle timeout, so that of a session in use may be older than
//! another, shorter one allows. The filter's configuration has the former one until no session depends on it any more:
//! for the policy that rules have now, and for the namespace of these rules only, because policies are shared by all
//! who write the same. This is in the memory of a process: a controller that restarts meanwhile does not know it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use limpet_api::Text;
use limpet_core::config::schema::{FilterConfig, FormerIdleTimeoutConfig};
use limpet_core::config::{idle_bound, life};
use limpet_core::time::GatewayDuration;
use limpet_model::Graph;
use limpet_outputs::envoy::ReplacedPolicy;

/// For how long the former one counts after the change. Longer than Envoys that answer need for new routes, and than
/// these wait for the answers of others.
const UNTIL_ENVOYS_HAVE_IT: Duration = Duration::from_secs(60);

/// An idle timeout that sessions had.
#[derive(Debug, Clone, PartialEq)]
struct FormerIdle {
    idle: Duration,
    /// Until when it counts: all Envoys have the other one by then. In whole seconds of Unix time.
    until: Duration,
    /// When all sessions are over that were not used since then.
    end: Duration,
}

/// What sessions of a Gateway had, by the policy that they have now and their namespace.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct FormerIdles(BTreeMap<(Text, Text), FormerIdle>);

/// The policies of a graph, and the idle bound of those without a timeout.
pub(super) struct Bounds<'g> {
    pub(super) graph: &'g Graph,
    pub(super) max_idle: Option<GatewayDuration>,
}

impl Bounds<'_> {
    fn max_idle(&self) -> GatewayDuration {
        let default = || FilterConfig::without_keys(BTreeMap::new()).max_idle;
        self.max_idle.unwrap_or_else(default)
    }

    /// How long tokens of the policy could stay unused.
    fn before(&self, policy: &str) -> Option<Duration> {
        let policy = self.graph.policies.get(policy)?;
        policy.carrier().map(|_| life(policy, self.max_idle()))
    }

    /// After which time without use tokens of the policy are refused.
    fn after(&self, policy: &str) -> Option<Duration> {
        let policy = self.graph.policies.get(policy)?;
        policy.carrier().and_then(|_| idle_bound(policy, self.max_idle()))
    }
}

impl FormerIdles {
    /// Forgets what no session depends on any more, and adds what these policies had that are replaced. `now` is in
    /// Unix time.
    pub(super) fn catch_up(
        &mut self,
        replaced: &BTreeSet<ReplacedPolicy>,
        before: &Bounds<'_>,
        after: &Bounds<'_>,
        now: Duration,
    ) {
        self.0.retain(|_, former| now <= former.end);
        if replaced.is_empty() {
            return;
        }
        let until = Duration::from_secs(now.as_secs()) + UNTIL_ENVOYS_HAVE_IT;
        let kept = self.0.clone();
        for ReplacedPolicy {
            namespace,
            before: was,
            after: is,
        } in replaced
        {
            let (Some(idle), Some(bound)) = (before.before(was), after.after(is)) else {
                continue;
            };
            // Tokens may be from before an earlier change, too.
            let earlier = |policy: &Text| Some(kept.get(&(policy.clone(), namespace.clone()))?.idle);
            let idle = idle.max(earlier(was).unwrap_or_default());
            if idle <= bound {
                continue;
            }
            let former = self.0.entry((is.clone(), namespace.clone())).or_insert(FormerIdle {
                idle,
                until,
                end: until,
            });
            former.idle = former.idle.max(idle);
            former.until = until;
            former.end = until + bound + bound / 10;
        }
    }

    /// Keeps those of these policies and namespaces.
    pub(super) fn retain(&mut self, has: impl Fn(&Text, &Text) -> bool) {
        self.0.retain(|(policy, namespace), _| has(policy, namespace));
    }

    /// The longest one.
    pub(super) fn longest(&self) -> Option<Duration> {
        self.0.values().map(|former| former.idle).max()
    }

    pub(super) fn for_filter(&self) -> BTreeMap<Text, Vec<FormerIdleTimeoutConfig>> {
        let mut all: BTreeMap<Text, Vec<_>> = BTreeMap::new();
        for ((policy, namespace), former) in &self.0 {
            all.entry(policy.clone()).or_default().push(FormerIdleTimeoutConfig {
                namespace: Some(namespace.to_string()),
                idle_timeout: former.idle.into(),
                until: former.until.as_secs(),
            });
        }
        all
    }
}
