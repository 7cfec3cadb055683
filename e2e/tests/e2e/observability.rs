//! What operators see: counters for every policy, and outcomes in the access log.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use limpet_e2e::{Build, Config, Envoy, Site, poll};
use serde_json::json;

async fn counters(envoy: &Envoy, policy: &str) -> Result<BTreeMap<String, u64>> {
    let prefix = Build::tested()?.counter(&format!("{policy}."));
    let stats = envoy.stats(&prefix).await?.into_iter().filter(|(_, value)| *value > 0);
    Ok(stats
        .filter_map(|(name, value)| Some((name.strip_prefix(&prefix)?.to_owned(), value)))
        .collect())
}

fn counted<const N: usize>(counters: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counters.map(|(name, value)| (name.to_owned(), value)).into()
}

#[tokio::test]
async fn every_request_of_a_session_is_counted_by_what_happened() -> Result<()> {
    let mut site = Site::start(Config::load("cookie.yaml")?).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    assert_eq!(
        counters(&site.envoy, "web").await?,
        counted([("no_token", 1), ("issued", 1)])
    );
    for _ in 0..5 {
        visitor.get("/").await?;
    }
    assert_eq!(
        counters(&site.envoy, "web").await?,
        counted([("no_token", 1), ("issued", 1), ("steered", 5)])
    );
    site.stop_backend_of(&first).await?;
    visitor.get("/").await?;
    let moved = counted([("no_token", 1), ("issued", 1), ("steered", 6), ("reissued", 1)]);
    assert_eq!(counters(&site.envoy, "web").await?, moved);
    Ok(())
}

#[tokio::test]
async fn every_policy_has_its_own_counters() -> Result<()> {
    let site = Site::start(Config::load("two-policies.yaml")?).await?;
    site.envoy.get("/cart").send().await?;
    site.envoy.get("/web").send().await?;
    site.envoy.get("/web").cookie("limpet-session=x").send().await?;
    site.envoy.get("/").send().await?;
    assert_eq!(
        counters(&site.envoy, "cart").await?,
        counted([("no_token", 1), ("issued", 1)])
    );
    let web = counted([("no_token", 1), ("refused.malformed", 1), ("issued", 2)]);
    assert_eq!(counters(&site.envoy, "web").await?, web);
    Ok(())
}

#[tokio::test]
async fn every_counter_is_there_from_the_start() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    let counter = |name: &str| anyhow::Ok(Build::tested()?.counter(name));
    let stats = site.envoy.stats(&counter("web")?).await?;
    let expected = [
        "issued",
        "reissued",
        "steered",
        "no_token",
        "unaddressable",
        "too_large",
        "ended",
        "name_conflicts",
        "refused.malformed",
        "refused.unknown_key",
        "refused.bad_signature",
        "refused.expired",
        "refused.idle",
        "refused.from_the_future",
        "refused.fenced",
        "refused.unknown_destination",
    ];
    for word in expected {
        assert_eq!(stats.get(&counter(&format!("web.{word}"))?), Some(&0), "{word}");
    }
    Ok(())
}

async fn logged(envoy: &Envoy, path: &str) -> Result<String> {
    poll::until(&format!("an access log line for {path}"), async || {
        let log = envoy.stdout().ok()?;
        let line = log.lines().find(|line| line.contains(&format!(" {path} ")))?;
        Some(line.split_once("session=")?.1.to_owned())
    })
    .await
}

#[tokio::test]
async fn the_access_log_tells_what_happened_to_a_session() -> Result<()> {
    let mut site = Site::start(Config::load("access-log.yaml")?).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/first").await?;
    visitor.get("/again").await?;
    site.envoy.get("/forged").cookie("limpet-session=x").send().await?;
    site.stop_backend_of(&first).await?;
    visitor.get("/moved").await?;
    for backend in &mut site.backends {
        backend.stop().await;
    }
    site.envoy.get("/nobody").send().await?;

    for (path, expected) in [
        ("/first", "no_token+issued"),
        ("/again", "steered"),
        ("/forged", "refused.malformed+issued"),
        ("/moved", "steered+reissued"),
        ("/nobody", "no_token"),
    ] {
        assert_eq!(logged(&site.envoy, path).await?, expected, "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn no_log_has_a_token_or_an_address() -> Result<()> {
    let mut site = Site::start(Config::load("access-log.yaml")?).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/first").await?;
    let mut tokens = vec![visitor.cookie("limpet-session").context("no cookie")?.to_owned()];
    visitor.get("/again").await?;
    site.stop_backend_of(&first).await?;
    visitor.get("/moved").await?;
    tokens.push(visitor.cookie("limpet-session").context("no cookie")?.to_owned());
    let forged = format!("{}x", tokens[0]);
    site.envoy
        .get("/last")
        .cookie(format!("limpet-session={forged}"))
        .send()
        .await?;
    logged(&site.envoy, "/last").await?;

    let logs = site.envoy.stdout()? + &site.envoy.log()?;
    let addresses = site.backends.each_ref().map(|backend| backend.address().to_string());
    for secret in tokens.iter().chain(&addresses) {
        assert!(!logs.contains(secret), "a log has {secret}");
    }
    Ok(())
}

/// A backend that listens at a path has no IP address for a token to name.
#[tokio::test]
async fn a_backend_without_an_ip_address_gets_no_token() -> Result<()> {
    let path = json!({"pipe": {"path": format!("@limpet-e2e-{}", unique())}});
    let config = Config::load("access-log.yaml")?.edit(|bootstrap| {
        let resources = &mut bootstrap["static_resources"];
        let endpoint = json!([{"lb_endpoints": [{"endpoint": {"address": path}}]}]);
        resources["clusters"][0]["load_assignment"]["endpoints"] = endpoint;
        // Another listener of the same Envoy is the backend.
        let mut backend = resources["listeners"][0].clone();
        backend["name"] = "backend".into();
        backend["address"] = path;
        let manager = &mut backend["filter_chains"][0]["filters"][0]["typed_config"];
        let last = manager["http_filters"].as_array_mut().and_then(Vec::pop);
        manager["http_filters"] = json!([last]);
        manager["access_log"] = json!([]);
        let routes = json!([{"match": {"prefix": "/"}, "direct_response": {"status": 200}}]);
        manager["route_config"]["virtual_hosts"][0]["routes"] = routes;
        resources["listeners"]
            .as_array_mut()
            .into_iter()
            .for_each(|listeners| listeners.push(backend.clone()));
    });
    let envoy = Envoy::serve(config).await?;
    let answer = envoy.get("/").send().await?;
    assert_eq!((answer.status, answer.set_cookies().len()), (200, 0));
    assert_eq!(
        counters(&envoy, "web").await?,
        counted([("no_token", 1), ("unaddressable", 1)])
    );
    assert_eq!(logged(&envoy, "/").await?, "no_token+unaddressable");
    Ok(())
}

fn unique() -> String {
    format!("{:?}-{}", std::time::SystemTime::now(), std::process::id()).replace(|c: char| !c.is_ascii_digit(), "")
}
