//! A graph as objects of Envoy Gateway: an `EnvoyExtensionPolicy` with the dynamic module for each rule with sessions,
//! and an `EnvoyPatchPolicy` for each Gateway, so that sessions stay on pods that terminate. The wasm filter is not
//! offered: it would need changes to users' routes.

mod draining;
mod objections;
mod policies;
mod rules;
#[cfg(test)]
mod tests;

pub(super) use objections::objections;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use limpet_api::ObjectName;

use super::manifests::{ManifestInputs, ManifestKind, Manifests, ProxyPods};

pub(super) const GATEWAY_CONTROLLERS: &[&str] = &["gateway.envoyproxy.io/gatewayclass-controller"];

const EXTENSION_POLICY: ManifestKind = ManifestKind {
    group: "gateway.envoyproxy.io",
    version: "v1alpha1",
    kind: "EnvoyExtensionPolicy",
    plural: "envoyextensionpolicies",
};

const PATCH_POLICY: ManifestKind = ManifestKind {
    group: "gateway.envoyproxy.io",
    version: "v1alpha1",
    kind: "EnvoyPatchPolicy",
    plural: "envoypatchpolicies",
};

pub(super) const DEFINITIONS: &[&ManifestKind] = &[&EXTENSION_POLICY, &PATCH_POLICY];

pub(super) const KEYRING_KIND: &ManifestKind = &EXTENSION_POLICY;

/// Options of this output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EnvoyGatewayOptions {
    /// The module's name in `dynamicModules` of the Gateways' `EnvoyProxy`.
    pub dynamic_module: String,
    /// Whether sessions stay on pods that terminate. Envoy Gateway must permit patches
    /// (`extensionApis.enableEnvoyPatchPolicy`).
    pub draining: bool,
}

impl Default for EnvoyGatewayOptions {
    fn default() -> Self {
        Self {
            dynamic_module: "limpet".to_owned(),
            draining: true,
        }
    }
}

/// The pods that Envoy Gateway creates for a Gateway, by default in its own namespace.
pub(super) fn proxies(gateway: &ObjectName, _options: &EnvoyGatewayOptions) -> ProxyPods {
    ProxyPods {
        namespace: None,
        selector: format!(
            "gateway.envoyproxy.io/owning-gateway-namespace={},gateway.envoyproxy.io/owning-gateway-name={}",
            gateway.namespace, gateway.name
        ),
        container: "envoy",
    }
}

pub(super) fn manifests(source: &ManifestInputs<'_>, options: &EnvoyGatewayOptions) -> Manifests {
    let (rules, unsupported) = rules::rules(source);
    let mut objects = policies::policies(source, options, &rules);
    if options.draining {
        objects.extend(draining::patches(source, &rules));
    }
    Manifests {
        objects: objects.into_iter().map(Arc::new).collect(),
        unsupported,
        ..Manifests::default()
    }
}
