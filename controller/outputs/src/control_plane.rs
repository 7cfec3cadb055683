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

    /// Kinds that are written; within a stage, in this order.
    #[must_use]
    pub fn definitions(&self) -> &'static [&'static ManifestKind] {
        match self {
            Self::Istio(_) => istio::DEFINITIONS,
            Self::EnvoyGateway(_) => envoy_gateway::DEFINITIONS,
        }
    }

    /// The kind with the filter's configuration and the keyring.
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

    /// The GatewayClasses that the control plane creates itself, with their `controllerName`s. Manifests lack them.
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
            // Statuses of Istio's objects have no objections.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    use limpet_api::{Kind, ObjectRef};
    use limpet_core::config::schema::PolicyConfig;
    use limpet_model::graph::{
        Action, Forward, Gateway, HeaderChanges, Hostname, Listener, Match, Route, RuleName, RuleOrigin, Session,
        SessionRequester, SessionUse, VirtualHost,
    };
    use limpet_model::{FewSet, Graph, Map, Objects};
    use serde_json::json;

    use super::*;
    use crate::envoy::EnvoyOptions;
    use crate::{FilterInputs, FilterKeys};

    fn graph() -> Graph {
        let gateway = ObjectName::new("infra", "web");
        let rule = RuleName("httproute/team/cart/all".into());
        let route = Route {
            rule: rule.clone(),
            matches: Match::default(),
            action: Action::Forward(Forward {
                session: Session::EachDestination(SessionUse {
                    policy: "web".into(),
                    scope: "team/cart".into(),
                }),
                ..Forward::default()
            }),
            request_headers: HeaderChanges::default(),
            response_headers: HeaderChanges::default(),
            cors: None,
        };
        let listener = Listener {
            name: "http".to_owned(),
            hostname: Hostname::Any,
            certificates: None,
            tls_minimum: None,
            virtual_hosts: Listener::hosts([VirtualHost {
                hostname: Hostname::Any,
                routes: vec![route],
            }]),
        };
        let content = Gateway {
            ports: [(80, vec![listener])].into(),
            ..Gateway::default()
        };
        let mut gateways = FewSet::default();
        gateways.extend([gateway.clone()]);
        let origin = RuleOrigin {
            route: ObjectRef {
                kind: Kind::HttpRoute,
                name: ObjectName::new("team", "cart"),
            },
            index: 0,
            name: Some("all".to_owned()),
            gateways,
            requested_by: SessionRequester::Backends(Vec::new()),
        };
        let policy: PolicyConfig = serde_json::from_value(json!({"cookie": {"name": "web"}})).unwrap();
        Graph {
            gateways: Map::unit(gateway, Arc::new(content)),
            rules: [(rule, origin)].into_iter().collect(),
            policies: [("web".to_owned(), policy)].into_iter().collect(),
            ..Graph::default()
        }
    }

    #[test]
    fn objects_of_all_tenants_took_the_turns_of_the_gateways_namespace() {
        let (graph, options) = (graph(), EnvoyOptions::default());
        let source = ManifestInputs {
            objects: &Objects::default(),
            graph: &graph,
            options: &options,
            inputs: &FilterInputs::with_keys(FilterKeys::Listed(Vec::new())),
            retained: &BTreeMap::new(),
        };
        let tenants = |plane: ControlPlane| -> BTreeSet<(&str, String)> {
            let objects = plane.manifests(&source).objects;
            let tenants = objects.iter().map(|one| (one.definition.kind, one.tenant.to_string()));
            tenants.collect()
        };
        let [infra, team] = ["infra", "team"].map(str::to_owned);
        let expected = [
            ("EnvoyFilter", infra.clone()),
            ("EnvoyFilter", team.clone()),
            ("WasmPlugin", infra.clone()),
        ];
        let istio = IstioOptions {
            url: Some("oci://limpet".to_owned()),
            ..IstioOptions::default()
        };
        assert_eq!(tenants(ControlPlane::Istio(istio)), expected.into());
        let expected = [("EnvoyExtensionPolicy", team), ("EnvoyPatchPolicy", infra)];
        let options = EnvoyGatewayOptions::default();
        assert_eq!(tenants(ControlPlane::EnvoyGateway(options)), expected.into());
    }
}
