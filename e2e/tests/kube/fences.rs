//! A pod's address that another pod gets.

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::POD_PORT;
use limpet_e2e::poll;
use serde_json::Value;

use crate::keyring::KeyringSite;

const WEB: &[(&str, &str)] = &[("app", "web")];
const FENCES: &str = "limpet-fences";

async fn fenced(site: &KeyringSite) -> Result<u64> {
    Ok(site.envoy.admin().stats("limpet.*refused.fenced").await?.values().sum())
}

#[tokio::test]
async fn a_reused_address_does_not_bring_its_sessions() -> Result<()> {
    let mut site = KeyringSite::start_with("fences", "1m", "1h").await?;
    let mut of_a = Vec::new();
    let mut of_b = Vec::new();
    poll::until("sessions at both pods", async || {
        let (visitor, backend) = site.session().await.ok()?;
        if backend == "a" { &mut of_a } else { &mut of_b }.push(visitor);
        (of_a.len() > 2 && of_b.len() > 2).then_some(())
    })
    .await?;

    let ip = site.pods.remove(0).remove().await?;
    let _heir = site.namespace.pod_at("heir", WEB, ip).await?;
    let (mut of_heir, _) = poll::until("a session at the heir", async || {
        let (visitor, backend) = site.session().await.ok()?;
        (backend == "heir").then_some((visitor, backend))
    })
    .await?;
    let kept = site.namespace.get("v1/ConfigMap", FENCES).await?["data"]["fences.json"].clone();
    let list: Value = serde_json::from_str(kept.as_str().context("no list")?)?;
    assert_eq!(list[0]["address"], format!("{ip}:{POD_PORT}"));
    assert_eq!(list.as_array().map(Vec::len), Some(1));

    // No session reached the heir before every Envoy had the fence.
    let before = fenced(&site).await?;
    for visitor in &mut of_a {
        let old = visitor.cookie("limpet-session").map(str::to_owned);
        let answer = visitor.get("/").await?;
        ensure!(answer.status == 200 && visitor.cookie("limpet-session").map(str::to_owned) != old);
    }
    assert_eq!(fenced(&site).await? - before, of_a.len() as u64);
    for visitor in &mut of_b {
        assert_eq!(visitor.get("/").await?.backend(), Some("b"));
    }
    for _ in 0..6 {
        assert_eq!(of_heir.get("/").await?.backend(), Some("heir"));
    }

    // A restarted controller has nothing new for Envoy.
    let reloads = site.reloads().await?;
    site.controller.kill();
    site.controller.launch()?;
    site.controller.until_ready().await?;
    let connected = format!("limpet_clients{{gateway=\"{}/web\"}}", site.namespace.name());
    poll::until("Envoy to reconnect", async || {
        (site.controller.metric(&connected).await.ok()? == "1").then_some(())
    })
    .await?;
    assert_eq!(of_heir.get("/").await?.backend(), Some("heir"));
    assert_eq!(site.reloads().await?, reloads);
    assert_eq!(site.controller.metric("limpet_fences").await?, "1");
    let after = site.namespace.get("v1/ConfigMap", FENCES).await?["data"]["fences.json"].clone();
    assert_eq!(after, kept);
    Ok(())
}
