//! What kept pods show of their Gateway: whether it serves, and by which nodes.

use anyhow::Result;
use limpet_e2e::kube::Pod;
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::{SERVICE, Site};
use crate::failures::rights::without;
use crate::site::condition;

async fn pod(site: &Site, gateway: &str) -> Result<Pod> {
    let labels = [
        ("app.kubernetes.io/name", "limpet-envoy"),
        ("app.kubernetes.io/instance", &site.envoys(gateway)),
    ];
    site.namespace.pod(gateway, &labels).await
}

#[tokio::test]
async fn a_gateway_is_programmed_once_one_of_its_pods_is_ready() -> Result<()> {
    let site = Site::start("ready", json!({"defaults": {"service": {"type": "ClusterIP"}}})).await?;
    site.gateway("web", &json!({})).await?;
    let mut envoy = site.controller.envoy("web", "one").await?;
    envoy.until_ready().await?;
    let listens = |gateway: &Value| {
        let listener = &gateway["status"]["listeners"][0]["conditions"];
        let waits = condition(&gateway["status"]["conditions"], "Programmed") == "False/Pending";
        condition(listener, "Programmed") == "True/Programmed" && waits
    };
    let gateway = site
        .namespace
        .until("acknowledgements", "Gateway", "web", listens)
        .await?;
    let conditions = &gateway["status"]["conditions"];
    let words = format!(
        "No pod of Service {}/{} is ready",
        site.namespace.name(),
        site.envoys("web")
    );
    assert!(conditions.to_string().contains(&words), "{conditions:#}");

    let pod = pod(&site, "web").await?;
    site.until_condition("web", "Programmed", "True/Programmed").await?;
    pod.report(false).await?;
    site.until_condition("web", "Programmed", "False/Pending").await?;
    pod.report(true).await?;
    site.until_condition("web", "Programmed", "True/Programmed").await?;
    Ok(())
}

/// All tests share the node, whose address no other one uses.
#[tokio::test]
async fn a_node_port_is_found_at_the_nodes_of_its_pods() -> Result<()> {
    let site = Site::start("node-port", json!({"defaults": {"service": {"type": "NodePort"}}})).await?;
    let nodes = site.cluster.server().admin();
    let inside = json!({"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]});
    let node = nodes.list("v1/Node", "").await?[0]["metadata"]["name"].clone();
    let node = node.as_str().unwrap_or_default();
    nodes.merge_status("v1/Node", node, &inside).await?;
    site.gateway("web", &json!({})).await?;
    let service = site.until("it", SERVICE, "web", |_| true).await?;
    assert_eq!(service["spec"]["type"], "NodePort");
    let message = site
        .until_condition("web", "Programmed", "False/AddressNotAssigned")
        .await?;
    assert!(message.contains("none of its pods is ready"), "{message}");

    let pod = pod(&site, "web").await?;
    let has = |expected: &'static str| {
        move |gateway: &Value| {
            let expected = json!([{"type": "IPAddress", "value": expected}]);
            gateway["status"]["addresses"] == expected
        }
    };
    site.namespace
        .until("the node's address", "Gateway", "web", has("192.0.2.1"))
        .await?;
    let both = json!({"addresses": [
        {"type": "InternalIP", "address": "192.0.2.1"},
        {"type": "ExternalIP", "address": "198.51.100.1"},
    ]});
    nodes.merge_status("v1/Node", node, &both).await?;
    site.namespace
        .until("the address from outside", "Gateway", "web", has("198.51.100.1"))
        .await?;
    pod.report(false).await?;
    site.until_condition("web", "Programmed", "False/AddressNotAssigned")
        .await?;

    let role = "limpet-controller";
    let name = site.namespace.cluster_role(role);
    let rules = site.namespace.get("ClusterRole", &name).await?["rules"].clone();
    without(
        &site.namespace,
        &format!("ClusterRole {role}"),
        &rules,
        "list",
        &["nodes"],
    )
    .await?;
    let server = site.cluster.server();
    let user = server.service_account(site.namespace.name(), role).await?;
    let controller = server.client(user);
    poll::until("the right to be gone", async || {
        controller.list("v1/Node", "").await.is_err().then_some(())
    })
    .await?;
    pod.report(true).await?;
    let told = |gateway: &Value| {
        let conditions = gateway["status"]["conditions"].to_string();
        conditions.contains(&format!("Node {node}: limpet has no right to read it"))
    };
    site.namespace
        .until("the missing right", "Gateway", "web", told)
        .await?;
    nodes.merge("ClusterRole", &name, &json!({"rules": rules})).await?;
    site.namespace
        .until("the address again", "Gateway", "web", has("198.51.100.1"))
        .await?;
    Ok(())
}
