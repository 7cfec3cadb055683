//! Envoys' counts of sessions, which the controller adds up.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use limpet_e2e::kube::{Controller, Proxy};
use limpet_e2e::{Visitor, poll};
use serde_json::{Value, json};

use crate::keyring::{KeyringSite, key_encryption_key};

pub(crate) async fn pods(controller: &Controller) -> Result<BTreeMap<String, Value>> {
    let answer = controller.page("/sessions").await?;
    let sessions: Value = serde_json::from_slice(&answer.body)?;
    let pods = sessions["pods"].as_array().context("no pods")?;
    let named = pods
        .iter()
        .map(|pod| Some((pod["pod"].as_str()?.to_owned(), pod.clone())));
    named.collect::<Option<_>>().context("a pod without a name")
}

async fn until_counted(controller: &Controller, expected: &BTreeMap<String, u64>) -> Result<()> {
    let mut last = BTreeMap::new();
    let counted = poll::until("the sessions of pods", async || {
        last = pods(controller).await.ok()?;
        let counts = last
            .iter()
            .map(|(pod, row)| (pod.clone(), row["sessions"].as_u64().unwrap_or(99)));
        let counts: BTreeMap<_, _> = counts.collect();
        (counts == *expected).then_some(())
    });
    counted
        .await
        .with_context(|| format!("expected {expected:?}, found {last:?}"))
}

pub(crate) async fn site(name: &str, max_idle: &str) -> Result<(KeyringSite, [Proxy; 2])> {
    let site = KeyringSite::start_with(name, "1m", max_idle).await?;
    let key = key_encryption_key(&site.namespace).await?;
    let environment = [("LIMPET_KEK_1", key.as_str())];
    let envoy = |node| site.controller.envoy_with_workers("web", node, &environment, 4);
    let mut more = [envoy("two").await?, envoy("three").await?];
    for envoy in &mut more {
        envoy.until_ready().await?;
    }
    // The kernel gives each connection to any of them.
    poll::until("sessions at all Envoys", async || {
        for _ in 0..40 {
            site.session().await.ok()?;
        }
        Some(())
    })
    .await
    .with_context(|| site.envoy.log().unwrap_or_default())?;
    Ok((site, more))
}

/// An Envoy reports over the connection of xDS, however many workers it has.
async fn assert_one_connection(envoy: &Proxy) -> Result<()> {
    let cluster = "cluster.limpet.controller.upstream_cx_active";
    assert_eq!(envoy.admin().stat(cluster).await?, 1, "{}", envoy.log()?);
    Ok(())
}

/// Clients whose requests reach the Envoys in turn, and each pod's number of them.
async fn visitors(site: &KeyringSite, count: usize) -> Result<(Vec<Visitor>, BTreeMap<String, u64>)> {
    let mut visitors = Vec::new();
    let mut homes = BTreeMap::from([("a".to_owned(), 0), ("b".to_owned(), 0)]);
    for _ in 0..count {
        let (visitor, home) = site.session().await?;
        *homes.entry(home).or_default() += 1;
        visitors.push(visitor);
    }
    Ok((visitors, homes))
}

