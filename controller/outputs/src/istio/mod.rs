//! A graph as objects of Istio. `envoy-configs/istio` has the same by hand, and `docs/reference/istio.md` explains it.
//!
//! - `plugin`: a `WasmPlugin` with the filter and its configuration, for each Gateway. `chain`: an `EnvoyFilter` with
//!   the filters around it.
//! - `rules`: an `EnvoyFilter` with the sessions of a rule. `names`: Istio's names of its routes, which are patched.

mod chain;
mod names;
mod plugin;
mod rules;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use limpet_api::{GATEWAY_GROUP, ObjectName};
use limpet_model::short_hash::hash;
use limpet_model::{Extent, Unsupported};

use super::envoy::{FilterBuild, WasmFilter};
use super::manifests::{ManifestInputs, ManifestKind, ManifestOwner, Manifests, ProxyPods};
use super::policy_room::MOST_BYTES_OF_OBJECT;
use super::used::GatewayReferences;

pub use rules::PERSISTENT_SESSION;

pub(super) const GATEWAY_CONTROLLERS: &[&str] = &["istio.io/gateway-controller", "istio.io/unmanaged-gateway"];

pub(super) const OWN_CLASSES: &[(&str, &str)] = &[
    ("istio", "istio.io/gateway-controller"),
    ("istio-remote", "istio.io/unmanaged-gateway"),
];

const WASM_PLUGIN: ManifestKind = ManifestKind {
    group: "extensions.istio.io",
    version: "v1alpha1",
    kind: "WasmPlugin",
    plural: "wasmplugins",
};
const ENVOY_FILTER: ManifestKind = ManifestKind {
    group: "networking.istio.io",
    version: "v1alpha3",
    kind: "EnvoyFilter",
    plural: "envoyfilters",
};

/// The filter comes last: the chain lets requests pass while the filter is missing.
pub(super) const DEFINITIONS: &[&ManifestKind] = &[&ENVOY_FILTER, &WASM_PLUGIN];

pub(super) const KEYRING_KIND: &ManifestKind = &WASM_PLUGIN;

/// Options of this output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct IstioOptions {
    /// The URL of the wasm file, as in a `WasmPlugin`: `oci://...`. If absent, the file is where the section `envoy`
    /// says.
    pub url: Option<String>,
    /// The pull secret of the image, in the Gateway's namespace.
    pub image_pull_secret: Option<String>,
    /// The domain of the cluster's Services.
    pub cluster_domain: String,
}

impl Default for IstioOptions {
    fn default() -> Self {
        Self {
            url: None,
            image_pull_secret: None,
            cluster_domain: "cluster.local".to_owned(),
        }
    }
}

pub(super) fn proxies(gateway: &ObjectName) -> ProxyPods {
    ProxyPods {
        namespace: Some(gateway.namespace.to_string()),
        selector: format!("gateway.networking.k8s.io/gateway-name={}", gateway.name),
        container: "istio-proxy",
    }
}

pub(super) fn manifests(source: &ManifestInputs<'_>, options: &IstioOptions) -> Manifests {
    let mut manifests = Manifests::default();
    let Some(module) = WasmModule::of(&source.options.filter, options) else {
        let unsupported = |rule: &limpet_model::graph::RuleName| Unsupported {
            rule: rule.clone(),
            gateway: None,
            extent: Extent::All,
            message: "Istio's proxies load no dynamic modules, expected istio.url or envoy.filter.wasm in the \
             controller's configuration (there are no sessions)"
                .to_owned(),
        };
        manifests.unsupported.extend(source.graph.rules.keys().map(unsupported));
        return manifests;
    };
    for gateway in source.graph.gateways.keys() {
        let used = GatewayReferences::by(source.graph, gateway);
        let lost = used.without_policies(source.graph, gateway, MOST_BYTES_OF_OBJECT);
        manifests.unsupported.extend(lost);
        if let Some(plugin) = plugin::manifest(source, options, gateway, &used, &module) {
            manifests.objects.push(Arc::new(plugin));
            manifests.objects.push(Arc::new(chain::manifest(source, gateway)));
            rules::add(&mut manifests, source, options, gateway);
        }
    }
    manifests
}

#[derive(Debug)]
struct WasmModule {
    url: String,
    sha256: Option<String>,
}

impl WasmModule {
    fn of(filter: &FilterBuild, options: &IstioOptions) -> Option<Self> {
        let plain = |url: String| Self { url, sha256: None };
        match (&options.url, filter) {
            (Some(url), _) => Some(plain(url.clone())),
            (None, FilterBuild::Wasm(WasmFilter::File(file))) => Some(plain(format!("file://{file}"))),
            (None, FilterBuild::Wasm(WasmFilter::Remote(remote))) => Some(Self {
                url: remote.url.clone(),
                sha256: Some(remote.sha256.clone()),
            }),
            (None, FilterBuild::Module(_)) => None,
        }
    }
}

fn target_refs(gateway: &ObjectName) -> Value {
    json!([{"group": GATEWAY_GROUP, "kind": "Gateway", "name": gateway.name}])
}

fn owned_by_gateway(source: &ManifestInputs<'_>, gateway: &ObjectName) -> Option<ManifestOwner> {
    let object = source.objects.gateways.get(gateway)?;
    Some(ManifestOwner {
        api_version: format!("{GATEWAY_GROUP}/v1"),
        kind: "Gateway",
        name: gateway.name.to_string(),
        uid: object.meta.uid.clone(),
    })
}

fn object_name(gateway: &ObjectName, name: String) -> ObjectName {
    const LONGEST: usize = 253;
    let name = if name.len() <= LONGEST {
        name
    } else {
        let hash = hash(name.as_bytes(), 8);
        let head: String = name.chars().take(LONGEST - hash.len() - 1).collect();
        format!("{head}-{hash}")
    };
    ObjectName::new(&gateway.namespace, &name)
}

#[cfg(test)]
mod tests;
