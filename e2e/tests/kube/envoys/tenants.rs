//! What one tenant does to another's Envoys: nothing.

use anyhow::{Result, ensure};
use serde_json::json;

use super::{Site, parameters, refers_to};

/// No definition describes these fields, so the API server refuses them with the Deployment alone.
#[tokio::test]
async fn what_the_api_server_refuses_is_one_gateways() -> Result<()> {
    let site = Site::start("mistakes", json!({})).await?;
    let mistakes = [
        json!({"envoy": {"resources": {"nonsense": {"a": "b"}}}}),
        json!({"envoy": {"resources": {"limits": {"memory": "nonsense"}}}}),
        json!({"envoy": {"resources": {"limits": "text"}}}),
        json!({"pod": {"tolerations": [{"key": {"a": "b"}}]}}),
        json!({"pod": {"affinity": {"nonsense": [[1]]}}}),
        json!({"pod": {"imagePullSecrets": [{"name": "a"}, {"name": "a"}]}}),
        json!({"pod": {"topologySpreadConstraints": [{"topologyKey": "a"}, {"topologyKey": "a"}]}}),
        json!({"patch": {"deployment": {"spec": "text"}}}),
        json!({"patch": {"service": {"spec": {"ports": [{"port": "text"}]}}}}),
    ];
    for (number, mistake) in mistakes.iter().enumerate() {
        // Written before those of the other.
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
