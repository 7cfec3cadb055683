//! Tokens that a fence refuses: load is balanced, a new session begins, and the reason is counted.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Config, Envoy, Site, filter_with, poll};
use serde_json::json;

async fn site_and_token() -> Result<(Site, String)> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    let token = site
        .visitor()
        .get("/")
        .await?
        .set_cookie("limpet-session")
        .context("no cookie was set")?
        .value;
    Ok((site, token))
}

async fn assert_fenced(envoy: &Envoy, token: &str) -> Result<()> {
    let before = envoy.metric("web.refused.fenced").await?;
    let answer = envoy.get("/").cookie(format!("limpet-session={token}")).send().await?;
    assert_eq!(answer.status, 200);
    assert!(answer.set_cookie("limpet-session").is_some(), "no new session began");
    assert_eq!(envoy.metric("web.refused.fenced").await? - before, 1);
    assert_eq!(envoy.metric("web.steered").await?, 0);
    Ok(())
}

fn unix_seconds() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

/// As from a writer whose clock is an hour ahead.
#[tokio::test]
async fn a_fence_ahead_of_the_clock_lets_new_sessions_live() -> Result<()> {
    let (site, token) = site_and_token().await?;
    let mut filter = filter_with(&json!({"cookie": {"name": "limpet-session"}}));
    filter["clockSkew"] = "2s".into();
    let ahead = json!({"address": "127.0.0.1", "notBefore": unix_seconds()? + 3600});
    filter["fences"] = json!([ahead]);
    let config = Config::load("ecds.yaml")?.filter(&filter).backends(&site.backends);
    let mut envoy = Envoy::serve(config).await?;
    assert_fenced(&envoy, &token).await?;
    let stays = async |envoy: &Envoy, token: &str| {
        let cookie = format!("limpet-session={token}");
        for _ in 0..20 {
            let answer = envoy.get("/").cookie(cookie.clone()).send().await?;
            ensure!(
                answer.set_cookie("limpet-session").is_none(),
                "the session has begun anew"
            );
        }
        anyhow::Ok(())
    };
    let young = poll::until("a session that lasts", async || {
        let answer = envoy.get("/").send().await.ok()?;
        let token = answer.set_cookie("limpet-session")?.value;
        stays(&envoy, &token).await.ok().map(|()| token)
    })
    .await?;
    assert!(
        envoy
            .log()?
            .contains("fences[0].notBefore: expected a time at most 2s (clockSkew) from now")
    );

    // The next configuration does not begin it again.
    filter["fences"] = json!([ahead, {"address": "127.0.0.2", "notBefore": 1}]);
    let reloads = "extension_config_discovery.http_filter.limpet.config_reload";
    let before = envoy.stat(reloads).await?;
    envoy.update(|config| config.filter(&filter))?;
    envoy.until_stat(reloads, before + 1).await?;
    stays(&envoy, &young).await?;
    ensure!(
        stays(&envoy, &token).await.is_err(),
        "the former owner's session goes on"
    );
    Ok(())
}
