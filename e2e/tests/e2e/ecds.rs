//! The filter's configuration in a file that Envoy watches (ECDS), with updates under load.

use anyhow::{Result, ensure};
use limpet_e2e::{Build, Carrier, Config, Crowd, Site, filter_with, poll};
use serde_json::{Value, json};

async fn site_under_load() -> Result<(Site, Crowd)> {
    let site = Site::start(Config::load("ecds.yaml")?).await?;
    let crowd = Crowd::gather(12, &[Carrier::Cookie], &[site.envoy.address()]).await?;
    Ok((site, crowd))
}

async fn nobody_noticed(crowd: Crowd) -> Result<()> {
    crowd.rounds(2).await?;
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.none_moved()
}

fn with_idle_timeout(timeout: &str) -> Value {
    filter_with(&json!({"cookie": {"name": "limpet-session"}, "idleTimeout": timeout}))
}

#[tokio::test]
async fn an_update_takes_effect_without_a_failed_request() -> Result<()> {
    let (mut site, crowd) = site_under_load().await?;
    let both = json!({
        "keys": [{"id": 1, "env": "LIMPET_KEY"}],
        "policies": {
            "web": {"cookie": {"name": "limpet-session"}, "cacheControl": "keep"},
            "more": {"cookie": {"name": "more"}},
        },
        "default": {"policy": "web", "scope": "default"},
    });
    site.envoy.update(|config| config.filter(&both))?;
    poll::until("the new policy's counters", async || {
        let stats = site.envoy.stats(&Build::tested().ok()?.counter("more")).await.ok()?;
        (!stats.is_empty()).then_some(())
    })
    .await?;
    site.envoy
        .until_every_worker("keeps Cache-Control, as the new configuration says", |answer| {
            answer.header("cache-control").is_none()
        })
        .await?;
    nobody_noticed(crowd).await
}

/// As a busy control plane sends them.
#[tokio::test]
async fn many_updates_fail_no_request() -> Result<()> {
    let (mut site, crowd) = site_under_load().await?;
    let reloads = "extension_config_discovery.http_filter.limpet.config_reload";
    for hours in 1..=20 {
        let before = site.envoy.stat(reloads).await?;
        let filter = with_idle_timeout(&format!("{hours}h"));
        site.envoy.update(|config| config.filter(&filter))?;
        site.envoy.until_stat(reloads, before + 1).await?;
    }
    nobody_noticed(crowd).await
}

#[tokio::test]
async fn a_bad_update_leaves_the_running_configuration_in_effect() -> Result<()> {
    let (mut site, crowd) = site_under_load().await?;
    let good = with_idle_timeout("1h");
    let mut unknown_field = good.clone();
    unknown_field["policies"]["web"]["cookie"]["nmae"] = "x".into();
    let mut no_key = good.clone();
    no_key["keys"][0]["env"] = "LIMPET_KEY_THAT_IS_NOT_THERE".into();
    let mut bad_name = good.clone();
    bad_name["policies"]["web"]["cookie"]["name"] = "a b".into();

    for (bad, field) in [
        (unknown_field, "policies.web.cookie"),
        (no_key, "keys[0].env"),
        (bad_name, "policies.web.cookie.name"),
    ] {
        site.envoy.update(|config| config.filter(&bad))?;
        poll::until(&format!("a refusal that names {field}"), async || {
            let log = site.envoy.log().ok()?;
            log.lines()
                .any(|line| line.contains("limpet: configuration refused") && line.contains(field))
                .then_some(())
        })
        .await?;
        for _ in 0..6 {
            ensure!(
                site.visitor().get("/").await?.set_cookie("limpet-session").is_some(),
                "the running configuration is not in effect"
            );
        }
    }
    nobody_noticed(crowd).await
}

#[tokio::test]
async fn after_a_bad_update_a_good_one_takes_effect() -> Result<()> {
    let mut site = Site::start(Config::load("ecds.yaml")?).await?;
    site.envoy.update(|config| config.filter(&json!({"keys": []})))?;
    poll::until("the refusal", async || {
        site.envoy
            .log()
            .ok()?
            .contains("limpet: configuration refused")
            .then_some(())
    })
    .await?;
    site.envoy
        .update(|config| config.policy(&json!({"cookie": {"name": "renamed"}})))?;
    poll::until("the renamed cookie", async || {
        site.visitor().get("/").await.ok()?.set_cookie("renamed").map(|_| ())
    })
    .await
}

#[tokio::test]
async fn a_bad_first_configuration_serves_without_sessions() -> Result<()> {
    let good = with_idle_timeout("1h");
    let mut site = Site::start(Config::load("ecds.yaml")?.filter(&json!({"keys": []}))).await?;
    for _ in 0..6 {
        let answer = site.envoy.get("/").send().await?;
        assert_eq!((answer.status, answer.set_cookies().len()), (200, 0));
    }
    site.envoy.update(|config| config.filter(&good))?;
    poll::until("sessions", async || {
        site.visitor()
            .get("/")
            .await
            .ok()?
            .set_cookie("limpet-session")
            .map(|_| ())
    })
    .await
}
