//! Retained policies: policies that no route uses any more.
//!
//! A policy's name is a hash of its content, so a policy that changes gets another name. Envoy gets the filter's
//! configuration before the routes that name the new policy. Without the old policy, the routes that it still has would
//! lose their sessions for that moment. So the policies of the last published routes are retained until all connected
//! Envoys of the Gateway have the new routes. One that acknowledges nothing makes no configuration grow without end:
//! beyond [`MOST`], only what the changes of the last minute have left is retained.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use limpet_api::ObjectName;
use limpet_core::config::schema::PolicyConfig;
use limpet_model::Graph;
use limpet_outputs::Used;

/// How many policies of earlier changes a Gateway retains, besides those of the last minute.
pub(super) const MOST: usize = 64;
/// Longer than Envoys that answer need for new routes, and than these wait for the answers of others.
pub(super) const YOUNG: Duration = Duration::from_secs(60);

/// By Gateway, and by the policy's name.
pub(super) type RetainedPolicies = BTreeMap<ObjectName, BTreeMap<String, Retained>>;

/// A policy that no published route names any more.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Retained {
    pub(super) policy: PolicyConfig,
    pub(super) since: Instant,
}

/// What Gateways use.
pub(super) type UsedByGateway = BTreeMap<ObjectName, Used>;

/// By the policy's name.
pub(super) fn configs(retained: &BTreeMap<String, Retained>) -> BTreeMap<String, PolicyConfig> {
    let configs = retained.iter();
    configs
        .map(|(name, retained)| (name.clone(), retained.policy.clone()))
        .collect()
}

/// By Gateway, and by the policy's name.
pub(super) fn policies_of(all: &RetainedPolicies) -> BTreeMap<ObjectName, BTreeMap<String, PolicyConfig>> {
    let all = all.iter();
    all.map(|(gateway, retained)| (gateway.clone(), configs(retained)))
        .collect()
}

/// The policies of `published`, and of what it retains in `kept`, that the Gateways of a graph do not use. `before` and
/// `now`: what those of both use. `at`: the time.
pub(super) fn retained_policies(
    published: &Graph,
    kept: &RetainedPolicies,
    before: &UsedByGateway,
    now: &UsedByGateway,
    at: Instant,
) -> RetainedPolicies {
    let mut retained = RetainedPolicies::new();
    for (gateway, used) in now {
        let Some(before) = before.get(gateway) else {
            continue;
        };
        let mut policies = kept.get(gateway).cloned().unwrap_or_default();
        policies.retain(|name, _| !used.has_policy(name));
        if policies.len() > MOST {
            policies.retain(|_, retained| at.duration_since(retained.since) < YOUNG);
        }
        for name in used.dropped_policies(before) {
            let policy = published.policies.get(&name);
            let retain = |policy| Retained {
                policy: PolicyConfig::clone(policy),
                since: at,
            };
            policies.extend(policy.map(|policy| (name.to_string(), retain(policy))));
        }
        if !policies.is_empty() {
            retained.insert(gateway.clone(), policies);
        }
    }
    retained
}
