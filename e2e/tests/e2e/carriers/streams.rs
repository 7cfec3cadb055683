//! WebSockets and server-sent events, for which browsers cannot set headers.

use std::sync::Arc;

use anyhow::{Context, Result};
use limpet_e2e::{Carrier, Config, Request, Site};
use serde_json::json;

use super::policy;
use crate::protocols::Session;
use limpet_e2e::protocols::{Chat, Echo, EchoClient, Note, Socket};

async fn site() -> Result<Site> {
    let also = json!([{"query": {"name": "s"}}, {"header": {"name": "x-session"}}]);
    let config = Config::load("streams.yaml")?.policy(&policy(&also));
    Site::start_speaking(config, &[Arc::new(Chat), Arc::new(Echo)]).await
}

async fn begun(site: &Site) -> Result<(String, String)> {
    let first = site.envoy.get("/").send().await?;
    let token = Carrier::Cookie.token(&first).context("no token")?;
    Ok((token, first.backend().context("no backend")?.to_owned()))
}

/// A browser opens WebSockets with the token that it has: it must not get a new one each time.
#[tokio::test]
async fn a_websocket_by_query_is_in_the_session() -> Result<()> {
    let site = site().await?;
    let (token, backend) = begun(&site).await?;
    for _ in 0..8 {
        let path = format!("/chat?room=1&s={token}");
        let nobody = Session::new(Carrier::Cookie);
        let (mut socket, headers) = Socket::handshake_at(site.envoy.address(), &path, &nobody).await?;
        assert!(!headers.contains_key("set-cookie"), "a token was issued again");
        assert_eq!(socket.receive().await?.to_text()?, backend);
        socket.echo("hello").await?;
        socket.close().await?;
    }
    assert_eq!(site.envoy.metric("web.issued").await?, 1);
    Ok(())
}

#[tokio::test]
async fn an_event_source_by_query_is_in_the_session() -> Result<()> {
    let site = site().await?;
    let (token, backend) = begun(&site).await?;
    for http2 in [false, true] {
        for _ in 0..4 {
            let request = site.envoy.get(&format!("/events?s={token}"));
            let request = request.header("accept", "text/event-stream").header("x-cut-after", "2");
            let mut stream = if http2 { request.http2() } else { request }.open().await?;
            assert_eq!(stream.head().backend(), Some(backend.as_str()));
            assert!(stream.head().set_cookies().is_empty(), "a token was issued again");
            assert!(stream.piece().await?.is_some());
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_grpc_call_by_header_is_in_the_session() -> Result<()> {
    let site = site().await?;
    let (token, backend) = begun(&site).await?;
    let mut client = EchoClient::connect(site.envoy.address()).await?;
    for _ in 0..6 {
        let mut call = tonic::Request::new(Note::new("hello"));
        call.metadata_mut().insert("x-session", token.parse()?);
        let answer = client.say(call).await?;
        assert_eq!(answer.get_ref().backend, backend);
        assert!(
            answer.metadata().get("set-cookie").is_none(),
            "a token was issued again"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_body_arrives_whole_behind_a_query() -> Result<()> {
    let site = site().await?;
    let (token, backend) = begun(&site).await?;
    let request = Request::get(site.envoy.address(), &format!("/?s={token}")).method(hyper::Method::POST);
    let answer = request.body(vec![7; 100_000]).send().await?;
    assert_eq!(
        (answer.backend(), answer.seen()?.body),
        (Some(backend.as_str()), 100_000)
    );
    Ok(())
}
