//! Generated objects, the same for the same number of rules.
//!
//! Routes have a host and ten rules each, in five namespaces; rules have a Service with ten endpoints. Every third rule
//! has inline session persistence and splits requests with the next rule's Service. The others have a `BackendLBPolicy`
//! or an `XBackendTrafficPolicy`, one half each. The Gateway `edge` serves all routes, `internal` every fifth.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use limpet_api::ObjectName;
use limpet_model::endpoints::{Endpoint, EndpointSlice, EndpointState, SliceEndpoint, endpoints};
use limpet_model::{Objects, SessionPolicyKind, SessionPolicyName};
use serde_json::{Value, json};

use crate::catalog::{self, PORT};

const RULES_OF_A_ROUTE: usize = 10;
const ENDPOINTS_OF_A_SERVICE: usize = 10;
const NAMESPACES: usize = 5;

#[derive(Debug, Clone)]
pub(crate) struct GeneratedObjects {
    pub(crate) rules: usize,
    pub(crate) name: String,
    pub(crate) controller_name: String,
}

impl GeneratedObjects {
    pub(crate) fn endpoints(&self) -> usize {
        self.rules * ENDPOINTS_OF_A_SERVICE
    }

    pub(crate) fn edge(&self) -> ObjectName {
        ObjectName::new(&self.name, "edge")
    }

    pub(crate) fn namespaces() -> impl Iterator<Item = Value> {
        let namespace =
            |number| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("shop-{number}")}});
        (0..NAMESPACES).map(namespace)
    }

    pub(crate) fn gateways(&self) -> Vec<Value> {
        let class = json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "GatewayClass",
            "metadata": {"name": self.name},
            "spec": {"controllerName": self.controller_name},
        });
        let gateway = |name: &str, port: u16| {
            json!({
                "apiVersion": "gateway.networking.k8s.io/v1",
                "kind": "Gateway",
                "metadata": {"name": name, "namespace": self.name},
                "spec": {
                    "gatewayClassName": self.name,
                    "listeners": [{
                        "name": "http",
                        "port": port,
                        "protocol": "HTTP",
                        "allowedRoutes": {"namespaces": {"from": "All"}},
                    }],
                },
            })
        };
        vec![class, gateway("edge", 8080), gateway("internal", 8081)]
    }

    pub(crate) fn of_rule(rule: usize) -> Vec<Value> {
        let (name, namespace) = (service_name(rule), namespace_of(rule));
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": namespace},
            // Cluster IPs may be few; without a selector, no controller creates slices.
            "spec": {"clusterIP": "None", "ports": [{"name": "http", "port": 80, "targetPort": PORT}]},
        });
        let policy = |api_version: &str, kind: &str, persistence: Value| {
            json!({
                "apiVersion": api_version,
                "kind": kind,
                "metadata": {"name": name, "namespace": namespace},
                "spec": {
                    "targetRefs": [{"group": "", "kind": "Service", "name": name}],
                    "sessionPersistence": persistence,
                },
            })
        };
        match rule % 3 {
            0 => vec![service],
            1 => {
                let persistence = json!({"sessionName": format!("shop-{rule}"), "idleTimeout": "30m"});
                let policy = policy("gateway.networking.k8s.io/v1alpha2", "BackendLBPolicy", persistence);
                vec![service, policy]
            }
            _ => {
                let persistence = json!({
                    "absoluteTimeout": "12h",
                    "cookieConfig": {"lifetimeType": "Permanent"},
                    "type": "Cookie",
                });
                let api_version = "gateway.networking.x-k8s.io/v1alpha1";
                vec![service, policy(api_version, "XBackendTrafficPolicy", persistence)]
            }
        }
    }

    /// A rule's `EndpointSlice` in the API's form.
    pub(crate) fn slice(rule: usize) -> Value {
        let service = service_name(rule);
        catalog::slice(&namespace_of(rule), &service, &service, addresses(rule))
    }

    pub(crate) fn routes(&self) -> usize {
        self.rules.div_ceil(RULES_OF_A_ROUTE)
    }

    /// An `HTTPRoute`; if `changed`, one rule has another path.
    pub(crate) fn route(&self, number: usize, changed: bool) -> Value {
        let first = number * RULES_OF_A_ROUTE;
        let end = self.rules.min(first + RULES_OF_A_ROUTE);
        let rules = (first..end).map(|rule| {
            let path = if changed && rule == first {
                format!("/part-{rule}/changed")
            } else {
                format!("/part-{rule}")
            };
            let backend = |rule: usize, weight: u32| json!({"name": service_name(rule), "port": 80, "weight": weight});
            let matches = json!([{"path": {"type": "PathPrefix", "value": path}}]);
            if rule % 3 != 0 {
                return json!({"matches": matches, "backendRefs": [backend(rule, 90)]});
            }
            // A Service of the same route and so of the same namespace.
            let other = if rule + 1 < end { rule + 1 } else { first };
            json!({
                "matches": matches,
                "backendRefs": [backend(rule, 90), backend(other, 10)],
                "sessionPersistence": {"sessionName": format!("split-{rule}"), "type": "Cookie"},
            })
        });
        let mut parents = vec![json!({"name": "edge", "namespace": self.name})];
        if number.is_multiple_of(5) {
            parents.push(json!({"name": "internal", "namespace": self.name}));
        }
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": {"name": format!("route-{number}"), "namespace": namespace_of(first)},
            "spec": {
                "parentRefs": parents,
                "hostnames": [format!("shop-{number}.example")],
                "rules": rules.collect::<Vec<_>>(),
            },
        })
    }

    pub(crate) fn objects(&self) -> Result<Objects> {
        let mut objects = Objects::default();
        for object in Self::namespaces().chain(self.gateways()) {
            add(&mut objects, &object)?;
        }
        objects.namespaces.insert(self.name.as_str().into(), [].into());
        for object in (0..self.rules).flat_map(Self::of_rule) {
            add(&mut objects, &object)?;
        }
        for number in 0..self.routes() {
            add(&mut objects, &self.route(number, false))?;
        }
        Ok(objects)
    }
}

