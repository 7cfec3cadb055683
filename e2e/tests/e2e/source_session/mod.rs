//! Sessions that the client's address holds. Most tests balance load in turn, so that only the table can keep a client
//! where it is. `source.yaml` hashes.

mod agreement;
mod at_once;
mod ends;
mod splits;
mod updates;

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use limpet_e2e::{Answer, Build, Config, Site};
use serde_json::{Value, json};

fn client(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 7, number)
}

fn in_turn(policy: &Value) -> Result<Config> {
    Ok(Config::load("source.yaml")?
        .policy(policy)
        .cluster(&json!({"lb_policy": "ROUND_ROBIN"})))
}

async fn ask(site: &Site, number: u8) -> Result<Answer> {
    site.envoy.get("/").from(client(number)).send().await
}

async fn backend(site: &Site, number: u8) -> Result<String> {
    backend_of(&ask(site, number).await?)
}

fn backend_of(answer: &Answer) -> Result<String> {
    Ok(answer.backend().context("Envoy answered without a backend")?.to_owned())
}

async fn pass(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

#[tokio::test]
async fn neither_client_nor_backend_sees_anything() -> Result<()> {
    let site = Site::start(Config::load("source.yaml")?).await?;
    let plain = Site::start(Config::load("source.yaml")?.without_limpet()).await?;
    for _ in 0..2 {
        let names = |answer: &Answer| answer.headers.keys().map(ToString::to_string).collect::<Vec<_>>();
        let (answer, other) = (ask(&site, 1).await?, ask(&plain, 1).await?);
        assert_eq!(names(&answer), names(&other));
        assert!(answer.set_cookies().is_empty());
        for name in limpet_core::envoy::INTERNAL_HEADERS {
            assert!(answer.seen()?.all(name).is_empty(), "{name}");
        }
    }
    Ok(())
}

/// A connection for every request: workers see each other's entries.
#[tokio::test]
async fn each_address_keeps_its_backend_at_all_workers() -> Result<()> {
    let site = Site::start(in_turn(&json!({"source": {}}))?.workers(4)).await?;
    let mut first = Vec::new();
    for number in 1..=6 {
        first.push(backend(&site, number).await?);
    }
    assert!(
        first.iter().any(|backend| *backend != first[0]),
        "load is not balanced: {first:?}"
    );
    for _ in 0..10 {
        for (number, first) in (1..=6).zip(&first) {
            assert_eq!(&backend(&site, number).await?, first, "client {number}");
        }
    }
    for (outcome, count) in [("no_token", 6), ("issued", 6), ("steered", 60)] {
        assert_eq!(site.envoy.metric(&format!("web.{outcome}")).await?, count, "{outcome}");
    }
    Ok(())
}

/// A client's own claims do not count; those of trusted hops do.
#[tokio::test]
async fn the_address_is_what_envoy_takes_for_it() -> Result<()> {
    // A single worker takes turns for all.
    let site = Site::start(in_turn(&json!({"source": {}}))?.workers(1)).await?;
    let (one, two) = (backend(&site, 1).await?, backend(&site, 2).await?);
    assert_ne!(one, two);
    for name in ["x-forwarded-for", "x-real-ip", "forwarded", "x-envoy-external-address"] {
        let request = site.envoy.get("/").from(client(1)).header(name, client(2).to_string());
        assert_eq!(backend_of(&request.send().await?)?, one, "{name}");
    }
    assert_eq!(site.envoy.metric("web.issued").await?, 2);

    let behind = in_turn(&json!({"source": {}}))?.connection_manager(&json!({"xff_num_trusted_hops": 1}));
    let behind = behind.workers(1);
    let site = Site::start(behind).await?;
    let through = async |proxy: u8, forwarded: &str| {
        let request = site
            .envoy
            .get("/")
            .from(client(proxy))
            .header("x-forwarded-for", forwarded);
        backend_of(&request.send().await?)
    };
    let (one, two) = (through(1, "192.0.2.1").await?, through(1, "192.0.2.2").await?);
    assert_ne!(one, two);
    for (proxy, forwarded, expected) in [
        (2, "192.0.2.1", &one),
        (2, "192.0.2.2", &two),
        (3, "192.0.2.2, 192.0.2.1", &one),
        (3, "not an address, 192.0.2.2", &two),
        // One client may come in either family.
        (1, "::ffff:192.0.2.1", &one),
    ] {
        assert_eq!(&through(proxy, forwarded).await?, expected, "{forwarded}");
    }
    Ok(())
}
