//! Rules with several backends, which Envoy Gateway makes one cluster.

use anyhow::Result;
use limpet_e2e::Build;
use limpet_e2e::kube::Pod;
use serde_json::json;

use crate::site::EnvoyGatewaySite;

/// Adds the Service `canary` with a pod of that name, and these weights.
pub(crate) async fn split(site: &EnvoyGatewaySite, weights: [u32; 2]) -> Result<()> {
    let reference = |name: &str, weight: u32| json!({"name": name, "port": 80, "weight": weight});
    let route = site.namespace.get("HTTPRoute", "shop").await?;
    let mut rule = route["spec"]["rules"][0].clone();
    rule["backendRefs"] = json!([reference("shop", weights[0]), reference("canary", weights[1])]);
    let change = json!({"spec": {"rules": [rule]}});
    site.namespace.merge("HTTPRoute", "shop", &change).await.map(drop)
}

pub(crate) async fn canary(site: &EnvoyGatewaySite) -> Result<Pod> {
    site.namespace.service("canary", &[("app", "canary")]).await?;
    site.namespace.pod("canary", &[("app", "canary")]).await
}

async fn a_session_stays_on_its_side_of_a_split(build: Build) -> Result<()> {
    let (site, _envoy) = EnvoyGatewaySite::start("split", build).await?;
    let _canary = canary(&site).await?;
    split(&site, [90, 10]).await?;

    let mut on_canary = site.session_on("canary").await?;
    let mut on_shop = site.session_on("a").await?;
    for _ in 0..30 {
        assert_eq!(on_canary.get("/").await?.backend(), Some("canary"));
        assert_eq!(on_shop.get("/").await?.backend(), Some("a"));
    }
    // Sessions do not move with the weights.
    split(&site, [1, 99]).await?;
    site.session_on("canary").await?;
    for _ in 0..30 {
        assert_eq!(on_canary.get("/").await?.backend(), Some("canary"));
        assert_eq!(on_shop.get("/").await?.backend(), Some("a"));
    }

    // Envoy Gateway removes a backend of weight 0 from the cluster. Its sessions move at once and get new tokens.
    split(&site, [100, 0]).await?;
    site.until("no request reaches the canary", |answer| {
        answer.backend() != Some("canary")
    })
    .await?;
    let moved = on_canary.get("/").await?;
    assert_eq!(moved.status, 200);
    assert!(moved.set_cookie("limpet-session").is_some());
    for _ in 0..10 {
        assert_eq!(on_canary.get("/").await?.backend(), moved.backend());
        assert_eq!(on_shop.get("/").await?.backend(), Some("a"));
    }
    Ok(())
}

#[tokio::test]
async fn a_session_stays_on_its_side_of_a_split_with_the_module() -> Result<()> {
    a_session_stays_on_its_side_of_a_split(Build::Module).await
}

#[tokio::test]
async fn a_session_stays_on_its_side_of_a_split_with_wasm() -> Result<()> {
    a_session_stays_on_its_side_of_a_split(Build::Wasm).await
}
