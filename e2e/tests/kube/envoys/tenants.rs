//! Tenants do not affect each other's Envoys.

use anyhow::{Result, ensure};
use limpet_e2e::kube::Refusal;
use serde_json::{Value, json};

use super::{Site, parameters, refers_to};

/// The API server refuses these only with the Deployment, because the definition does not describe the mistake.
#[tokio::test]
async fn what_the_api_server_refuses_is_one_gateways() -> Result<()> {
    let site = Site::start("mistakes", json!({})).await?;
    let mistakes = [
        json!({"envoy": {"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}}}),
        json!({"limpet": {"resources": {"limits": {"not a name": "1"}}}}),
        json!({"envoy": {"resources": {"claims": [{"name": {"a": "b"}}]}}}),
        json!({"pod": {"tolerations": [{"key": {"a": "b"}}]}}),
        json!({"pod": {"affinity": {"nonsense": [[1]]}}}),
        json!({"pod": {"imagePullSecrets": [{"name": "a"}, {"name": "a"}]}}),
        json!({"pod": {"topologySpreadConstraints": [{"topologyKey": "a"}, {"topologyKey": "a"}]}}),
        json!({"patch": {"deployment": {"spec": "text"}}}),
        json!({"patch": {"service": {"spec": {"ports": [{"port": "text"}]}}}}),
    ];
    for (number, mistake) in mistakes.iter().enumerate() {
        // Written before the other's.
        let (bad, good) = (format!("a-{number}"), format!("b-{number}"));
        parameters(&site.namespace, &bad, mistake).await?;
        site.gateway(&bad, &refers_to(&bad)).await?;
        site.gateway(&good, &json!({})).await?;
        let told = site.until_condition(&bad, "Programmed", "False/EnvoysNotWritten").await;
        ensure!(told.is_ok(), "{mistake}: {told:?}\n{}", site.controller.log()?);
        site.until_all_there(&good).await?;
    }
    Ok(())
}

/// Readers of JSON limit levels.
#[tokio::test]
async fn an_object_of_many_levels_stops_no_watch() -> Result<()> {
    let mut site = Site::start("levels", json!({})).await?;
    parameters(&site.namespace, "own", &json!({"replicas": 3})).await?;
    site.gateway("web", &refers_to("own")).await?;
    let has = |replicas: u64| move |object: &Value| object["spec"]["replicas"] == replicas;
    site.until("three", super::DEPLOYMENT, "web", has(3)).await?;
    let deep = (0..200).fold(json!({}), |inner, _| json!({"a": inner}));
    let applied = parameters(
        &site.namespace,
        "deep",
        &json!({"patch": {"deployment": {"spec": deep}}}),
    )
    .await;
    // Too many levels for this client as well.
    let refusal = applied.as_ref().err().and_then(|error| error.downcast_ref::<Refusal>());
    ensure!(refusal.is_none(), "{refusal:?}");
    site.gateway("deep", &refers_to("deep")).await?;
    let invalid = site
        .until_condition("deep", "Accepted", "False/InvalidParameters")
        .await?;
    ensure!(invalid.contains("more than 64 levels"), "{invalid}");
    parameters(&site.namespace, "own", &json!({"replicas": 4})).await?;
    site.until("four", super::DEPLOYMENT, "web", has(4)).await?;
    site.controller.end().await?;
    site.controller.launch()?;
    site.controller.until_ready().await?;
    parameters(&site.namespace, "own", &json!({"replicas": 5})).await?;
    site.until("five", super::DEPLOYMENT, "web", has(5)).await.map(drop)
}
