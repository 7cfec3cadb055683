use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use limpet_e2e::{Answer, Backend, Config, Envoy, Site, filter_with, poll};
use serde_json::{Value, json};

/// A site of `draining.yaml` with a session whose backend drained and was removed. Returns its name and the cookie.
async fn site_without(policy: &Value) -> Result<(Site, String, String)> {
    let mut config = Config::load("draining.yaml")?.policy(policy);
    if policy["strict"] == true {
        config = config.strict_routes();
    }
    let mut site = Site::start(config).await?;
    let first = site.envoy.get("/").send().await?;
    let pair = first.set_cookie("limpet-session").context("no token")?.pair();
    let backend = first.backend().context("no backend")?.to_owned();

    let address = site.backend(&backend)?.address();
    site.envoy.update(|config| config.health(address, "DRAINING"))?;
    let elsewhere = |answer: &Answer| answer.backend().is_some_and(|other| other != backend);
    site.envoy
        .until_every_worker("no new session goes there", elsewhere)
        .await?;
    for _ in 0..10 {
        let answer = site.envoy.get("/").cookie(&pair).send().await?;
        assert_eq!(
            answer.backend(),
            Some(&*backend),
            "the draining backend lost its session"
        );
        assert!(answer.set_cookies().is_empty());
    }

    let left = site.backends.iter().filter(|other| other.name() != backend);
    site.envoy.update(|config| config.backends(left))?;
    site.envoy.until_stat("cluster.backends.membership_total", 2).await?;
    site.backend(&backend)?.stop().await;
    Ok((site, backend, pair))
}

#[tokio::test]
async fn check_16_a_draining_backend_keeps_its_sessions() -> Result<()> {
    let balanced = async {
        let (site, gone, pair) = site_without(&json!({"cookie": {"name": "limpet-session"}})).await?;
        let moved = site.envoy.get("/").cookie(pair).send().await?;
        assert_eq!(moved.status, 200);
        assert_ne!(moved.backend().context("no backend")?, gone);
        let pair = moved.set_cookie("limpet-session").context("no new token")?.pair();
        for _ in 0..10 {
            let answer = site.envoy.get("/").cookie(&pair).send().await?;
            assert_eq!(answer.backend(), moved.backend(), "the session left its new backend");
            assert!(answer.set_cookies().is_empty());
        }
        anyhow::Ok(())
    };
    let strict = async |more: Value, status: u16| {
        let mut policy = json!({"cookie": {"name": "limpet-session"}, "strict": true});
        if !more.is_null() {
            policy["strictStatus"] = more;
        }
        let (site, _, pair) = site_without(&policy).await?;
        let visit = async || {
            let answer = site.envoy.get("/").cookie(&pair).send().await?;
            anyhow::Ok((answer.status, answer.set_cookies().len()))
        };
        // Connections of workers that still have the backend fail.
        let fails = async || (visit().await.ok()? == (status, 0)).then_some(());
        poll::until("the session to fail as configured", fails).await?;
        for _ in 0..10 {
            assert_eq!(visit().await?, (status, 0));
        }
        anyhow::Ok(())
    };
    tokio::try_join!(balanced, strict(Value::Null, 503), strict(json!(410), 410))?;
    Ok(())
}

fn unix_seconds() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

async fn fenced(envoy: &Envoy) -> Option<u64> {
    envoy.metric("web.refused.fenced").await.ok()
}

/// A fence says since when an address has its present owner.
#[tokio::test]
async fn check_20_a_new_pod_does_not_get_a_dead_pods_sessions() -> Result<()> {
    let mut site = Site::start(Config::load("ecds.yaml")?).await?;
    let first = site.envoy.get("/").send().await?;
    let of_dead = first.set_cookie("limpet-session").context("no token")?.pair();
    let dead = site.backend_of(&first)?;
    let address = dead.address();
    dead.stop().await;
    let _kept = Backend::start_at("new", address)?;
    poll::until("without a fence the new pod gets the dead pod's session", async || {
        let answer = site.envoy.get("/").cookie(&of_dead).send().await.ok()?;
        (answer.backend() == Some("new") && answer.set_cookies().is_empty()).then_some(())
    })
    .await?;

    // Later than any token of the dead pod.
    let not_before = unix_seconds()? + 1;
    let mut filter = filter_with(&json!({"cookie": {"name": "limpet-session"}}));
    filter["fences"] = json!([{"address": address.to_string(), "notBefore": not_before}]);
    site.envoy.update(|config| config.filter(&filter))?;
    poll::until("every worker to have the fence, and its time to come", async || {
        let before = fenced(&site.envoy).await?;
        for _ in 0..20 {
            let answer = site.envoy.get("/").cookie(&of_dead).send().await.ok()?;
            answer.set_cookie("limpet-session")?;
        }
        let all = fenced(&site.envoy).await? == before + 20;
        // A corrected clock does not begin before the fence.
        (all && unix_seconds().ok()? > not_before).then_some(())
    })
    .await?;

    let before = fenced(&site.envoy).await;
    // A failed connection moves a session, too.
    poll::until("a session to stay at the new pod", async || {
        let begun = site.envoy.get("/").send().await.ok()?;
        let of_new = begun.set_cookie("limpet-session")?.pair();
        for _ in 0..6 {
            let answer = site.envoy.get("/").cookie(&of_new).send().await.ok()?;
            (answer.backend() == Some("new") && answer.set_cookies().is_empty()).then_some(())?;
        }
        Some(())
    })
    .await?;
    assert_eq!(
        fenced(&site.envoy).await,
        before,
        "the fence ended a session of the new pod"
    );
    Ok(())
}
