//! A pod's address that another pod gets.

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::POD_PORT;
use limpet_e2e::poll;
use serde_json::Value;

use crate::keyring::Shop;

const WEB: &[(&str, &str)] = &[("app", "web")];
const FENCES: &str = "limpet-fences";

async fn fenced(shop: &Shop) -> Result<u64> {
    Ok(shop.envoy.admin().stats("limpet.*refused.fenced").await?.values().sum())
}

#[tokio::test]
async fn a_pod_does_not_get_the_sessions_of_the_one_that_had_its_address() -> Result<()> {
    let mut shop = Shop::open("fences", "1m").await?;
    let mut of_a = Vec::new();
    let mut of_b = Vec::new();
    poll::until("sessions on both pods", async || {
        let (visitor, backend) = shop.session().await.ok()?;
        if backend == "a" { &mut of_a } else { &mut of_b }.push(visitor);
        (of_a.len() > 2 && of_b.len() > 2).then_some(())
    })
    .await?;

    let ip = shop.pods.remove(0).remove().await?;
    let _heir = shop.namespace.pod_at("heir", WEB, ip).await?;
    let (mut of_heir, _) = poll::until("a session on the heir", async || {
        let (visitor, backend) = shop.session().await.ok()?;
        (backend == "heir").then_some((visitor, backend))
    })
    .await?;
    let kept = shop.namespace.get("v1/ConfigMap", FENCES).await?["data"]["fences.json"].clone();
    let list: Value = serde_json::from_str(kept.as_str().context("no list")?)?;
    assert_eq!(list[0]["address"], format!("{ip}:{POD_PORT}"));
    assert_eq!(list.as_array().map(Vec::len), Some(1));

    // Before the fence was everywhere, nobody was led to the heir.
    let before = fenced(&shop).await?;
    for visitor in &mut of_a {
        let old = visitor.cookie("session").map(str::to_owned);
        let answer = visitor.get("/").await?;
        ensure!(answer.status == 200 && visitor.cookie("session").map(str::to_owned) != old);
    }
    assert_eq!(fenced(&shop).await? - before, of_a.len() as u64);
    for visitor in &mut of_b {
        assert_eq!(visitor.get("/").await?.backend(), Some("b"));
    }
    for _ in 0..6 {
        assert_eq!(of_heir.get("/").await?.backend(), Some("heir"));
    }

    // Who starts again has nothing to tell Envoy.
    let reloads = shop.reloads().await?;
    shop.controller.kill();
    shop.controller.launch()?;
    shop.controller.until_ready().await?;
    let connected = format!("limpet_clients{{gateway=\"{}/web\"}}", shop.namespace.name());
    poll::until("Envoy to come back", async || {
        (shop.controller.metric(&connected).await.ok()? == "1").then_some(())
    })
    .await?;
    assert_eq!(of_heir.get("/").await?.backend(), Some("heir"));
    assert_eq!(shop.reloads().await?, reloads);
    assert_eq!(shop.controller.metric("limpet_fences").await?, "1");
    let after = shop.namespace.get("v1/ConfigMap", FENCES).await?["data"]["fences.json"].clone();
    assert_eq!(after, kept);
    Ok(())
}
