//! The demo's objects and their statuses.

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::Namespace;
use serde_json::Value;

pub(crate) const PORT: u16 = 8080;
pub(crate) const COOKIE: &str = "limpet-session";

pub(crate) fn gateway(namespace: &Namespace) -> String {
    let (class, controller) = (namespace.name(), namespace.controller_name());
    format!(
        "\
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {{name: {class}}}
spec: {{controllerName: {controller}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: web}}
spec:
  gatewayClassName: {class}
  listeners: [{{name: http, port: {PORT}, protocol: HTTP}}]
"
    )
}

pub(crate) fn route(v1: u32, v2: u32) -> String {
    format!(
        "\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: shop}}
spec:
  parentRefs: [{{name: web}}]
  rules:
  - backendRefs:
    - {{name: v1, port: 80, weight: {v1}}}
    - {{name: v2, port: 80, weight: {v2}}}
"
    )
}

pub(crate) fn policy() -> String {
    format!(
        "\
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: BackendLBPolicy
metadata: {{name: sticky}}
spec:
  targetRefs:
  - {{group: '', kind: Service, name: v1}}
  - {{group: '', kind: Service, name: v2}}
  sessionPersistence: {{sessionName: {COOKIE}}}
"
    )
}

/// A condition's status: `True`, `False` or `Unknown`; empty if not set.
pub(crate) fn condition<'a>(conditions: &'a Value, name: &str) -> &'a str {
    let conditions = conditions.as_array().into_iter().flatten();
    let mut found = conditions.filter(|condition| condition["type"] == name);
    found
        .next()
        .and_then(|found| found["status"].as_str())
        .unwrap_or_default()
}

/// Prints a policy's status as `kubectl get -o yaml` does, and checks it.
pub(crate) fn show_status(policy: &Value) -> Result<()> {
    let text = serde_saphyr::to_string(&policy["status"]).context("cannot write the status as YAML")?;
    println!("  $ kubectl get backendlbpolicy sticky -o yaml");
    println!("    status:");
    for line in text.lines() {
        println!("      {line}");
    }
    let ancestors = policy["status"]["ancestors"].as_array();
    let ancestors = ancestors.context("the policy has no status")?;
    ensure!(!ancestors.is_empty(), "the policy has no ancestors");
    for ancestor in ancestors {
        ensure!(
            condition(&ancestor["conditions"], "Accepted") == "True",
            "the policy is not accepted: {ancestor}"
        );
    }
    Ok(())
}
