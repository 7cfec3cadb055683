//! `EnvoyExtensionPolicy`: the filter with its configuration, for a rule.

use std::collections::{BTreeMap, BTreeSet};

use limpet_core::config::schema::{DefaultConfig, PolicyConfig};
use limpet_core::envoy::FILTER_NAME;
use serde_json::{Value, json};

use crate::filter_config;
use crate::manifests::{Manifest, ManifestInputs, ManifestOwner, WriteStage};
use limpet_api::{GATEWAY_GROUP, Kind, ObjectName};
use limpet_model::short_hash;

use super::rules::SessionRule;
use super::{EXTENSION_POLICY, EnvoyGatewayOptions};

const LONGEST_NAME: usize = 253;

pub(super) fn policies(
    source: &ManifestInputs<'_>,
    options: &EnvoyGatewayOptions,
    rules: &[SessionRule<'_>],
) -> Vec<Manifest> {
    rules
        .iter()
        .map(|rule| {
            let route = &rule.origin.route;
            Manifest {
                stage: WriteStage::Routes,
                definition: &EXTENSION_POLICY,
                name: ObjectName::new(&route.name.namespace, &name(rule)),
                gateways: rule.origin.gateways.iter().cloned().collect(),
                tenant: route.name.namespace.clone(),
                owner: owner(source, rule),
                labels: BTreeMap::new(),
                annotations: BTreeMap::new(),
                spec: json!({
                    "targetRefs": [target(rule)],
                    // A user's policy for the whole Gateway stays in force beside this one.
                    "mergeType": "StrategicMerge",
                    "dynamicModule": [{
                        "name": options.dynamic_module,
                        "filterName": FILTER_NAME,
                        "config": config(source, rule),
                    }],
                }),
            }
        })
        .collect()
}

/// A rule without a name is the only one of its route.
fn target(rule: &SessionRule<'_>) -> Value {
    let route = &rule.origin.route;
    let mut target = json!({"group": GATEWAY_GROUP, "kind": route.kind, "name": route.name.name});
    if let (Some(name), Some(target)) = (&rule.origin.name, target.as_object_mut()) {
        target.insert("sectionName".to_owned(), json!(name));
    }
    target
}

/// The filter runs only for this rule, so the configuration has no other policy.
fn config(source: &ManifestInputs<'_>, rule: &SessionRule<'_>) -> Value {
    let policy = &rule.session.policy;
    let content = source.graph.policies.get(policy);
    let policies = content
        .map(|content| (policy.to_string(), PolicyConfig::clone(content)))
        .into_iter()
        .collect();
    let namespaces = BTreeSet::from([rule.session.namespace()]);
    let mut config = filter_config(policies, &namespaces, source.options.access_log, source.inputs);
    let retained = { rule.origin.gateways.iter() }.filter_map(|gateway| source.retained.get(gateway));
    for retained in retained {
        retained.add_former_lags(&mut config.policies);
    }
    for policy in config.policies.values_mut() {
        let is_own = |namespace: &String| namespaces.contains(&**namespace);
        policy
            .former_lags
            .retain(|former| former.namespace.as_ref().is_none_or(is_own));
    }
    config.default = Some(DefaultConfig {
        policy: policy.to_string(),
        scope: Some(rule.session.scope.to_string()),
    });
    // A configuration serializes to JSON in all cases.
    serde_json::to_value(config).unwrap_or_default()
}

/// Route and rule are for people. The hash makes the name unique.
pub(super) fn name(rule: &SessionRule<'_>) -> String {
    let route = &rule.origin.route;
    let rule_name = rule.origin.name.as_deref().unwrap_or_default();
    let hash = short_hash(format!("{}/{}/{rule_name}", route.kind, route.name.name).as_bytes());
    let mut name = format!("limpet-{}", route.name.name);
    if !rule_name.is_empty() {
        name = format!("{name}-{rule_name}");
    }
    name.truncate(LONGEST_NAME - hash.len() - 1);
    format!("{}-{hash}", name.trim_end_matches(['-', '.']))
}

fn owner(source: &ManifestInputs<'_>, rule: &SessionRule<'_>) -> Option<ManifestOwner> {
    let route = &rule.origin.route;
    let meta = match route.kind {
        Kind::HttpRoute => source.objects.http_routes.get(&route.name).map(|route| &route.meta),
        _ => source.objects.grpc_routes.get(&route.name).map(|route| &route.meta),
    };
    meta.map(|meta| ManifestOwner {
        api_version: format!("{GATEWAY_GROUP}/v1"),
        kind: route.kind.as_str(),
        name: route.name.name.to_string(),
        uid: meta.uid.clone(),
    })
}
