//! The policies that the filter of a Gateway has room for: its Envoys read all of them again with each change. If not
//! all have room, each namespace has a fair share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limpet_api::{ObjectName, Text};
use limpet_core::config::schema::PolicyConfig;
use limpet_model::graph::{Gateway, RuleName, VirtualHost};
use limpet_model::{Extent, Graph, Map, Unsupported, within_share};
use limpet_resources::changes;

use crate::used::{GatewayReferences, hosts, route_sessions};

/// The most bytes of JSON of a Gateway's policies: about 16,000 policies, which take 110 MB in an Envoy.
pub const MOST_BYTES: usize = 4 << 20;

/// The limit of an object for another control plane, which has to fit into the API server.
pub const MOST_BYTES_OF_OBJECT: usize = 512 << 10;

/// The policies that a Gateway's filter has.
#[must_use]
pub fn used_policies(graph: &Graph, gateway: &ObjectName) -> BTreeMap<String, PolicyConfig> {
    GatewayReferences::by(graph, gateway).policies_within(graph, MOST_BYTES)
}

/// The policies that have no room. It looks again only when a Gateway's routes or their policies change: other Gateways
/// with many policies delay no build.
#[derive(Debug, Default)]
pub struct PolicyRoom(BTreeMap<ObjectName, FoundRoom>);

#[derive(Debug)]
struct FoundRoom {
    used: GatewayReferences,
    policies: Map<Text, PolicyConfig>,
    gateway: Option<Arc<Gateway>>,
    lost: Vec<Unsupported>,
}

impl PolicyRoom {
    /// Returns the rules that lose sessions because their policies have no room. `used`: what each Gateway uses.
    pub fn catch_up(&mut self, graph: &Graph, used: &BTreeMap<ObjectName, GatewayReferences>) -> Vec<Unsupported> {
        let mut lost = Vec::new();
        let mut known = std::mem::take(&mut self.0);
        for (gateway, used) in used {
            let known = known.remove(gateway);
            let known = known.filter(|found| found.holds(graph, gateway, used));
            let lost_here = known.map_or_else(|| used.without_policies(graph, gateway, MOST_BYTES), |found| found.lost);
            lost.extend(lost_here.iter().cloned());
            let found = FoundRoom {
                used: used.clone(),
                policies: graph.policies.clone(),
                gateway: graph.gateways.get(gateway).cloned(),
                lost: lost_here,
            };
            self.0.insert(gateway.clone(), found);
        }
        lost
    }
}

impl FoundRoom {
    fn holds(&self, graph: &Graph, gateway: &ObjectName, used: &GatewayReferences) -> bool {
        let mut policies = changes(&self.policies, &graph.policies);
        if used.has_other_policies(&self.used) || policies.any(|(policy, ..)| used.has_policy(policy)) {
            return false;
        }
        // Where nothing is lost, it does not matter which rules have the policies.
        self.lost.is_empty()
            || (used.changes(&self.used).next().is_none() && graph.gateways.get(gateway) == self.gateway.as_ref())
    }
}

impl GatewayReferences {
    /// The policies that have room, with their content.
    #[must_use]
    pub fn policies_within(&self, graph: &Graph, most_bytes: usize) -> BTreeMap<String, PolicyConfig> {
        let known = |name| graph.policies.get_key_value(name);
        let used = self.kept_policies(graph, most_bytes).into_iter().filter_map(known);
        used.map(|(name, policy)| (name.to_string(), PolicyConfig::clone(policy)))
            .collect()
    }

    /// Their names. Of the namespaces with more than their share, they are the first ones.
    #[must_use]
    pub fn kept_policies(&self, graph: &Graph, most_bytes: usize) -> BTreeSet<&Text> {
        let namespaces = self.sizes(graph, Some);
        within_share(namespaces, most_bytes).into_iter().flatten().collect()
    }

    /// The first of these retained policies that also have room, each with its namespace. A namespace has one share for
    /// them and for the policies that it uses.
    #[must_use]
    pub fn retained_within<'r>(
        &'r self,
        graph: &Graph,
        retained: impl IntoIterator<Item = (&'r Text, &'r str, &'r PolicyConfig)>,
        most_bytes: usize,
    ) -> BTreeSet<&'r str> {
        let mut namespaces = self.sizes(graph, |_| None);
        for (namespace, name, policy) in retained {
            let of_namespace = namespaces.entry(namespace).or_default();
            of_namespace.push((Some(name), bytes(policy)));
        }
        within_share(namespaces, most_bytes).into_iter().flatten().collect()
    }

    fn sizes<'u, T>(
        &'u self,
        graph: &Graph,
        of: impl Fn(&'u Text) -> Option<T>,
    ) -> BTreeMap<&'u Text, Vec<(Option<T>, usize)>> {
        let mut namespaces: BTreeMap<&Text, Vec<_>> = BTreeMap::new();
        for (namespace, policy) in self.namespace_policies(Text::default()) {
            let bytes = graph.policies.get(policy).map_or(0, |policy| bytes(policy));
            namespaces.entry(namespace).or_default().push((of(policy), bytes));
        }
        namespaces
    }

    /// The rules that lose sessions at the Gateway because their policies have no room.
    #[must_use]
    pub fn without_policies(&self, graph: &Graph, gateway: &ObjectName, most_bytes: usize) -> Vec<Unsupported> {
        let kept = self.kept_policies(graph, most_bytes);
        let Some(content) = graph.gateways.get(gateway) else {
            return Vec::new();
        };
        if kept.len() == self.policies().count() {
            return Vec::new();
        }
        let mut rules: BTreeMap<&RuleName, RuleSessions<'_>> = BTreeMap::new();
        for (_, host) in hosts(content) {
            count_sessions(graph, host, &kept, &mut rules);
        }
        let lost = rules.into_iter().filter_map(|(rule, sessions)| {
            let namespace = sessions.lost?;
            Some(Unsupported {
                rule: rule.clone(),
                gateway: Some(gateway.clone()),
                extent: if sessions.is_kept { Extent::Part } else { Extent::All },
                message: format!(
                    "the session policies of the namespace {namespace} take more than their share of the \
                     {most_bytes} bytes that a Gateway has for all, so some of these requests have no sessions: \
                     expected fewer or shorter policies"
                ),
            })
        });
        lost.collect()
    }
}

#[derive(Debug, Default)]
struct RuleSessions<'g> {
    /// Whether any policy has room.
    is_kept: bool,
    /// The namespace of a policy without room.
    lost: Option<&'g str>,
}

fn count_sessions<'g>(
    graph: &'g Graph,
    host: &'g VirtualHost,
    kept: &BTreeSet<&Text>,
    rules: &mut BTreeMap<&'g RuleName, RuleSessions<'g>>,
) {
    for route in &host.routes {
        #[cfg(test)]
        crate::looked::at_one();
        for session in route_sessions(graph, route) {
            let sessions = rules.entry(&route.rule).or_default();
            if kept.contains(&session.policy) {
                sessions.is_kept = true;
            } else {
                sessions.lost = session.scope.split('/').nth(1);
            }
        }
    }
}

fn bytes(policy: &PolicyConfig) -> usize {
    #[cfg(test)]
    crate::looked::at_one();
    // All keys of its maps are strings, so it serializes.
    serde_json::to_string(policy).unwrap_or_default().len()
}
