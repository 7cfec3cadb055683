//! Tokens in the wrong place, what tokens show, and tokens in a header.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine};
use limpet_core::outcome::RequestOutcome;
use limpet_e2e::protocols::{EchoClient, Socket};
use limpet_e2e::{Carrier, Config, Request, Site, raw_get};
use serde_json::json;

use crate::hostile_clients::config;
use crate::hostile_clients::forger::{Forger, Forgery, SESSIONS};
use crate::protocols::events::EventSource;
use crate::protocols::grpc::say;
use crate::protocols::{Session, address, site};

#[tokio::test]
async fn check_21_bad_tokens_fall_back_and_show_nothing() -> Result<()> {
    tokio::try_join!(
        each_kind_is_counted_by_its_reason(),
        rules_of_different_hosts(),
        signed_tokens_show_the_address()
    )?;
    Ok(())
}

/// Flipped bits, cut tokens, another rule, an unknown key, the future, replays after expiry or fence, and addresses
/// instead of tokens.
async fn each_kind_is_counted_by_its_reason() -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let site = Site::start(config(now.as_secs())?).await?;
    for session in SESSIONS {
        let backend = site.backends[0].address();
        let mut forger = Forger::new(session, backend, now)?;
        let good = forger.honest();
        let kept = session.bring(good.as_bytes(), &site.envoy).send().await?;
        assert_eq!(kept.backend(), Some("a"));

        let mut expected = BTreeMap::new();
        let mut tokens = Vec::new();
        for kind in Forgery::ALL {
            let (token, refusal) = forger.forge(kind, 30)?;
            *expected.entry(RequestOutcome::Refused(refusal).as_str()).or_insert(0) += 1;
            tokens.push(token);
        }
        // Envoy's own sessions use this form.
        for address in [backend.to_string(), BASE64_STANDARD.encode(backend.to_string())] {
            *expected.entry("refused.malformed").or_insert(0) += 1;
            tokens.push(address.into_bytes());
        }
        for token in tokens {
            let answer = session.bring(&token, &site.envoy).send().await?;
            assert_eq!(answer.status, 200);
            let new = session.token(&answer).context("no new token")?;
            ensure!(!shows_the_address(&new)?, "{new}");
        }
        for (reason, count) in expected {
            let counter = format!("{}.{reason}", session.policy);
            assert_eq!(site.envoy.metric(&counter).await?, count, "{counter}");
        }
        assert_eq!(site.envoy.metric(&format!("{}.steered", session.policy)).await?, 1);
    }
    Ok(())
}

/// All backends are at 127.0.0.1.
fn shows_the_address(token: &str) -> Result<bool> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token)?;
    let text = String::from_utf8_lossy(&bytes);
    let there = bytes.windows(4).any(|octets| octets == [127, 0, 0, 1]);
    Ok(there || token.contains("127.0.0.1") || text.contains("127.0.0.1"))
}

/// Shows that the search finds an address.
async fn signed_tokens_show_the_address() -> Result<()> {
    let site = Site::with_policy(&json!({"cookie": {"name": "limpet-session"}, "token": "signed"})).await?;
    let first = site.envoy.get("/").send().await?;
    let token = first.set_cookie("limpet-session").context("no token")?.value;
    ensure!(shows_the_address(&token)?, "{token}");
    Ok(())
}

/// Two hosts whose rules have the same name and policy.
async fn rules_of_different_hosts() -> Result<()> {
    let host = |name: &str| {
        let session = format!("web/{name}");
        json!({
            "name": name,
            "domains": [format!("{name}.example")],
            "routes": [{
                "name": "rule",
                "match": {"prefix": "/"},
                "metadata": {"filter_metadata": {"limpet": {"session": session}}},
                "route": {"cluster": "backends"},
            }],
        })
    };
    let hosts = json!({"route_config": {"virtual_hosts": [host("one"), host("two")]}});
    let policies = json!({"web": {"cookie": {"name": "limpet-session"}}});
    let filter = json!({"keys": [{"id": 1, "env": "LIMPET_KEY"}], "policies": policies});
    let config = Config::load("cookie.yaml")?.filter(&filter).connection_manager(&hosts);
    let site = Site::start(config).await?;
    let get = |host: &str| site.envoy.get("/").header("host", host);
    let first = get("one.example").send().await?;
    let pair = first.set_cookie("limpet-session").context("no token")?.pair();
    let elsewhere = get("two.example").cookie(&pair).send().await?;
    ensure!(
        elsewhere.set_cookie("limpet-session").is_some(),
        "the token was honoured on another host"
    );
    ensure!(site.envoy.metric("web.refused.bad_signature").await? == 1);
    let own = get("one.example").cookie(&pair).send().await?;
    ensure!(own.backend() == first.backend() && own.set_cookies().is_empty());
    Ok(())
}

#[tokio::test]
async fn check_23_sessions_in_a_header() -> Result<()> {
    let site = site().await?;
    let at = address(&site, Carrier::Header)?;

    let first = Request::get(at, "/").send().await?;
    let token = first.header("x-session").context("the response has no token")?;
    for name in ["x-session", "X-SESSION", "X-Session"] {
        for _ in 0..4 {
            let answer = raw_get(at, "/", &[(name, token.as_bytes())]).await?;
            let backend = first.backend().context("no backend")?.as_bytes();
            assert_eq!(
                (answer.all("x-backend"), answer.all("x-session")),
                (vec![backend], vec![]),
                "{name}"
            );
        }
    }

    // The same session over gRPC, WebSockets and server-sent events.
    let mut session = Session::new(Carrier::Header);
    session.answered(&first.headers)?;
    let mut client = EchoClient::connect(at).await?;
    let mut events = EventSource::new(at);
    for _ in 0..4 {
        let note = say(&mut client, &mut session, "hello").await?;
        assert_eq!(note.backend, session.backend());

        let mut socket = Socket::open(at, &mut session).await?;
        socket.echo("hello").await?;
        socket.close().await?;

        events.connected(session.open(events.request(2)).await?);
        assert_eq!(events.rest().await?, [session.backend(); 2]);
    }
    assert_eq!(session.continued, 12);

    say(&mut client, &mut Session::new(Carrier::Header), "hello").await?;
    Socket::open(at, &mut Session::new(Carrier::Header)).await?;
    Session::new(Carrier::Header)
        .open(EventSource::new(at).request(2))
        .await?;
    Ok(())
}
