//! `EnvoyPatchPolicy`: keeps sessions on pods that terminate, for which Envoy Gateway has no field.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::manifests::{Manifest, ManifestInputs, ManifestOwner, WriteStage};
use limpet_api::{GATEWAY_GROUP, ObjectName};
use limpet_model::short_hash;

use super::PATCH_POLICY;
use super::rules::SessionRule;

/// States in which a host keeps its sessions (Envoy's `Cluster.CommonLbConfig.override_host_status`).
const STATUSES: [&str; 4] = ["UNKNOWN", "HEALTHY", "DEGRADED", "DRAINING"];

/// An object for each Gateway with sessions, with a patch for each of its rules.
pub(super) fn patches(source: &ManifestInputs<'_>, rules: &[SessionRule<'_>]) -> Vec<Manifest> {
    let mut clusters: BTreeMap<&ObjectName, Vec<String>> = BTreeMap::new();
    for rule in rules {
        for gateway in rule.origin.gateways.iter() {
            clusters.entry(gateway).or_default().push(cluster(rule));
        }
    }
    clusters
        .into_iter()
        .map(|(gateway, mut clusters)| {
            clusters.sort();
            Manifest {
                stage: WriteStage::Routes,
                definition: &PATCH_POLICY,
                name: ObjectName::new(&gateway.namespace, &name(gateway)),
                gateways: [gateway.clone()].into(),
                tenant: gateway.namespace.clone(),
                owner: owner(source, gateway),
                labels: BTreeMap::new(),
                annotations: BTreeMap::new(),
                spec: json!({
                    "targetRef": {"group": GATEWAY_GROUP, "kind": "Gateway", "name": gateway.name},
                    "type": "JSONPatch",
                    "jsonPatches": clusters.iter().map(|cluster| patch(cluster)).collect::<Vec<_>>(),
                }),
            }
        })
        .collect()
}

fn patch(cluster: &str) -> Value {
    json!({
        "type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        "name": cluster,
        "operation": {
            "op": "add",
            "path": "/common_lb_config/override_host_status",
            "value": {"statuses": STATUSES},
        },
    })
}

/// The rule's cluster, as Envoy Gateway names it.
fn cluster(rule: &SessionRule<'_>) -> String {
    let route = &rule.origin.route;
    let kind = route.kind.as_str().to_ascii_lowercase();
    let backend = if rule.has_own_cluster { "/backend/0" } else { "" };
    format!(
        "{kind}/{}/{}/rule/{}{backend}",
        route.name.namespace, route.name.name, rule.origin.index
    )
}

pub(super) fn name(gateway: &ObjectName) -> String {
    // Envoy Gateway puts the Gateway's name into a label, so it takes at most 63 characters.
    let hash = short_hash(gateway.name.as_bytes());
    let head: String = gateway.name.chars().take(200).collect();
    format!("limpet-draining-{}-{hash}", head.trim_end_matches(['-', '.']))
}

fn owner(source: &ManifestInputs<'_>, gateway: &ObjectName) -> Option<ManifestOwner> {
    source.objects.gateways.get(gateway).map(|object| ManifestOwner {
        api_version: format!("{GATEWAY_GROUP}/v1"),
        kind: "Gateway",
        name: gateway.name.to_string(),
        uid: object.meta.uid.clone(),
    })
}
