//! The filter's configuration in a file that Envoy watches (ECDS): updates while it serves.

use std::cell::Cell;

use anyhow::{Result, ensure};
use limpet_e2e::{Build, Config, Envoy, Site, Visitor, filter_with, poll};
use serde_json::{Value, json};

/// Requests one after the other, a hundred at least, until told to stop; each one must succeed on the session's backend.
async fn traffic(envoy: &Envoy, stop: &Cell<bool>) -> Result<()> {
    let mut visitor = Visitor::new(envoy);
    let first = visitor.get("/").await?;
    let mut requests = 1;
    while requests < 100 || !stop.get() {
        let answer = visitor.get("/").await?;
        ensure!(
            answer.status == 200,
            "request {requests} was answered {}",
            answer.status
        );
        ensure!(
            answer.backend() == first.backend(),
            "request {requests} went to another backend"
        );
        requests += 1;
    }
    Ok(())
}

/// Runs `events` under the traffic of three clients.
async fn under_traffic(envoy: &Envoy, events: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    let stop = Cell::new(false);
    let client = || traffic(envoy, &stop);
    let events = async {
        let outcome = events().await;
        stop.set(true);
        outcome
    };
    tokio::try_join!(events, client(), client(), client())?;
    Ok(())
}

fn with_idle_timeout(timeout: &str) -> Value {
    filter_with(&json!({"cookie": {"name": "session"}, "idleTimeout": timeout}))
}

#[tokio::test]
async fn an_update_takes_effect_without_a_failed_request() -> Result<()> {
    let config = Config::load("ecds.yaml")?;
    let site = Site::start(config.clone()).await?;
    under_traffic(&site.envoy, async || {
        let both = json!({
            "keys": [{"id": 1, "env": "LIMPET_KEY"}],
            "policies": {"web": {"cookie": {"name": "session"}, "cacheControl": "keep"}, "more": {"cookie": {"name": "more"}}},
            "default": {"policy": "web", "scope": "default"},
        });
        site.envoy.update_filter(&config.clone().filter(&both))?;
        poll::until("the new policy's counters", async || {
            let stats = site.envoy.stats(&Build::tested().ok()?.counter("more")).await.ok()?;
            (!stats.is_empty()).then_some(())
        })
        .await?;
        poll::until("every worker to have the new configuration", async || {
            // Only the new configuration keeps Cache-Control; a run of answers meets both workers.
            for _ in 0..10 {
                let answer = site.envoy.get("/").send().await.ok()?;
                if answer.header("cache-control").is_some() {
                    return None;
                }
            }
            Some(())
        })
        .await
    })
    .await
}

/// Updates in a row, as a busy control plane sends them.
#[tokio::test]
async fn many_updates_fail_no_request() -> Result<()> {
    let config = Config::load("ecds.yaml")?;
    let site = Site::start(config.clone()).await?;
    under_traffic(&site.envoy, async || {
        let reloads = "extension_config_discovery.http_filter.limpet.config_reload";
        for minutes in 1..=20 {
            let before = site.envoy.stat(reloads).await?;
            site.envoy
                .update_filter(&config.clone().filter(&with_idle_timeout(&format!("{minutes}h"))))?;
            site.envoy.until_stat(reloads, before + 1).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_bad_update_is_refused_and_the_running_configuration_keeps_serving() -> Result<()> {
    let config = Config::load("ecds.yaml")?;
    let site = Site::start(config.clone()).await?;
    let good = with_idle_timeout("1h");
    let mut unknown_field = good.clone();
    unknown_field["policies"]["web"]["cookie"]["nmae"] = "x".into();
    let mut no_key = good.clone();
    no_key["keys"][0]["env"] = "LIMPET_KEY_THAT_IS_NOT_THERE".into();
    let mut bad_name = good.clone();
    bad_name["policies"]["web"]["cookie"]["name"] = "a b".into();

    under_traffic(&site.envoy, async || {
        for (bad, field) in [
            (unknown_field, "policies.web.cookie"),
            (no_key, "keys[0].env"),
            (bad_name, "policies.web.cookie.name"),
        ] {
            site.envoy.update_filter(&config.clone().filter(&bad))?;
            poll::until(&format!("a refusal that names {field}"), async || {
                let log = site.envoy.log().ok()?;
                log.lines()
                    .any(|line| line.contains("limpet: configuration refused") && line.contains(field))
                    .then_some(())
            })
            .await?;
            for _ in 0..6 {
                ensure!(
                    site.visitor().get("/").await?.set_cookie("session").is_some(),
                    "the running configuration is gone"
                );
            }
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn after_a_bad_update_a_good_one_takes_effect() -> Result<()> {
    let config = Config::load("ecds.yaml")?;
    let site = Site::start(config.clone()).await?;
    site.envoy.update_filter(&config.clone().filter(&json!({"keys": []})))?;
    poll::until("the refusal", async || {
        site.envoy
            .log()
            .ok()?
            .contains("limpet: configuration refused")
            .then_some(())
    })
    .await?;
    site.envoy
        .update_filter(&config.clone().policy(&json!({"cookie": {"name": "renamed"}})))?;
    poll::until("the renamed cookie", async || {
        site.visitor().get("/").await.ok()?.set_cookie("renamed").map(|_| ())
    })
    .await
}

#[tokio::test]
async fn with_a_bad_first_configuration_envoy_serves_without_sessions_until_a_good_one() -> Result<()> {
    let config = Config::load("ecds.yaml")?;
    let site = Site::start(config.clone().filter(&json!({"keys": []}))).await?;
    for _ in 0..6 {
        let answer = site.envoy.get("/").send().await?;
        assert_eq!((answer.status, answer.set_cookies().len()), (200, 0));
    }
    site.envoy.update_filter(&config)?;
    poll::until("sessions", async || {
        site.visitor().get("/").await.ok()?.set_cookie("session").map(|_| ())
    })
    .await
}
