//! A graph as objects of Envoy Gateway: for each rule with sessions an `EnvoyExtensionPolicy` with the dynamic module, whose configuration names policy
//! and scope; for each Gateway an `EnvoyPatchPolicy`, so that sessions stay on pods that terminate.
//!
//! Not the wasm filter: it would take changes of the routes themselves, which are their owners'.
//!
//! - `rules`: what Envoy Gateway can do for each rule, and what it can not.
//! - `policies`, `draining`: the two kinds of objects.
//! - `objections`: what Envoy Gateway says against them.

mod draining;
mod objections;
mod policies;
mod rules;
#[cfg(test)]
mod tests;

pub(super) use objections::objections;
use serde::{Deserialize, Serialize};

use limpet_api::ObjectName;

use super::manifests::{Definition, Manifests, Proxies, Source};

/// The `controllerName` of Envoy Gateway's GatewayClasses.
pub(super) const GATEWAY_CONTROLLERS: &[&str] = &["gateway.envoyproxy.io/gatewayclass-controller"];

const EXTENSION_POLICY: Definition = Definition {
    group: "gateway.envoyproxy.io",
    version: "v1alpha1",
    kind: "EnvoyExtensionPolicy",
    plural: "envoyextensionpolicies",
};

const PATCH_POLICY: Definition = Definition {
    group: "gateway.envoyproxy.io",
    version: "v1alpha1",
    kind: "EnvoyPatchPolicy",
    plural: "envoypatchpolicies",
};

/// The kinds that are written.
pub(super) const DEFINITIONS: &[&Definition] = &[&EXTENSION_POLICY, &PATCH_POLICY];

/// What is configured of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EnvoyGatewayOptions {
    /// What the module is called in `dynamicModules` of the Gateways' `EnvoyProxy`.
    pub dynamic_module: String,
    /// Whether sessions stay on pods that terminate. Envoy Gateway has to allow patches for it (`extensionApis.enableEnvoyPatchPolicy`).
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

/// Envoy Gateway labels the pods that it makes for a Gateway; they are in its own namespace, unless it is told otherwise.
pub(super) fn proxies(gateway: &ObjectName, _options: &EnvoyGatewayOptions) -> Proxies {
    Proxies {
        namespace: None,
        selector: format!(
            "gateway.envoyproxy.io/owning-gateway-namespace={},gateway.envoyproxy.io/owning-gateway-name={}",
            gateway.namespace, gateway.name
        ),
        container: "envoy",
    }
}

/// What is to be there.
pub(super) fn manifests(source: &Source<'_>, options: &EnvoyGatewayOptions) -> Manifests {
    let (rules, unsupported) = rules::rules(source);
    let mut objects = policies::policies(source, options, &rules);
    if options.draining {
        objects.extend(draining::patches(source, &rules));
    }
    Manifests { objects, unsupported }
}