pub(crate) fn add(objects: &mut Objects, object: &Value) -> Result<()> {
    let kind = object["kind"].as_str().context("no kind")?;
    let of_metadata = |field: &str| object.pointer(&format!("/metadata/{field}")).and_then(Value::as_str);
    let namespace = of_metadata("namespace").unwrap_or_default();
    let name = ObjectName::new(namespace, of_metadata("name").context("no name")?);
    let policy = |kind| SessionPolicyName {
        kind,
        name: name.clone(),
    };
    match kind {
        "Namespace" => drop(objects.namespaces.insert(name.name, [].into())),
        "GatewayClass" => drop(
            objects
                .gateway_classes
                .insert(name.name, Arc::new(limpet_api::object(object)?)),
        ),
        "Gateway" => drop(objects.gateways.insert(name, Arc::new(limpet_api::object(object)?))),
        "HTTPRoute" => drop(objects.http_routes.insert(name, Arc::new(limpet_api::object(object)?))),
        "Service" => drop(objects.services.insert(name, Arc::new(limpet_api::object(object)?))),
        "BackendLBPolicy" => {
            let name = policy(SessionPolicyKind::BackendLbPolicy);
            objects
                .session_policies
                .insert(name, Arc::new(limpet_api::object(object)?));
        }
        "XBackendTrafficPolicy" => {
            let name = policy(SessionPolicyKind::XBackendTrafficPolicy);
            objects
                .session_policies
                .insert(name, Arc::new(limpet_api::object(object)?));
        }
        other => bail!("unknown kind {other}"),
    }
    Ok(())
}

/// A rule's `EndpointSlice` in the controller's form.
pub(crate) fn slice(rule: usize) -> EndpointSlice {
    let endpoint = |address| SliceEndpoint {
        address,
        state: EndpointState::Ready,
        owner: None,
        pod: None,
        node: None,
    };
    EndpointSlice {
        service: service(rule),
        ports: [("http".to_owned(), PORT)].into_iter().collect(),
        endpoints: addresses(rule).map(endpoint).collect(),
    }
}

pub(crate) fn fewer_endpoints(rule: usize) -> Vec<Endpoint> {
    let mut slice = slice(rule);
    slice.endpoints.remove(0);
    endpoints([&slice], "http", |_| false)
}

pub(crate) fn service(rule: usize) -> ObjectName {
    ObjectName::new(&namespace_of(rule), &service_name(rule))
}

pub(crate) fn cluster_name(rule: usize) -> String {
    format!("service/{}/80", service(rule))
}

fn service_name(rule: usize) -> String {
    format!("part-{rule}")
}

fn namespace_of(rule: usize) -> String {
    format!("shop-{}", rule / RULES_OF_A_ROUTE % NAMESPACES)
}

fn addresses(rule: usize) -> impl Iterator<Item = IpAddr> {
    let first = rule * ENDPOINTS_OF_A_SERVICE;
    (first..first + ENDPOINTS_OF_A_SERVICE).map(|number| {
        let [.., high, middle, low] = number.to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(10, high.wrapping_add(100), middle, low))
    })
}
