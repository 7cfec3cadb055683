//! What an open request takes of the wasm filter's VM, and what happens when its memory is full. The dynamic module has
//! no VM.

use anyhow::{Context, Result};
use limpet_e2e::{Build, Config, Connection, Envoy, Request, Site, UnansweredRequest, poll};
use serde_json::json;

const OF_A_CONNECTION: usize = 100;

/// In front of the router: requests stay open in Envoy, and no backend holds them.
fn waiting() -> serde_json::Value {
    json!({
        "name": "envoy.filters.http.fault",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault",
            "delay": {"header_delay": {}, "percentage": {"numerator": 100}},
        },
    })
}

fn config() -> Result<Config> {
    Ok(Config::load("cookie.yaml")?.workers(1).edit(|bootstrap| {
        let manager = &mut bootstrap["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0];
        if let Some(filters) = manager["typed_config"]["http_filters"].as_array_mut() {
            filters.insert(filters.len() - 1, waiting());
        }
    }))
}

/// Adds 55 KB of header fields. Over HTTP/2 most are a byte each, because they repeat.
fn large(mut request: Request) -> Request {
    for _ in 0..15 {
        request = request.header("x-padding", "x".repeat(3_700));
    }
    request
}

fn held(envoy: &Envoy) -> Request {
    large(envoy.get("/").header("x-envoy-fault-delay-request", "600000"))
}

async fn hold(envoy: &Envoy, count: usize, http2: bool) -> Result<(Vec<Connection>, Vec<UnansweredRequest>)> {
    let (mut connections, mut requests) = (Vec::new(), Vec::new());
    let of_a_connection = if http2 { OF_A_CONNECTION } else { 1 };
    while requests.len() < count {
        let mut connection = Connection::open(envoy.address(), http2).await?;
        for _ in 0..of_a_connection {
            requests.push(connection.begin(held(envoy)).await?);
        }
        connections.push(connection);
        let open = requests.len() as u64;
        envoy.until_stat("http.web.downstream_rq_active", open).await?;
    }
    Ok((connections, requests))
}

async fn assert_open_requests_keep_little(count: usize, http2: bool) -> Result<()> {
    if Build::tested()? == Build::Module {
        return Ok(());
    }
    // 2 MiB: 1 KiB for each of 2,000 requests.
    let site = Site::start(config()?.vm_may_grow_by(32)?).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    let _held = hold(&site.envoy, count, http2).await?;
    // The filter sees a request after Envoy has counted it.
    let seen = Build::tested()?.counter("web.no_token");
    site.envoy.until_stat(&seen, 1 + count as u64).await?;
    for _ in 0..6 {
        let answer = visitor.get("/").await?;
        assert_eq!((answer.status, answer.backend()), (200, first.backend()));
    }
    assert!(!site.envoy.log()?.contains("Wasm VM failed"), "the VM has ended");
    Ok(())
}

#[tokio::test]
async fn thousands_of_open_requests_keep_little_memory() -> Result<()> {
    assert_open_requests_keep_little(2_000, true).await
}

#[tokio::test]
async fn open_http1_requests_keep_little_memory() -> Result<()> {
    assert_open_requests_keep_little(200, false).await
}

#[tokio::test]
async fn requests_recover_after_the_vm_has_ended() -> Result<()> {
    if Build::tested()? == Build::Module {
        return Ok(());
    }
    // Enough for the filter and small requests.
    let site = Site::start(config()?.vm_may_grow_by(0)?).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    let session = visitor.cookie("limpet-session").context("no session")?.to_owned();
    for _ in 0..3 {
        let killing = large(site.envoy.get("/")).send().await?;
        assert_eq!((killing.status, killing.backend()), (503, None), "{killing:?}");
        poll::until("an answer of a backend", async || {
            let answer = visitor.get("/").await.ok()?;
            (answer.status == 200).then_some(())
        })
        .await?;
        for _ in 0..6 {
            let answer = visitor.get("/").await?;
            assert_eq!((answer.status, answer.backend()), (200, first.backend()));
        }
    }
    assert_eq!(visitor.cookie("limpet-session"), Some(session.as_str()));
    Ok(())
}
