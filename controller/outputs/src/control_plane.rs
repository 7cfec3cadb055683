//! The control planes that get objects in the place of xDS.

use limpet_api::ObjectName;
use serde_json::Value;

use crate::envoy_gateway::{self, EnvoyGatewayOptions};
use crate::istio::{self, IstioOptions};
use crate::manifests::{Definition, Manifests, Objection, Proxies, Source};

/// A control plane that gets objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlPlane {
    /// Istio: `WasmPlugin` and `EnvoyFilter`.
    Istio(IstioOptions),
    /// Envoy Gateway: `EnvoyExtensionPolicy` and what it needs.
    EnvoyGateway(EnvoyGatewayOptions),
}

impl ControlPlane {
    /// Its name, for people.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Istio(_) => "Istio",
            Self::EnvoyGateway(_) => "Envoy Gateway",
        }
    }

    /// The kinds that are written: within a stage in this order.
    #[must_use]
    pub fn definitions(&self) -> &'static [&'static Definition] {
        match self {
            Self::Istio(_) => istio::DEFINITIONS,
            Self::EnvoyGateway(_) => envoy_gateway::DEFINITIONS,
        }
    }

    /// The `controllerName`s of its GatewayClasses.
    #[must_use]
    pub fn gateway_controllers(&self) -> &'static [&'static str] {
        match self {
            Self::Istio(_) => istio::GATEWAY_CONTROLLERS,
            Self::EnvoyGateway(_) => envoy_gateway::GATEWAY_CONTROLLERS,
        }
    }

    /// The GatewayClasses that it makes itself, with their `controllerName`s: they are in a cluster, but in nobody's files.
    #[must_use]
    pub fn own_classes(&self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Istio(_) => istio::OWN_CLASSES,
            Self::EnvoyGateway(_) => &[],
        }
    }

    /// Where the proxies of a Gateway are.
    #[must_use]
    pub fn proxies(&self, gateway: &ObjectName) -> Proxies {
        match self {
            Self::Istio(_) => istio::proxies(gateway),
            Self::EnvoyGateway(options) => envoy_gateway::proxies(gateway, options),
        }
    }

    /// What the control plane has against an object of ours, as it is in the cluster.
    #[must_use]
    pub fn objections(&self, object: &Value) -> Vec<Objection> {
        match self {
            // Its objects have no status that says so.
            Self::Istio(_) => Vec::new(),
            Self::EnvoyGateway(_) => envoy_gateway::objections(object),
        }
    }

    /// What is to be there.
    #[must_use]
    pub fn manifests(&self, source: &Source<'_>) -> Manifests {
        let mut manifests = match self {
            Self::Istio(options) => istio::manifests(source, options),
            Self::EnvoyGateway(options) => envoy_gateway::manifests(source, options),
        };
        manifests.sort(self.definitions());
        manifests
    }
}
