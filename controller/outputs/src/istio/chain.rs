//! The filters around ours, and a default that replaces ours until its configuration arrives.

use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::envoy::extensions::filters::http::wasm::v3::Wasm;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use prost::{Message, Name};
use serde_json::{Value, json};

use crate::envoy::filter::pass_through;
use crate::envoy::{FilterBuild, chain};
use crate::json;
use crate::manifests::{Manifest, ManifestInputs, WriteStage};
use limpet_api::ObjectName;
use limpet_core::envoy::INTERNAL_HEADERS;

use super::{ENVOY_FILTER, object_name, owned_by_gateway, plugin, target_refs};

const MANAGER: &str = "envoy.filters.network.http_connection_manager";
const ROUTER: &str = "envoy.filters.http.router";

pub(super) fn manifest(source: &ManifestInputs<'_>, gateway: &ObjectName) -> Manifest {
    Manifest {
        stage: WriteStage::Filter,
        definition: &ENVOY_FILTER,
        name: object_name(gateway, format!("limpet-chain-{}", gateway.name)),
        gateways: BTreeSet::from([gateway.clone()]),
        tenant: gateway.namespace.clone(),
        owner: owned_by_gateway(source, gateway),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        spec: json!({"targetRefs": target_refs(gateway), "configPatches": patches(&plugin::name(gateway))}),
    }
}

/// Patches in the order of `envoy-configs/istio/chain.yaml`, which explains each.
fn patches(plugin: &ObjectName) -> Vec<Value> {
    let wasm = FilterBuild::default();
    let early = json!({"typed_config": {
        "@type": HttpConnectionManager::type_url(),
        "early_header_mutation_extensions": [written(&chain::early_mutation(&wasm))],
    }});
    let [soft, strict] = chain::behind_wasm();
    let ours = filter_name(plugin);
    let place = json!({"name": MANAGER, "subFilter": {"name": ours}});
    // The gateway has routes that do not know of our filter, whose requests Envoy would refuse without a default. If
    // Istio's agent cannot fetch the image, it replaces our filter by an RBAC filter that denies all requests. Its type
    // is not taken, so Envoy keeps its filter, or the default.
    let types = vec![Wasm::type_url()];
    let discovered = chain::discovered(&ours, types, Some(pass_through()));
    let removed = json!({"request_headers_to_remove": INTERNAL_HEADERS});
    vec![
        patch("NETWORK_FILTER", "MERGE", Some(json!({"name": MANAGER})), &early),
        filter("REPLACE", place, &written(&discovered)),
        filter(
            "INSERT_FIRST",
            json!({"name": MANAGER}),
            &written(&chain::before_wasm()),
        ),
        filter("INSERT_BEFORE", before_router(), &written(&soft)),
        filter("INSERT_BEFORE", before_router(), &written(&strict)),
        patch("ROUTE_CONFIGURATION", "MERGE", None, &removed),
    ]
}

/// The name that Istio gives the filter of a `WasmPlugin`.
fn filter_name(plugin: &ObjectName) -> String {
    format!(
        "extensions.istio.io/trafficextension/{}.{}~istio-translated-wasmplugin",
        plugin.namespace, plugin.name
    )
}

fn before_router() -> Value {
    json!({"name": MANAGER, "subFilter": {"name": ROUTER}})
}

fn filter(operation: &str, place: Value, value: &Value) -> Value {
    patch("HTTP_FILTER", operation, Some(place), value)
}

fn patch(apply_to: &str, operation: &str, filter: Option<Value>, value: &Value) -> Value {
    let listener = filter.map(|filter| json!({"filterChain": {"filter": filter}}));
    let matches = match listener {
        Some(listener) => json!({"context": "GATEWAY", "listener": listener}),
        None => json!({"context": "GATEWAY"}),
    };
    json!({"applyTo": apply_to, "match": matches, "patch": {"operation": operation, "value": value}})
}

/// Messages used here have descriptors; a test fails if one is missing.
pub(super) fn written<M: Message + Name>(message: &M) -> Value {
    json::typed(message).unwrap_or_default()
}
