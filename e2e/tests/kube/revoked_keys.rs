//! A key is revoked by an annotation of the Secret: in every Envoy at once, whichever replica serves it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use limpet_e2e::poll;
use serde_json::{Value, json};

use crate::kept::{event, until_event};
use crate::keyring::{KEYRING, KeyringSite, SHORT_IDLE, key_encryption_key, key_of, until_signed_with};

async fn annotations(site: &KeyringSite) -> Result<Value> {
    Ok(site.namespace.get("v1/Secret", KEYRING).await?["metadata"]["annotations"].clone())
}

async fn revoke(site: &KeyringSite, ids: &str) -> Result<()> {
    let change = json!({"metadata": {"annotations": {"limpet.dev/revoke": ids}}});
    site.namespace.merge("v1/Secret", KEYRING, &change).await.map(drop)
}

#[tokio::test]
async fn an_annotation_revokes_a_key_in_every_envoy() -> Result<()> {
    let site = KeyringSite::start_with("revoke", "1s", "1h").await?;
    let key = key_encryption_key(&site.namespace).await?;
    let mut second = site
        .controller
        .envoy_with("web", "two", &[("LIMPET_KEK_1", &key)])
        .await?;
    second.until_ready().await?;
    let crowd = site.crowd().await?;
    let (mut visitor, _) = site.session().await?;
    let before = site.namespace.get("v1/Secret", KEYRING).await?["data"]["keyring.json"].clone();

    revoke(&site, "1").await?;
    site.until_keys(&[(1, "revoked"), (2, "signing")]).await?;
    let note = until_event(&site.namespace, "Secret", KEYRING, "Revoking", "key 1 is revoked").await?;
    ensure!(note.contains("until every Envoy knows"), "{note}");
    let done = async || {
        let found = annotations(&site).await.ok()?;
        (found["limpet.dev/revoked"] == "1" && found["limpet.dev/revoke"].is_null()).then_some(())
    };
    poll::until("every Envoy to know", done).await?;
    let words = "every connected Envoy has the keyring";
    let event = event(&site.namespace, "Secret", KEYRING, "Revoked", words).await?;
    assert_eq!(event["type"], "Normal");
    let log = site.controller.log()?;
    let done: Vec<&str> = log.lines().filter(|line| line.contains(words)).collect();
    ensure!(done.len() == 1 && done[0].contains("INFO"), "{done:?}");
    for envoy in ["one", "two"] {
        let told = |line: &&str| {
            line.contains("this Envoy honours no token of the revoked keys")
                && line.contains(&format!("envoy=\"{envoy}\""))
        };
        let line = log
            .lines()
            .find(told)
            .with_context(|| format!("{envoy} is not in {log}"))?;
        ensure!(line.contains("after="), "{line}");
    }

    until_signed_with(&crowd, 2).await?;
    visitor.get("/").await?;
    assert_eq!(key_of(visitor.cookie("limpet-session").context("no session")?)?, 2);
    crowd.leave().await.none_failed()?;
    // Both Envoys listen at one address.
    let mut ended = 0;
    for envoy in [&site.envoy, &second] {
        ended += envoy.admin().stats("limpet.keys.1.ended").await?.values().sum::<u64>();
    }
    ensure!(ended >= 10, "{ended} ended");
    assert_eq!(site.controller.metric("limpet_keys{state=\"revoked\"}").await?, "1");
    let after = site.namespace.get("v1/Secret", KEYRING).await?["data"]["keyring.json"].clone();
    assert_ne!(before, after);

    // An unknown key is reported, and nothing is revoked.
    revoke(&site, "2,7").await?;
    let words =
        "expected ids of keys of the keyring (1, 2), with commas between them, found \"2,7\": nothing is revoked";
    until_event(&site.namespace, "Secret", KEYRING, "Invalid", words).await?;
    site.until_keys(&[(1, "revoked"), (2, "signing")]).await?;

    // So is a misspelt name.
    let misspelt = json!({"metadata": {"annotations": {"limpet.dev/revok": "2"}}});
    site.namespace.merge("v1/Secret", KEYRING, &misspelt).await?;
    let words = "metadata.annotations[limpet.dev/revok]: expected no annotation of this name, but limpet.dev/revoke,";
    until_event(&site.namespace, "Secret", KEYRING, "Invalid", words)
        .await
        .map(drop)
}

#[tokio::test]
async fn a_revocation_continues_where_the_leader_died() -> Result<()> {
    let mut site = KeyringSite::start_with("revoking", "2s", "1h").await?;
    revoke(&site, "1").await?;
    site.until_keys(&[(1, "revoked"), (2, "signing")]).await?;
    site.controller.kill();
    site.namespace
        .delete("coordination.k8s.io/v1/Lease", "limpet-controller")
        .await?;
    assert_eq!(
        annotations(&site).await?["limpet.dev/revoke"],
        "1",
        "nobody knows that all have it"
    );
    site.controller.launch()?;
    let done = async || (annotations(&site).await.ok()?["limpet.dev/revoked"] == "1").then_some(());
    poll::until("every Envoy to know", done).await?;
    site.session().await.map(drop)
}

#[tokio::test]
async fn a_revocation_waits_for_longer_than_tokens_live() -> Result<()> {
    let site = KeyringSite::start_with("late", "300ms", SHORT_IDLE).await?;
    // It stays connected, and acknowledges nothing.
    site.envoy.process().pause()?;
    revoke(&site, "1").await?;
    let since = Instant::now();
    site.until_keys(&[(1, "revoked"), (2, "signing")]).await?;
    // Twice as long as a token lives: two seconds, a tenth of that, and the skew.
    let life = Duration::from_millis(2_700);
    poll::until("the end of every token", async || {
        (since.elapsed() > 2 * life).then_some(())
    })
    .await?;
    assert_eq!(site.keys().await?[0], (1, "revoked".to_owned()));
    let events = site.namespace.list("events.k8s.io/v1/Event", "").await?;
    ensure!(events.iter().all(|event| event["reason"] != "Invalid"), "{events:#?}");
    assert_eq!(annotations(&site).await?["limpet.dev/revoke"], "1");

    site.envoy.process().go_on()?;
    let done = async || (annotations(&site).await.ok()?["limpet.dev/revoked"] == "1").then_some(());
    poll::until("every Envoy to know", done).await?;
    site.until_keys(&[(2, "signing")]).await?;
    site.session().await.map(drop)
}