#[tokio::test]
async fn sessions_are_counted_over_all_envoys_and_forgotten() -> Result<()> {
    let (site, [two, three]) = site("counted", "10s").await?;
    // The sessions of the site's start are known, and then over.
    let known = async || {
        let rows = pods(&site.controller).await.ok()?;
        rows.values()
            .all(|row| row["sessions"].as_u64() > Some(0))
            .then_some(())
    };
    poll::until("the first sessions", known).await?;
    let none = BTreeMap::from(["a", "b"].map(|pod| (pod.to_owned(), 0)));
    until_counted(&site.controller, &none).await?;
    let (mut visitors, homes) = visitors(&site, 60).await?;
    // Each uses several Envoys, because each request has its own connection.
    for visitor in &mut visitors {
        for _ in 0..4 {
            visitor.get("/").await?;
        }
    }
    let last = Instant::now();
    until_counted(&site.controller, &homes).await?;
    // Envoys report at different times.
    poll::until("the requests of all Envoys", async || {
        let rows = pods(&site.controller).await.ok()?;
        let all = rows
            .iter()
            .all(|(pod, row)| row["requests"].as_u64() >= Some(homes[pod] * 5));
        all.then_some(())
    })
    .await?;
    for envoy in [&site.envoy, &two, &three] {
        assert_one_connection(envoy).await?;
    }
    for row in pods(&site.controller).await?.values() {
        assert_eq!(row["state"], "ready", "{row}");
        assert_eq!(row["service"], "web", "{row}");
        assert!(row["lastUse"].is_string() && row["oldest"].is_string(), "{row}");
    }
    until_counted(&site.controller, &none).await?;
    let took = last.elapsed();
    assert!(took > Duration::from_secs(9), "{took:?}");
    assert!(took < Duration::from_secs(10 + 5), "{took:?}");
    Ok(())
}

/// The controller's count, once all Envoys have reported.
async fn requests(controller: &Controller) -> Result<u64> {
    let (mut last, mut since) = (None, Instant::now());
    for _ in 0..80 {
        let rows = pods(controller).await?;
        let now: u64 = rows.values().filter_map(|row| row["requests"].as_u64()).sum();
        if last.replace(now) != Some(now) {
            since = Instant::now();
        }
        // Longer than any Envoy waits: five seconds for an answer and two until its turn, twice.
        if since.elapsed() > Duration::from_secs(15) {
            return Ok(now);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    bail!("requests do not stop growing")
}

/// Makes the Envoys listen only at these ports.
async fn listen(site: &KeyringSite, envoys: &[&Proxy], ports: &[u16]) -> Result<()> {
    let listener = |port: &u16| json!({"name": format!("at-{port}"), "port": port, "protocol": "HTTP"});
    let listeners: Vec<Value> = ports.iter().map(listener).collect();
    let change = json!({"spec": {"listeners": listeners}});
    site.namespace.merge("Gateway", "web", &change).await?;
    for envoy in envoys {
        poll::until("the listeners", async || {
            let found = envoy.admin().listeners().await.ok()?;
            let is_there = |port: u16| found.values().any(|address| *address == site.controller.address(port));
            [8080, 8081]
                .into_iter()
                .all(|port| is_there(port) == ports.contains(&port))
                .then_some(())
        })
        .await?;
        let draining = "listener_manager.total_listeners_draining";
        envoy.admin().until_stat(draining, 0).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_changed_filter_goes_on_counting() -> Result<()> {
    let (site, [two, three]) = site("counted-on", "10m").await?;
    let envoys = [&site.envoy, &two, &three];
    let (mut visitors, _) = visitors(&site, 60).await?;
    // Requests of the site's start count, too.
    let before = requests(&site.controller).await?;
    for timeout in ["9m", "8m"] {
        let annotation = json!({"metadata": {"annotations": {"session.limpet.dev/idle-timeout": timeout}}});
        site.namespace.merge("BackendLBPolicy", "web", &annotation).await?;
        for visitor in &mut visitors {
            visitor.get("/").await?;
        }
        site.reloads().await?;
        for visitor in &mut visitors {
            visitor.get("/").await?;
        }
    }
    // A listener with the same filter comes, and drains.
    listen(&site, &envoys, &[8080, 8081]).await?;
    for _ in 0..60 {
        Visitor::of(site.controller.address(8081)).get("/").await?;
    }
    listen(&site, &envoys, &[8080]).await?;
    for visitor in &mut visitors {
        visitor.get("/").await?;
    }
    let after = requests(&site.controller).await?;
    assert_eq!(after - before, (2 * 2 + 2) * 60);
    for envoy in envoys {
        assert_one_connection(envoy).await?;
        assert!(!envoy.log()?.contains("Wasm VM failed"), "{}", envoy.log()?);
    }
    Ok(())
}
