use anyhow::Result;
use limpet_e2e::Build;

use crate::site::EnvoyGatewaySite;

async fn sessions_stay_on_a_pod_that_drains(build: Build) -> Result<()> {
    let (mut site, _envoy) = EnvoyGatewaySite::start("draining", build).await?;
    site.namespace.apply(&site.manifest("draining.yaml")?).await?;
    site.until_policy("EnvoyPatchPolicy", "shop-draining", "Programmed", "True/Programmed")
        .await?;

    let mut of_a = site.session_on("a").await?;
    let mut of_b = site.session_on("b").await?;
    site.pods[0].drain().await?;
    site.until("no new sessions at a", |answer| answer.backend() == Some("b"))
        .await?;
    for _ in 0..20 {
        assert_eq!(of_a.get("/").await?.backend(), Some("a"));
        assert_eq!(of_b.get("/").await?.backend(), Some("b"));
    }
    site.pods.remove(0).remove().await?;
    let moved = of_a.get("/").await?;
    assert_eq!((moved.status, moved.backend()), (200, Some("b")));
    assert!(moved.set_cookie("limpet-session").is_some());
    assert!(of_a.get("/").await?.set_cookie("limpet-session").is_none());
    Ok(())
}

#[tokio::test]
async fn sessions_stay_at_a_draining_pod_with_the_module() -> Result<()> {
    sessions_stay_on_a_pod_that_drains(Build::Module).await
}

#[tokio::test]
async fn sessions_stay_at_a_draining_pod_with_wasm() -> Result<()> {
    sessions_stay_on_a_pod_that_drains(Build::Wasm).await
}

/// If this fails, the README and docs/reference/envoy-gateway.md need not ask for the patch.
#[tokio::test]
async fn without_the_patch_sessions_move_at_once() -> Result<()> {
    let (site, _envoy) = EnvoyGatewaySite::start("no-patch", Build::Module).await?;
    let mut of_a = site.session_on("a").await?;
    site.pods[0].drain().await?;
    site.until("no new sessions at a", |answer| answer.backend() == Some("b"))
        .await?;
    assert_eq!(of_a.get("/").await?.backend(), Some("b"));
    Ok(())
}
