//! Who lives where: what Envoys count of sessions, and the controller puts together.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use limpet_e2e::kube::{Controller, Proxy};
use limpet_e2e::{Visitor, poll};
use serde_json::Value;

use crate::keyring::{KeyringSite, envoy_at};

/// The rows of `/sessions`, by pod.
pub(crate) async fn pods(controller: &Controller) -> Result<BTreeMap<String, Value>> {
    let answer = controller.page("/sessions").await?;
    let sessions: Value = serde_json::from_slice(&answer.body)?;
    let pods = sessions["pods"].as_array().context("no pods")?;
    let named = pods
        .iter()
        .map(|pod| Some((pod["pod"].as_str()?.to_owned(), pod.clone())));
    named.collect::<Option<_>>().context("a pod without a name")
}

/// Waits until the pods have these numbers of sessions.
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

/// A site with three Envoys.
pub(crate) async fn site(name: &str, max_idle: &str) -> Result<(KeyringSite, [Proxy; 2])> {
    let site = KeyringSite::start_with(name, "1m", max_idle).await?;
    let mut more = [
        envoy_at(&site.controller, &site.namespace, "two", 0).await?,
        envoy_at(&site.controller, &site.namespace, "three", 0).await?,
    ];
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

/// Clients whose requests the Envoys get in turn, and how many of them each pod has.
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
    let (site, _envoys) = site("counted", "10s").await?;
    // Those that began while the site started are known, and then over.
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
    // Each of them uses several Envoys, because each request has a connection of its own.
    for visitor in &mut visitors {
        for _ in 0..4 {
            visitor.get("/").await?;
        }
    }
    let last = Instant::now();
    until_counted(&site.controller, &homes).await?;
    // Each Envoy tells of its requests when it tells.
    poll::until("the requests of all Envoys", async || {
        let rows = pods(&site.controller).await.ok()?;
        let all = rows
            .iter()
            .all(|(pod, row)| row["requests"].as_u64() >= Some(homes[pod] * 5));
        all.then_some(())
    })
    .await?;
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
