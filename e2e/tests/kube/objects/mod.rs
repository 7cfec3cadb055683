//! What the controller writes for another control plane, which does not run here: the API server has only its kinds.

mod accepted;
mod kept;
mod others;
mod rotation;

use anyhow::{Context, Result};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Output};
use serde_json::{Value, json};

use crate::site::{POLICY, condition, site_objects};

/// The kinds that the controller writes for Istio.
const KINDS: [&str; 2] = ["WasmPlugin", "EnvoyFilter"];
/// The label of all of Limpet's objects.
const OURS: &str = "app.kubernetes.io/managed-by=limpet";

async fn namespace_with_policy(cluster: &Cluster, prefix: &str) -> Result<Namespace> {
    let namespace = cluster.namespace(prefix).await?;
    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GatewayClass",
        "metadata": {"name": namespace.name()},
        "spec": {"controllerName": "istio.io/gateway-controller"},
    });
    namespace.apply_object(&class).await?;
    namespace.service("web", &[("app", "web")]).await?;
    // Without this label, the policy's status would report a loss.
    let drains = json!({"metadata": {"labels": {"istio.io/persistent-session": "limpet"}}});
    namespace.merge("Service", "web", &drains).await?;
    namespace.apply(&site_objects(&namespace)).await?;
    namespace.apply(POLICY).await?;
    Ok(namespace)
}

async fn controller(cluster: &Cluster, namespace: &Namespace) -> Result<Controller> {
    controller_with(cluster, namespace, |_| ()).await
}

async fn controller_with(
    cluster: &Cluster,
    namespace: &Namespace,
    change: impl FnOnce(&mut Value),
) -> Result<Controller> {
    let change = |config: &mut Value| {
        config["propagationTime"] = "200ms".into();
        // Istio's proxies load no modules. No proxy here loads the file.
        config["envoy"]["filter"] = json!({"wasm": {"file": "/etc/limpet/limpet.wasm"}});
        change(config);
    };
    let mut controller = Controller::prepare_for(Output::Istio, cluster.server(), namespace, change).await?;
    controller.launch()?;
    controller.until_ready().await?;
    Ok(controller)
}

async fn ours(namespace: &Namespace) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for kind in KINDS {
        all.extend(namespace.list(kind, OURS).await?);
    }
    Ok(all)
}

async fn until_programmed(namespace: &Namespace, expected: &str) -> Result<String> {
    let says = |object: &Value| condition(&object["status"]["ancestors"][0]["conditions"], "Programmed") == expected;
    let policy = namespace.until(expected, "BackendLBPolicy", "web", says).await?;
    let conditions = policy["status"]["ancestors"][0]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let message = conditions.find(|condition| condition["type"] == "Programmed");
    let message = message.and_then(|condition| condition["message"].as_str());
    Ok(message.context("no message")?.to_owned())
}
