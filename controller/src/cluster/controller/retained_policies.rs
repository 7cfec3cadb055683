//! Retained policies: policies that no route uses any more.
//!
//! A policy's name is a hash of its content, so a policy that changes gets another name. Envoy gets the filter's
//! configuration before the routes that name the new policy. Without the old policy, the routes that it still has would
//! lose their sessions for that moment. So the policies of the last published routes are retained until all connected
//! Envoys of the Gateway have the new routes. One that acknowledges nothing makes no configuration grow without end:
//! beyond [`MOST`], only what the changes of the last minute have left is retained, and [`MOST_YOUNG`] of that.
//!
//! The same holds for namespaces that no route has sessions of any more: their fences are for the former routes, too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use limpet_api::{ObjectName, Text};
use limpet_core::config::schema::PolicyConfig;
use limpet_core::time::{GatewayDuration, Timestamp};
use limpet_model::Graph;
use limpet_outputs::GatewayReferences;

use super::former_lags::FormerLags;
use crate::time_format;

/// How many policies of earlier changes a Gateway retains, besides those of the last minute.
pub(super) const MOST: usize = 64;
/// How many it retains in all. The oldest ones go.
const MOST_YOUNG: usize = 1000;
/// Longer than Envoys that answer need for new routes, and than these wait for the answers of others.
pub(super) const YOUNG: Duration = Duration::from_secs(60);

pub(super) type RetainedByGateway = BTreeMap<ObjectName, RetainedState>;

/// What no published route of a Gateway needs any more.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RetainedState {
    /// By name.
    pub(super) policies: BTreeMap<String, RetainedPolicy>,
    pub(super) namespaces: BTreeSet<Text>,
    /// Kept even when all Envoys have the new routes: clients still have old tokens.
    pub(super) former_lags: FormerLags,
}

/// A policy that no published route names any more.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RetainedPolicy {
    pub(super) policy: PolicyConfig,
    pub(super) since: Instant,
}

/// What Gateways use.
pub(super) type UsedByGateway = BTreeMap<ObjectName, GatewayReferences>;

impl RetainedState {
    pub(super) fn for_filter(&self) -> limpet_outputs::RetainedConfig {
        let policies = self.policies.iter();
        limpet_outputs::RetainedConfig {
            policies: policies
                .map(|(name, retained)| (name.clone(), retained.policy.clone()))
                .collect(),
            namespaces: self.namespaces.clone(),
            former_lags: self.former_lags.for_filter(),
        }
    }

    /// Whether Envoys with earlier routes may need any of it.
    pub(super) fn is_for_earlier_routes(&self) -> bool {
        !self.policies.is_empty() || !self.namespaces.is_empty()
    }

    /// Drops what Envoys with earlier routes need.
    pub(super) fn drop_earlier_routes(&mut self) {
        self.policies.clear();
        self.namespaces.clear();
    }
}

/// A time, on the clock that is never set and on the one of tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) instant: Instant,
    pub(super) unix: Timestamp,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self {
            instant: Instant::now(),
            unix: time_format::now(),
        }
    }
}

pub(super) fn for_filters(all: &RetainedByGateway) -> BTreeMap<ObjectName, limpet_outputs::RetainedConfig> {
    let all = all.iter();
    all.map(|(gateway, retained)| (gateway.clone(), retained.for_filter()))
        .collect()
}

/// What the routes of the published graph, and of what it retains in `kept`, need and the Gateways of another graph do
/// not use, and how old tokens of their sessions may be. `graphs`: the published one and the other one, each with what
/// its Gateways use. `at`: the time.
pub(super) fn retained_policies(
    kept: &RetainedByGateway,
    graphs: [(&Graph, &UsedByGateway); 2],
    max_idle: GatewayDuration,
    at: Moment,
) -> RetainedByGateway {
    let mut all = RetainedByGateway::new();
    let [(was, used_before), (is, used_now)] = graphs;
    for (gateway, used) in used_now {
        let Some(before) = used_before.get(gateway) else {
            continue;
        };
        let mut retained = kept.get(gateway).cloned().unwrap_or_default();
        let policies = &mut retained.policies;
        policies.retain(|name, _| !used.has_policy(name));
        if policies.len() > MOST {
            policies.retain(|_, retained| at.instant.duration_since(retained.since) < YOUNG);
        }
        for name in used.dropped_policies(before) {
            let policy = was.policies.get(&name);
            let retain = |policy| RetainedPolicy {
                policy: PolicyConfig::clone(policy),
                since: at.instant,
            };
            policies.extend(policy.map(|policy| (name.to_string(), retain(policy))));
        }
        drop_oldest(policies, MOST_YOUNG);
        retained.namespaces.extend(used.dropped_namespaces(before));
        retained.namespaces.retain(|namespace| !used.has_namespace(namespace));
        let replaced = before.replaced_policies(gateway, was, is);
        retained.former_lags.catch_up(&replaced, (was, is), max_idle, at.unix);
        let (policies, namespaces) = (&retained.policies, &retained.namespaces);
        retained.former_lags.retain(|policy, namespace| {
            (used.has_policy(policy) || policies.contains_key(&**policy))
                && (used.has_namespace(namespace) || namespaces.contains(namespace))
        });
        if retained != RetainedState::default() {
            all.insert(gateway.clone(), retained);
        }
    }
    all
}

fn drop_oldest(policies: &mut BTreeMap<String, RetainedPolicy>, most: usize) {
    let more = policies.len().saturating_sub(most);
    if more == 0 {
        return;
    }
    let mut by_age: Vec<(Instant, String)> = policies
        .iter()
        .map(|(name, retained)| (retained.since, name.clone()))
        .collect();
    by_age.sort_unstable();
    for (_, name) in by_age.into_iter().take(more) {
        policies.remove(&name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_within_a_minute_left_policies_without_end() {
        let policy: PolicyConfig = serde_json::from_value(serde_json::json!({"cookie": {"name": "c"}})).unwrap();
        let start = Instant::now();
        let retained = |number: u64| RetainedPolicy {
            policy: policy.clone(),
            since: start + Duration::from_secs(number),
        };
        // The names are in another order than the times.
        let name = |number: u64| format!("{}", 9 - number);
        let mut policies: BTreeMap<_, _> = (0..5).map(|number| (name(number), retained(number))).collect();
        drop_oldest(&mut policies, 5);
        assert_eq!(policies.len(), 5);
        drop_oldest(&mut policies, 2);
        assert_eq!(policies.keys().collect::<Vec<_>>(), [&name(4), &name(3)]);
    }
}
