//! Policies that no route uses any more.
//!
//! A policy's name tells what is in it, so a policy that changes is another one. Envoy gets the filter's configuration before the routes that name the new
//! policy; if it lost the old one with it, the routes that it still has would be without sessions for that moment. So what the routes that were published
//! last use is kept beside what the new ones use, and dropped once all connected Envoys have these.

use std::collections::BTreeMap;

use limpet_core::config::schema::PolicyConfig;

use limpet_api::ObjectName;
use limpet_model::Graph;
use limpet_outputs::used_policies;

/// Of each Gateway.
pub(super) type RetainedPolicies = BTreeMap<ObjectName, BTreeMap<String, PolicyConfig>>;

/// What is to be kept of `published`, and of what is kept beside it, next to the policies of `graph`.
pub(super) fn retained_policies(published: &Graph, kept: &RetainedPolicies, graph: &Graph) -> RetainedPolicies {
    let mut retained = RetainedPolicies::new();
    for gateway in published
        .gateways
        .keys()
        .filter(|gateway| graph.gateways.contains_key(gateway))
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
