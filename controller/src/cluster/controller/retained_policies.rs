//! Retained policies: policies that no route uses any more.
//!
//! A policy's name is a hash of its content, so a policy that changes gets another name. Envoy gets the filter's
//! configuration before the routes that name the new policy. Without the old policy, the routes that it still has would
//! lose their sessions for that moment. So the policies of the last published routes are retained until all connected
//! Envoys of the Gateway have the new routes. One that acknowledges nothing makes no configuration grow without end:
//! beyond [`MOST`], only what the last change has left is retained.

use std::collections::BTreeMap;

use limpet_api::ObjectName;
use limpet_core::config::schema::PolicyConfig;
use limpet_model::Graph;
use limpet_outputs::Used;

/// How many policies of earlier changes a Gateway retains.
pub(super) const MOST: usize = 64;

/// By Gateway, and by the policy's name.
pub(super) type RetainedPolicies = BTreeMap<ObjectName, BTreeMap<String, PolicyConfig>>;

/// What Gateways use.
pub(super) type UsedByGateway = BTreeMap<ObjectName, Used>;

/// The policies of `published`, and of what it retains in `kept`, that the Gateways of a graph do not use. `before` and
/// `now`: what those of both use.
pub(super) fn retained_policies(
    published: &Graph,
    kept: &RetainedPolicies,
    before: &UsedByGateway,
    now: &UsedByGateway,
) -> RetainedPolicies {
    let mut retained = RetainedPolicies::new();
    for (gateway, used) in now {
        let Some(before) = before.get(gateway) else {
            continue;
        };
        let mut policies = kept.get(gateway).cloned().unwrap_or_default();
        policies.retain(|name, _| !used.has_policy(name));
        if policies.len() > MOST {
            policies.clear();
        }
        for name in used.dropped_policies(before) {
            let policy = published.policies.get(&name);
            policies.extend(policy.map(|policy| (name.to_string(), PolicyConfig::clone(policy))));
        }
        if !policies.is_empty() {
            retained.insert(gateway.clone(), policies);
        }
    }
    retained
}
