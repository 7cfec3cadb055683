//! The keyring in objects for another control plane, one of which the API server refuses.

use anyhow::{Result, ensure};
use limpet_e2e::kube::{Namespace, refused};
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::{cluster, controller_with, namespace_with_policy, until_programmed};
use crate::kept::until_event;
use crate::keyring::{KEYRING, request_rotation, until_keys};

const POLICY: &str = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy";
const FULL: &str = "no plugin of this Gateway";
/// The plugin of the Gateway `other`.
const PLUGIN: &str = "limpet-other";

/// Another Gateway with a route of its own.
fn other(namespace: &Namespace) -> String {
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: other
spec:
  gatewayClassName: {}
  listeners:
  - {{name: http, port: 8080, protocol: HTTP}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: other
spec:
  parentRefs: [{{name: other}}]
  rules:
  - backendRefs: [{{name: web, port: 80}}]
",
        namespace.name()
    )
}

/// A policy of the API server that refuses the plugin of the Gateway `other`.
async fn refuse(namespace: &Namespace) -> Result<()> {
    let name = namespace.name();
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["extensions.istio.io"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                "resources": ["wasmplugins"],
            }]},
            "validations": [{
                "expression": format!("request.namespace != '{name}' || request.name != '{PLUGIN}'"),
                "message": FULL,
            }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    namespace.apply_object(&policy).await?;
    namespace.apply_object(&binding).await?;
    let plugin = json!({
        "apiVersion": "extensions.istio.io/v1alpha1",
        "kind": "WasmPlugin",
        "metadata": {"name": PLUGIN},
        "spec": {"url": "file:///any.wasm"},
    });
    poll::until("the API server to know its policy", async || {
        let answer = namespace.dry_run(&plugin).await;
        refused(answer).ok()?.message.contains(FULL).then_some(())
    })
    .await
}

async fn allow(namespace: &Namespace) -> Result<()> {
    namespace.delete(POLICY, namespace.name()).await
}

#[tokio::test]
async fn a_rotation_waits_for_refused_objects_with_a_keyring() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = namespace_with_policy(cluster, "refused-keys").await?;
    namespace.apply(&other(&namespace)).await?;
    refuse(&namespace).await?;
    let change = |config: &mut Value| {
        config["keyring"] = json!({"phaseTime": "300ms"});
        config["maxIdle"] = "1h".into();
    };
    let controller = controller_with(cluster, &namespace, change).await?;
    until_programmed(&namespace, "False/Invalid").await?;

    // Its proxies have no keyring, so nobody waits for them.
    request_rotation(&namespace, "first").await?;
    until_keys(&namespace, &[(1, "retiring"), (2, "signing")]).await?;

    allow(&namespace).await?;
    namespace.until("the plugin", "WasmPlugin", PLUGIN, |_| true).await?;
    refuse(&namespace).await?;
    request_rotation(&namespace, "second").await?;
    let introduced = [(1, "retiring"), (2, "signing"), (3, "verifying")];
    until_keys(&namespace, &introduced).await?;
    // Its proxies would refuse tokens of the new key.
    let note = until_event(&namespace, "Secret", KEYRING, "RotationWaits", PLUGIN).await?;
    ensure!(note.contains(FULL), "{note}");
    assert_eq!(controller.metric("limpet_key_rotation_late").await?, "1");
    until_keys(&namespace, &introduced).await?;

    allow(&namespace).await?;
    until_keys(&namespace, &[(1, "retiring"), (2, "retiring"), (3, "signing")]).await?;
    poll::until("the metric to say so", async || {
        (controller.metric("limpet_key_rotation_late").await.ok()? == "0").then_some(())
    })
    .await
}
