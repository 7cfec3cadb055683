//! Retained policies: policies that no route uses any more.
//!
//! A policy's name is a hash of its content, so a policy that changes gets another name. Envoy gets the filter's
//! configuration before the routes that name the new policy. Without the old policy, the routes that it still has would
//! lose their sessions for that moment. So the policies of the last published routes are retained until all connected
//! Envoys have the new routes.

use std::collections::BTreeMap;

use limpet_api::ObjectName;
use limpet_core::config::schema::PolicyConfig;
use limpet_model::Graph;
use limpet_outputs::used_policies;

/// By Gateway, and by the policy's name.
pub(super) type RetainedPolicies = BTreeMap<ObjectName, BTreeMap<String, PolicyConfig>>;

/// The policies of `published`, and of what it retains in `kept`, that `graph` does not use.
pub(super) fn retained_policies(published: &Graph, kept: &RetainedPolicies, graph: &Graph) -> RetainedPolicies {
    let mut retained = RetainedPolicies::new();
    for gateway in published
        .gateways
        .keys()
        .filter(|gateway| graph.gateways.contains_key(*gateway))
    {
        let mut policies = kept.get(gateway).cloned().unwrap_or_default();
        policies.extend(used_policies(published, gateway));
        let used = used_policies(graph, gateway);
        policies.retain(|name, _| !used.contains_key(name));
        if !policies.is_empty() {
            retained.insert(gateway.clone(), policies);
        }
    }
    retained
}
