//! The listener that says whether Envoy is ready.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use limpet_e2e::{Connection, Envoy, Request, Site, poll};
use limpet_outputs::envoy::OverloadLimits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::LIMITS;
use super::overload::{READY, limited};

async fn answer(address: SocketAddr, request: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    poll::patiently("an answer", async { Ok(stream.read_to_end(&mut answer).await?) }).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

async fn status(envoy: &Envoy, first_line: &str, fields: &str) -> Result<u16> {
    let request = format!("{first_line}\r\nhost: x\r\nconnection: close\r\n{fields}\r\n");
    let answer = answer(envoy.listener(READY)?, &request).await?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.with_context(|| format!("{first_line}: {answer:?}"))
}

async fn is_ready(envoy: &Envoy) -> Result<u16> {
    status(envoy, "GET /ready HTTP/1.1", "").await
}

#[tokio::test]
async fn nothing_but_ready_is_answered_to_everybody() -> Result<()> {
    let site = Site::start(limited(LIMITS)?).await?;
    let admin_requests = async || site.envoy.stat("http.admin.downstream_rq_total").await;
    assert_eq!(is_ready(&site.envoy).await?, 200);
    let before = admin_requests().await?;
    for path in [
        "/",
        "/stats",
        "/ready/",
        "//ready",
        "/./ready",
        "/READY",
        "/ready?x",
        "/ready?",
        "/ready#x",
        "/ready;x",
        "/ready/../stats",
        "/ready/..%2fstats",
        "/ready%2f..%2fstats",
        "/%72eady",
        "/ready%00",
        "/ready%3fx",
        "/x/../ready",
        "\\ready",
        "ready",
        "http://127.0.0.1:19000/stats",
        "http://x/config_dump",
        "http://x//ready",
        "*",
    ] {
        let found = status(&site.envoy, &format!("GET {path} HTTP/1.1"), "").await?;
        ensure!([400, 404].contains(&found), "{path}: {found}");
    }
    let asked = [
        ("POST /ready HTTP/1.1", "content-length: 0\r\n"),
        ("POST /quitquitquit HTTP/1.1", "content-length: 0\r\n"),
        ("HEAD /ready HTTP/1.1", ""),
        ("OPTIONS * HTTP/1.1", ""),
        ("CONNECT 127.0.0.1:19000 HTTP/1.1", ""),
        (
            "GET /stats HTTP/1.1",
            "x-envoy-original-path: /ready\r\nx-rewrite-url: /ready\r\n",
        ),
        ("GET /stats HTTP/1.1", "upgrade: websocket\r\n"),
        ("GET /ready HTTP/1.0", ""),
    ];
    for (line, fields) in asked {
        let found = status(&site.envoy, line, fields).await?;
        ensure!([400, 403, 404, 426].contains(&found), "{line} {fields}: {found}");
    }
    // The same target in absolute form.
    assert_eq!(status(&site.envoy, "GET http://x/ready HTTP/1.1", "").await?, 200);
    // Two requests in one: the second is the body of the first.
    let smuggled = "GET /stats HTTP/1.1\r\nhost: x\r\n\r\n";
    let fields = format!("content-length: {}\r\n\r\n{smuggled}", smuggled.len());
    assert_eq!(status(&site.envoy, "GET /ready HTTP/1.1", &fields).await?, 200);
    // The first statistics, and this one.
    ensure!(
        admin_requests().await? <= before + 1,
        "a request reached the admin interface"
    );
    Ok(())
}

#[tokio::test]
async fn readiness_fails_once_envoy_is_told_to_fail() -> Result<()> {
    let site = Site::start(limited(LIMITS)?).await?;
    let told = Request::get(site.envoy.admin(), "/healthcheck/fail")
        .method(Method::POST)
        .send()
        .await?;
    assert_eq!(told.status, 200);
    assert_eq!(is_ready(&site.envoy).await?, 503);
    Ok(())
}

/// If it were not ready, its clients would fill the others.
#[tokio::test]
async fn a_full_envoy_is_ready() -> Result<()> {
    let site = Site::start(limited(OverloadLimits {
        connections: 1,
        ..LIMITS
    })?)
    .await?;
    // These take no client's place.
    let mut asking = Vec::new();
    for _ in 0..5 {
        asking.push(TcpStream::connect(site.envoy.listener(READY)?).await?);
    }
    let mut client = Connection::open(site.envoy.address(), false).await?;
    assert_eq!(client.send(site.envoy.get("/")).await?.status, 200);
    let refused = site.envoy.get("/").send().await;
    ensure!(refused.is_err(), "{refused:?}");
    assert_eq!(is_ready(&site.envoy).await?, 200);

    let small = OverloadLimits {
        heap: 1 << 20,
        ..LIMITS
    };
    let site = Site::start(limited(small)?).await?;
    for action in ["stop_accepting_requests", "stop_accepting_connections"] {
        let active = format!("overload.envoy.overload_actions.{action}.active");
        site.envoy.until_stat(&active, 1).await?;
    }
    assert_eq!(is_ready(&site.envoy).await?, 200);
    Ok(())
}

#[tokio::test]
async fn whoever_takes_all_places_of_readiness_loses_them() -> Result<()> {
    let site = Site::start(limited(LIMITS)?).await?;
    let address = site.envoy.listener(READY)?;
    let mut taken = Vec::new();
    for _ in 0..100 {
        taken.push(TcpStream::connect(address).await?);
    }
    let refused = "listener.limpet.ready.downstream_cx_overflow";
    poll::until("a connection beyond the limit to be closed", async || {
        (site.envoy.stat(refused).await.ok()? > 0).then_some(())
    })
    .await?;
    // Envoy closes them, because they say nothing.
    poll::until("a place", async || {
        (is_ready(&site.envoy).await.ok()? == 200).then_some(())
    })
    .await?;
    drop(taken);
    Ok(())
}
