//! The control planes that take objects instead of xDS.

use limpet_api::ObjectName;
use serde_json::Value;

use crate::envoy_gateway::{self, EnvoyGatewayOptions};
use crate::istio::{self, IstioOptions};
use crate::manifests::{ManifestInputs, ManifestKind, Manifests, Objection, ProxyPods};

/// A control plane that takes objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlPlane {
    /// Istio: `WasmPlugin` and `EnvoyFilter`.
    Istio(IstioOptions),
    /// Envoy Gateway: `EnvoyExtensionPolicy` and `EnvoyPatchPolicy`.
    EnvoyGateway(EnvoyGatewayOptions),
}

impl ControlPlane {
    /// The name, for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Istio(_) => "Istio",
            Self::EnvoyGateway(_) => "Envoy Gateway",
        }
    }

    /// The kinds that are written. Within a stage, objects are written in this order.
    #[must_use]
    pub fn definitions(&self) -> &'static [&'static ManifestKind] {
        match self {
            Self::Istio(_) => istio::DEFINITIONS,
            Self::EnvoyGateway(_) => envoy_gateway::DEFINITIONS,
        }
    }

    /// The kind that has the filter's configuration, with the keyring.
    #[must_use]
    pub fn keyring_kind(&self) -> &'static ManifestKind {
        match self {
            Self::Istio(_) => istio::KEYRING_KIND,
            Self::EnvoyGateway(_) => envoy_gateway::KEYRING_KIND,
        }
    }

    /// The `controllerName`s of the control plane's GatewayClasses.
    #[must_use]
    pub fn gateway_controllers(&self) -> &'static [&'static str] {
        match self {
            Self::Istio(_) => istio::GATEWAY_CONTROLLERS,
            Self::EnvoyGateway(_) => envoy_gateway::GATEWAY_CONTROLLERS,
        }
    }

    /// The GatewayClasses that the control plane creates itself, with their `controllerName`s. A cluster has them,
    /// manifests do not.
    #[must_use]
    pub fn own_classes(&self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Istio(_) => istio::OWN_CLASSES,
            Self::EnvoyGateway(_) => &[],
        }
    }

    /// The pods of a Gateway's proxies.
    #[must_use]
    pub fn proxies(&self, gateway: &ObjectName) -> ProxyPods {
        match self {
            Self::Istio(_) => istio::proxies(gateway),
            Self::EnvoyGateway(options) => envoy_gateway::proxies(gateway, options),
        }
    }

    /// The objections in the status of an object of ours, as read from the cluster.
    #[must_use]
    pub fn objections(&self, object: &Value) -> Vec<Objection> {
        match self {
            // The statuses of Istio's objects have no objections.
            Self::Istio(_) => Vec::new(),
            Self::EnvoyGateway(_) => envoy_gateway::objections(object),
        }
    }

    /// The objects that should exist.
    #[must_use]
    pub fn manifests(&self, source: &ManifestInputs<'_>) -> Manifests {
        let mut manifests = match self {
            Self::Istio(options) => istio::manifests(source, options),
            Self::EnvoyGateway(options) => envoy_gateway::manifests(source, options),
        };
        manifests.sort(self.definitions());
        manifests
    }
}
