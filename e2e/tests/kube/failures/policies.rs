//! Policies change under their sessions.

use anyhow::Result;
use limpet_e2e::kube::{Cluster, Release};
use limpet_e2e::poll;

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
