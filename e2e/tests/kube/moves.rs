//! Applications move their sessions by the names of pods.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::POD_PORT;
use limpet_e2e::{Answer, Request, Visitor, poll};
use serde_json::json;

use crate::keyring::KeyringSite;

const WEB: &[(&str, &str)] = &[("app", "web")];
const MOVE: &str = "x-move";

/// Longer than the controller gathers changes of hosts.
const GATHERED: Duration = Duration::from_millis(1500);

async fn let_move(site: &KeyringSite) -> Result<()> {
    let annotation = json!({"session.limpet.dev/move": "{header: X-Move}"});
    let change = json!({"metadata": {"annotations": annotation}});
    let policy = "gateway.networking.k8s.io/v1alpha2/BackendLBPolicy";
    site.namespace.merge(policy, "web", &change).await.map(drop)
}

async fn moving(site: &KeyringSite, visitor: &mut Visitor, to: &str) -> Result<Answer> {
    let request = Request::get(site.controller.address(8080), "/").answered_with(MOVE, to);
    let answer = visitor.send(request).await?;
    ensure!(answer.status == 200 && answer.header(MOVE).is_none(), "{answer:?}");
    Ok(answer)
}

async fn counted(site: &KeyringSite, word: &str) -> Result<u64> {
    let stats = site.envoy.admin().stats(&format!("limpet.*[.]{word}$")).await?;
    Ok(stats.values().sum())
}

async fn until_moved(site: &KeyringSite, to: &str) -> Result<Visitor> {
    poll::until(&format!("a session that moves to {to}"), async || {
        let (mut visitor, _) = site.session().await.ok()?;
        moving(site, &mut visitor, to).await.ok()?;
        let answer = visitor.get("/").await.ok()?;
        (answer.backend() == Some(to)).then_some(visitor)
    })
    .await
}

async fn refused(site: &KeyringSite, visitor: &mut Visitor, to: &str) -> Result<()> {
    let at = visitor.get("/").await?.backend().context("no backend")?.to_owned();
    let before = counted(site, "refused_moves").await?;
    let told = moving(site, visitor, to).await?;
    ensure!(told.set_cookies().is_empty(), "{to}: a token was issued");
    assert_eq!(counted(site, "refused_moves").await?, before + 1, "{to}");
    assert_eq!(visitor.get("/").await?.backend(), Some(at.as_str()), "{to}");
    Ok(())
}

#[tokio::test]
async fn an_application_names_a_pod() -> Result<()> {
    let mut site = KeyringSite::start_with("moves", "1m", "1h").await?;
    let_move(&site).await?;
    let mut visitor = until_moved(&site, "b").await?;
    for name in ["a", "b", "a"] {
        moving(&site, &mut visitor, name).await?;
        for _ in 0..4 {
            assert_eq!(visitor.get("/").await?.backend(), Some(name));
        }
    }
    let address = site.pods[1].address().to_string();
    moving(&site, &mut visitor, &address).await?;
    assert_eq!(visitor.get("/").await?.backend(), Some("b"));

    // A pod of another Service, a missing one, and an unused address.
    let other = site.namespace.pod("other", &[("app", "other")]).await?;
    site.namespace.service("other", &[("app", "other")]).await?;
    let nobody = format!("10.66.200.200:{POD_PORT}");
    for to in ["other", &other.address().to_string(), "c", "web", &nobody, "a.b"] {
        refused(&site, &mut visitor, to).await?;
    }

    let _c = site.namespace.pod("c", WEB).await?;
    until_moved(&site, "c").await?;
    let gone = site.pods.remove(0);
    gone.remove().await?;
    poll::until("a pod that is gone to be refused", async || {
        refused(&site, &mut visitor, "a").await.ok()
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_new_endpoint_reloads_filters_only_where_sessions_move() -> Result<()> {
    let site = KeyringSite::start_with("unmoved", "1m", "1h").await?;
    let reloads = site.reloads().await?;
    let _c = site.namespace.pod("c", WEB).await?;
    poll::until("a session at the new pod", async || {
        let (_, backend) = site.session().await.ok()?;
        (backend == "c").then_some(())
    })
    .await?;
    tokio::time::sleep(GATHERED).await;
    assert_eq!(site.reloads().await?, reloads);

    let_move(&site).await?;
    until_moved(&site, "c").await?;
    let before = site.reloads().await?;
    assert!(before > reloads);
    let _d = site.namespace.pod("d", WEB).await?;
    until_moved(&site, "d").await?;
    tokio::time::sleep(GATHERED).await;
    assert_eq!(site.reloads().await?, before + 1, "one push for each change");
    Ok(())
}
