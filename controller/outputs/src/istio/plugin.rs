//! The filter and its configuration.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::filter::{FilterInputs, filter_config, variables};
use crate::manifests::{Manifest, ManifestInputs, WriteStage};
use crate::policy_room::MOST_BYTES_OF_OBJECT;
use crate::used::GatewayReferences;
use limpet_api::ObjectName;

use super::{IstioOptions, WASM_PLUGIN, WasmModule, object_name, owned_by_gateway, target_refs};

/// The `WasmPlugin` of a Gateway; `None` if no route has sessions.
pub(super) fn manifest(
    source: &ManifestInputs<'_>,
    options: &IstioOptions,
    gateway: &ObjectName,
    used: &GatewayReferences,
    module: &WasmModule,
) -> Option<Manifest> {
    let policies = used.policies_within(source.graph, MOST_BYTES_OF_OBJECT);
    let retained = source.retained.get(gateway).cloned().unwrap_or_default();
    if policies.is_empty() && retained.policies.is_empty() {
        return None;
    }
    let inputs = FilterInputs {
        retained,
        ..source.inputs.clone()
    };
    let config = filter_config(policies, &used.namespaces(), source.options.access_log, &inputs);
    let env: Vec<Value> = variables(&config)
        .into_iter()
        .map(|name| json!({"name": name, "valueFrom": "HOST"}))
        .collect();
    let mut spec = json!({
        "targetRefs": target_refs(gateway),
        "url": module.url,
        "pluginName": limpet_core::envoy::FILTER_NAME,
        // In front of Istio's own filters, so that the route is final before they decide anything by it.
        "phase": "AUTHN",
        // Istio cannot say how long Envoy waits before it does it again: a second.
        "failStrategy": "FAIL_RELOAD",
        "vmConfig": {"env": env},
        // All keys of its maps are strings, so it serializes.
        "pluginConfig": serde_json::to_value(&config).unwrap_or_default(),
    });
    let optional = [
        ("sha256", module.sha256.clone()),
        ("imagePullSecret", options.image_pull_secret.clone()),
    ];
    if let Some(spec) = spec.as_object_mut() {
        let present = optional
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.into())));
        spec.extend(present);
    }
    Some(Manifest {
        stage: WriteStage::Filter,
        definition: &WASM_PLUGIN,
        name: name(gateway),
        gateways: BTreeSet::from([gateway.clone()]),
        tenant: gateway.namespace.clone(),
        owner: owned_by_gateway(source, gateway),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        spec,
    })
}

pub(super) fn name(gateway: &ObjectName) -> ObjectName {
    object_name(gateway, format!("limpet-{}", gateway.name))
}
