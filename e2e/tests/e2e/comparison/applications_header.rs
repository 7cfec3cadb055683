//! A session in the application's own header, whose value it gets back.

use limpet_e2e::Answering;

use super::header_carrier::reached_with;
use super::*;

const HEADER: &str = "mcp-session-id";
const OWN: &str = "1868a90c";

async fn begun(at: SocketAddr) -> Result<Answer> {
    Request::get(at, "/").answered_with(HEADER, OWN).send().await
}

async fn assert_holds(at: SocketAddr, value: &str, backend: &str) -> Result<()> {
    assert_eq!(reached_with(at, HEADER, value).await?, one(backend));
    let seen = Request::get(at, "/").header(HEADER, value).send().await?.seen()?;
    assert_eq!(seen.all(HEADER), [OWN]);
    Ok(())
}

/// Envoy's envelope: the address and the application's value, both in base64.
fn envelope(address: &str) -> String {
    format!("{};UV:{}", BASE64_STANDARD.encode(address), BASE64_STANDARD.encode(OWN))
}

#[tokio::test]
async fn envoys_envelope_can_be_written_by_anybody() -> Result<()> {
    let backends = Backend::three()?;
    let config = native_filter(&json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSession",
        "session_state": {
            "name": "envoy.http.stateful_session.envelope",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.http.stateful_session.envelope.v3.EnvelopeSessionState",
                "header": {"name": HEADER},
            },
        },
    }))?;
    let envoy = Envoy::serve(config.backends(&backends)).await?;
    let answer = begun(envoy.address()).await?;
    let of_answer = |backend: &&Backend| Some(backend.name()) == answer.backend();
    let backend = backends.iter().find(of_answer).context("no backend")?;
    let value = answer.header(HEADER).context("no header")?;
    assert_eq!(value, envelope(&backend.address().to_string()), "it shows the address");
    assert_holds(envoy.address(), value, backend.name()).await?;
    for backend in &backends {
        assert_holds(
            envoy.address(),
            &envelope(&backend.address().to_string()),
            backend.name(),
        )
        .await?;
    }
    Ok(())
}

/// HAProxy's table learns the application's value. The client gets nothing of HAProxy's.
#[tokio::test]
async fn haproxy_has_a_stick_table() -> Result<()> {
    let backends = Backend::three()?;
    for backend in &backends {
        backend.answer(Answering::ok().header("x-login", &format!("user of {}", backend.name())));
    }
    let lines = "stick-table type string len 32 size 1k expire 1m
        stick match req.hdr(x-login)
        stick store-response res.hdr(x-login)";
    let haproxy = haproxy(lines, &backends).await?;
    for _ in 0..3 {
        let first = Request::get(haproxy.address(), "/").send().await?;
        let login = first.header("x-login").context("no header")?;
        let reached = reached_with(haproxy.address(), "x-login", login).await?;
        assert_eq!(reached, one(first.backend().unwrap_or_default()));
    }
    Ok(())
}

#[tokio::test]
async fn limpet_signs_it() -> Result<()> {
    let backends = Backend::three()?;
    let config = Config::load("cookie.yaml")?.policy(&json!({"header": {"name": HEADER, "mode": "prefix"}}));
    let envoy = Envoy::serve(config.backends(&backends)).await?;
    let answer = begun(envoy.address()).await?;
    let value = answer.header(HEADER).context("no header")?;
    assert_holds(envoy.address(), value, answer.backend().unwrap_or_default()).await?;
    for forged in [
        envelope(&backends[0].address().to_string()),
        format!("{}~{OWN}", backends[0].name()),
    ] {
        assert_eq!(reached_with(envoy.address(), HEADER, &forged).await?.len(), 3);
    }
    Ok(())
}
