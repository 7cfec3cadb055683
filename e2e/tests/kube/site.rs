//! The objects that most tests begin with.

use limpet_e2e::kube::Namespace;
use serde_json::Value;

/// The Gateway `web` with one HTTP listener, and an `HTTPRoute` that sends all requests to the Service `web`.
pub(crate) fn site_objects(namespace: &Namespace) -> String {
    gateway_and_route(namespace, "web")
}

pub(crate) fn gateway_and_route(namespace: &Namespace, name: &str) -> String {
    let class = namespace.name();
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: {name}
spec:
  gatewayClassName: {class}
  listeners:
  - {{name: http, port: 8080, protocol: HTTP}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: {name}
spec:
  parentRefs: [{{name: {name}}}]
  rules:
  - backendRefs: [{{name: web, port: 80}}]
"
    )
}

pub(crate) fn condition(conditions: &Value, name: &str) -> String {
    let found = conditions
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == name);
    found.map_or_else(String::new, |found| {
        let word = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        format!("{}/{}", word("status"), word("reason"))
    })
}

pub(crate) const POLICY: &str = "
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: BackendLBPolicy
metadata:
  name: web
spec:
  targetRefs: [{group: '', kind: Service, name: web}]
  sessionPersistence: {sessionName: shop}
";
