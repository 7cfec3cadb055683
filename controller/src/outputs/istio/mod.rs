//! A graph as objects of Istio: a `WasmPlugin` and `EnvoyFilter`s.

use serde::{Deserialize, Serialize};

use crate::api::ObjectName;

use super::manifests::{Definition, Manifests, Proxies, Source};

/// The `controllerName`s of Istio's GatewayClasses.
pub(super) const GATEWAY_CONTROLLERS: &[&str] = &["istio.io/gateway-controller", "istio.io/unmanaged-gateway"];

/// The kinds that are written.
pub(super) const DEFINITIONS: &[&Definition] = &[];

/// What is configured of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct IstioOptions {}

/// Istio labels the pods that it makes for a Gateway, in the Gateway's namespace.
pub(super) fn proxies(gateway: &ObjectName) -> Proxies {
    Proxies {
        namespace: Some(gateway.namespace.clone()),
        selector: format!("gateway.networking.k8s.io/gateway-name={}", gateway.name),
        container: "istio-proxy",
    }
}

/// What is to be there.
pub(super) fn manifests(_source: &Source<'_>, _options: &IstioOptions) -> Manifests {
    Manifests::default()
}
