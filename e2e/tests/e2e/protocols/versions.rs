//! IPv4 and IPv6, HTTP/1.1 and HTTP/2, on both sides of Envoy.

use std::net::{Ipv6Addr, SocketAddr};

use anyhow::Result;
use limpet_e2e::{Backend, Carrier, Config, Envoy, Site};
use serde_json::json;

use super::Session;

#[tokio::test]
async fn sessions_stay_with_http1_and_http2_on_either_side() -> Result<()> {
    for http2_upstream in [false, true] {
        let config = Config::load("cookie.yaml")?;
        let site = Site::start(if http2_upstream {
            config.http2_upstream()
        } else {
            config
        })
        .await?;
        for http2_downstream in [false, true] {
            let mut session = Session::new(Carrier::Cookie);
            for _ in 0..10 {
                let request = site.envoy.get("/");
                let request = if http2_downstream { request.http2() } else { request };
                let answer = session.send(request).await?;
                assert_eq!(
                    answer.seen()?.version,
                    if http2_upstream { "HTTP/2.0" } else { "HTTP/1.1" }
                );
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_session_continues_when_its_client_changes_the_protocol() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    let mut session = Session::new(Carrier::Cookie);
    for _ in 0..4 {
        session.send(site.envoy.get("/")).await?;
        session.send(site.envoy.get("/").http2()).await?;
    }
    Ok(())
}

fn ipv6_backends() -> Result<Vec<Backend>> {
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    ["a", "b", "c"]
        .into_iter()
        .map(|name| Backend::start_at(name, address))
        .collect()
}

async fn assert_sessions_hold(envoy: &Envoy) -> Result<()> {
    for _ in 0..6 {
        let mut session = Session::new(Carrier::Cookie);
        for _ in 0..7 {
            session.send(envoy.get("/")).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn sessions_stay_at_ipv6_backends() -> Result<()> {
    let backends = ipv6_backends()?;
    assert_sessions_hold(&Envoy::serve(Config::load("cookie.yaml")?.backends(&backends)).await?).await
}

#[tokio::test]
async fn strict_sessions_stay_at_ipv6_backends() -> Result<()> {
    let backends = ipv6_backends()?;
    let policy = json!({"cookie": {"name": "limpet-session"}, "strict": true});
    let config = Config::load("cookie.yaml")?
        .policy(&policy)
        .strict_routes()
        .backends(&backends);
    assert_sessions_hold(&Envoy::serve(config).await?).await
}

#[tokio::test]
async fn sessions_stay_at_ipv4_and_ipv6_backends_side_by_side() -> Result<()> {
    let mut backends = ipv6_backends()?;
    backends.push(Backend::start("d")?);
    backends.push(Backend::start("e")?);
    assert_sessions_hold(&Envoy::serve(Config::load("cookie.yaml")?.backends(&backends)).await?).await
}

#[tokio::test]
async fn a_session_moves_between_ipv4_and_ipv6() -> Result<()> {
    let [mut four, six] = [
        Backend::start("four")?,
        Backend::start_at("six", SocketAddr::from((Ipv6Addr::LOCALHOST, 0)))?,
    ];
    let envoy = Envoy::serve(Config::load("cookie.yaml")?.backends([&four, &six])).await?;
    let mut sessions = Vec::new();
    for _ in 0..10 {
        let mut session = Session::new(Carrier::Cookie);
        session.send(envoy.get("/")).await?;
        sessions.push(session);
    }
    four.stop().await;
    sessions.retain(|session| session.backend() == "four");
    assert!(!sessions.is_empty(), "no session was at an IPv4 backend");
    for mut session in sessions {
        let moved = session.bring(envoy.get("/")).send().await?;
        session.moved(&moved.headers)?;
        assert_eq!(session.backend(), "six");
        session.send(envoy.get("/")).await?;
    }
    Ok(())
}
