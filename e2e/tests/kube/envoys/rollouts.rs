//! Kept Envoys whose pods do not come up.

use anyhow::Result;
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::{DEPLOYMENT, Site, parameters, refers_to};
use crate::kept::until_event;

const NO_RESOURCES: &str = "False/NoResources";

/// What Kubernetes' own controller, which does not run here, would report.
async fn report(site: &Site, gateway: &str, available: u32, conditions: &Value) -> Result<()> {
    let name = site.envoys(gateway);
    let generation = site.namespace.get(DEPLOYMENT, &name).await?["metadata"]["generation"].take();
    let status = json!({
        "observedGeneration": generation,
        "replicas": 2,
        "readyReplicas": available,
        "availableReplicas": available,
        "conditions": conditions,
    });
    site.namespace.merge_status(DEPLOYMENT, &name, &status).await.map(drop)
}

fn late() -> Value {
    json!([{
        "type": "Progressing",
        "status": "False",
        "reason": "ProgressDeadlineExceeded",
        "message": "ReplicaSet \"new\" has timed out progressing.",
    }])
}

#[tokio::test]
async fn pods_that_do_not_come_up_are_told() -> Result<()> {
    let site = Site::start("no-pods", json!({"defaults": {"service": {"type": "ClusterIP"}}})).await?;
    site.gateway("web", &json!({})).await?;
    site.until_condition("web", "Programmed", "False/Pending").await?;
    report(&site, "web", 0, &late()).await?;
    let message = site.until_condition("web", "Programmed", NO_RESOURCES).await?;
    let place = format!("Deployment {}/{}", site.namespace.name(), site.envoys("web"));
    assert!(
        message.contains(&place) && message.contains("has timed out progressing"),
        "{message}"
    );
    until_event(&site.namespace, "Gateway", "web", "NoResources", &place).await?;

    let quota = json!([{
        "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: small",
    }]);
    report(&site, "web", 0, &quota).await?;
    until_event(
        &site.namespace,
        "Gateway",
        "web",
        "NoResources",
        "exceeded quota: small",
    )
    .await?;

    let mut envoy = site.controller.envoy("web", "one").await?;
    envoy.until_ready().await?;
    let labels = [
        ("app.kubernetes.io/name", "limpet-envoy"),
        ("app.kubernetes.io/instance", &site.envoys("web")),
    ];
    let _pod = site.namespace.pod("web", &labels).await?;
    site.until_condition("web", "Programmed", "True/Programmed").await?;
    report(&site, "web", 1, &late()).await?;
    until_event(
        &site.namespace,
        "Gateway",
        "web",
        "EnvoysNotUpdated",
        "has timed out progressing",
    )
    .await?;
    site.until_condition("web", "Programmed", "True/Programmed").await?;
    Ok(())
}

#[tokio::test]
async fn a_gateway_says_that_no_envoy_is_asked_for() -> Result<()> {
    let site = Site::start("no-replicas", json!({"defaults": {"service": {"type": "ClusterIP"}}})).await?;
    parameters(&site.namespace, "none", &json!({"replicas": 0})).await?;
    site.gateway("web", &refers_to("none")).await?;
    let message = site.until_condition("web", "Programmed", NO_RESOURCES).await?;
    assert!(
        message.contains("No Envoy is asked for") && message.contains("replicas: 0"),
        "{message}"
    );
    until_event(&site.namespace, "Gateway", "web", "NoResources", "replicas: 0").await?;
    parameters(&site.namespace, "none", &json!({"replicas": 1})).await?;
    site.until_condition("web", "Programmed", "False/Pending").await?;
    // The Event stays, but the controller's log has no other problem of it.
    let told = async || {
        let log = site.controller.log().ok()?;
        (log.matches("No Envoy is asked for").count() == 1).then_some(())
    };
    poll::until("the log", told).await
}
