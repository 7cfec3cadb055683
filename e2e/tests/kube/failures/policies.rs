//! Policies change under their sessions.

use anyhow::Result;
use limpet_e2e::kube::{Cluster, Release};
use limpet_e2e::poll;

use super::regulars::Regulars;
use super::{Scene, nothing_happened};

/// A policy that changes is another one for the filter, which Envoy gets before it gets the routes that name it.
#[tokio::test]
async fn a_policy_that_changes_keeps_its_sessions() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let scene = Scene::start(cluster, "policies").await?;
    let crowd = scene.crowd().await?;
    for hours in 1..=8 {
        let timeout = format!("{hours}h");
        let change = serde_json::json!({"spec": {"sessionPersistence": {"absoluteTimeout": timeout}}});
        scene.namespace.merge("BackendLBPolicy", "web", &change).await?;
        let served = async || {
            let filter = scene
                .envoy
                .admin()
                .text("/config_dump?resource=ecds_filters")
                .await
                .ok()?;
            filter
                .contains(&format!(r#"\"absoluteTimeout\":\"{timeout}\""#))
                .then_some(())
        };
        poll::until(&format!("the timeout {timeout}"), served).await?;
        crowd.rounds(2).await?;
    }

    // What was kept for routes of before goes when no Envoy can have them any more.
    let alone = async || {
        let filter = scene
            .envoy
            .admin()
            .text("/config_dump?resource=ecds_filters")
            .await
            .ok()?;
        (filter.matches(r#"\"absoluteTimeout\":"#).count() == 1).then_some(())
    };
    poll::until("the former policies to go", alone).await?;
    nothing_happened(crowd).await
}

/// A policy of several rules gives each a cookie of its own: who has the one cookie of before keeps the session.
#[tokio::test]
async fn a_policy_that_gets_and_loses_a_rule_keeps_its_sessions() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let scene = Scene::start(cluster, "rules").await?;
    let regulars = Regulars::gather(&scene.controller).await?;
    for _ in 0..4 {
        let second = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: second}
spec:
  parentRefs: [{name: web}]
  rules: [{matches: [{path: {value: /second}}], backendRefs: [{name: web, port: 80}]}]
";
        scene.namespace.apply(second).await?;
        until_filter(&scene, r#"\"perScope\":true"#, true).await?;
        scene.namespace.delete("HTTPRoute", "second").await?;
        until_filter(&scene, r#"\"perScope\":true"#, false).await?;
    }
    regulars.leave().await
}

/// Waits until this is in the filter's configuration, or is not.
async fn until_filter(scene: &Scene, text: &str, expected: bool) -> Result<()> {
    let asked = async || {
        let filter = scene
            .envoy
            .admin()
            .text("/config_dump?resource=ecds_filters")
            .await
            .ok()?;
        (filter.contains(text) == expected).then_some(())
    };
    poll::until(text, asked).await
}
