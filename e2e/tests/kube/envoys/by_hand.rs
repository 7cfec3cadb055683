//! Gateways with Envoys of others.

use anyhow::Result;
use limpet_e2e::kube::Controller;
use serde_json::{Value, json};

use super::{KINDS, SERVICE, Site, gateway, namespace, parameters, refers_to};
use crate::site::condition;

#[tokio::test]
async fn an_address_that_somebody_else_wrote_stays() -> Result<()> {
    let (cluster, namespace) = namespace("by-hand").await?;
    gateway(&namespace, "web", &json!({})).await?;
    let theirs = json!([{"type": "IPAddress", "value": "192.0.2.1"}]);
    let _controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    let pending = |object: &Value| condition(&object["status"]["conditions"], "Programmed") == "False/Pending";
    namespace.until("its status", "Gateway", "web", pending).await?;
    namespace
        .merge_status("Gateway", "web", &json!({"addresses": theirs}))
        .await?;
    // This makes the controller write the status.
    let change = json!({"spec": {"listeners": [
        {"name": "http", "port": 8080, "protocol": "HTTP"},
        {"name": "more", "port": 8081, "protocol": "HTTP"},
    ]}});
    namespace.merge("Gateway", "web", &change).await?;
    let both = |object: &Value| {
        object["status"]["listeners"]
            .as_array()
            .is_some_and(|all| all.len() == 2)
    };
    let written = namespace.until("both listeners", "Gateway", "web", both).await?;
    assert_eq!(written["status"]["addresses"], theirs);
    Ok(())
}

#[tokio::test]
async fn a_gateway_by_hand_has_the_address_of_the_service_it_names() -> Result<()> {
    let site = Site::start("named-service", json!({})).await?;
    site.namespace.service("edge", &[("app", "edge")]).await?;
    parameters(
        &site.namespace,
        "by-hand",
        &json!({"managed": false, "serviceRef": {"name": "edge"}}),
    )
    .await?;
    parameters(&site.namespace, "no-service", &json!({"managed": false})).await?;
    site.gateway("parameters", &refers_to("by-hand")).await?;
    site.gateway("annotation", &refers_to("no-service")).await?;
    let annotation = json!({"metadata": {"annotations": {"limpet.dev/service": "edge"}}});
    site.namespace.merge("Gateway", "annotation", &annotation).await?;
    let edge = site.namespace.get(SERVICE, "edge").await?["spec"]["clusterIP"].clone();
    for gateway in ["parameters", "annotation"] {
        let has = |object: &Value| object["status"]["addresses"][0]["value"] == edge;
        site.namespace.until("its address", "Gateway", gateway, has).await?;
        for kind in KINDS {
            let there = site.namespace.find(kind, &site.envoys(gateway)).await?;
            assert_eq!(there, None, "{gateway}");
        }
    }
    Ok(())
}
