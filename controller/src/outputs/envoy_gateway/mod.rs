//! A graph as objects of Envoy Gateway: `EnvoyExtensionPolicy`s.

use serde::{Deserialize, Serialize};

use crate::api::ObjectName;

use super::manifests::{Definition, Manifests, Proxies, Source};

/// The `controllerName` of Envoy Gateway's GatewayClasses.
pub(super) const GATEWAY_CONTROLLERS: &[&str] = &["gateway.envoyproxy.io/gatewayclass-controller"];

/// The kinds that are written.
pub(super) const DEFINITIONS: &[&Definition] = &[];

/// What is configured of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EnvoyGatewayOptions {}

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
pub(super) fn manifests(_source: &Source<'_>, _options: &EnvoyGatewayOptions) -> Manifests {
    Manifests::default()
}
