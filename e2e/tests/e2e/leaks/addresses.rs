//! With sealed tokens, clients and backends receive no backend's address.

use anyhow::{Context, Result, ensure};
use limpet_e2e::leaks::Leaks;
use limpet_e2e::{Answer, Backend, Carrier, Config, Envoy, Request};
use serde_json::{Value, json};

fn backends() -> Result<[Backend; 3]> {
    let start = |name, address: &str| Backend::start_at(name, address.parse()?);
    Ok([
        start("a", "127.83.141.67:0")?,
        start("b", "127.200.11.99:0")?,
        start("c", "127.158.233.21:0")?,
    ])
}

fn leaks(backends: &[Backend]) -> Leaks {
    let named = backends.iter().map(|backend| (backend.name(), backend.address()));
    named.fold(Leaks::default(), |leaks, (name, address)| {
        leaks.host(&format!("backend {name}"), address)
    })
}

fn everything(answer: &Answer) -> Vec<u8> {
    let mut all = Vec::new();
    for (name, value) in &answer.headers {
        all.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\n"].concat());
    }
    all.extend_from_slice(&answer.body);
    all
}

/// Sessions begin, continue, are forged, move when their backend is gone, and fail if they are strict.
async fn live(more: &Value) -> Result<(Leaks, Vec<u8>)> {
    let mut backends = backends()?;
    let leaks = leaks(&backends);
    let config = Config::load("cookie.yaml")?.both_carriers(more).backends(&backends);
    let config = if more["strict"] == true {
        config.strict_routes()
    } else {
        config
    };
    let envoy = Envoy::serve(config).await?;
    let mut seen = Vec::new();
    for carrier in Carrier::ALL {
        let request = || Request::get(envoy.address(), &carrier.path());
        let first = request().send().await?;
        let token = carrier.token(&first).context("no session")?;
        let again = carrier.bring(&token, request()).send().await?;
        ensure!(again.backend() == first.backend(), "another backend answered");
        let forged = carrier
            .bring(&token.replace(char::is_lowercase, "b"), request())
            .send()
            .await?;
        let index = backends
            .iter()
            .position(|backend| Some(backend.name()) == first.backend());
        backends[index.context("no backend")?].stop().await;
        let moved = carrier.bring(&token, request()).send().await?;
        backends[index.unwrap_or_default()].restart()?;
        ensure!((moved.status == 200) != (more["strict"] == true), "{}", moved.status);
        seen.extend([first, again, forged, moved].iter().flat_map(everything));
    }
    Ok((leaks, seen))
}

#[tokio::test]
async fn no_cookie_or_header_tells_a_backends_address() -> Result<()> {
    for more in [json!({}), json!({"strict": true})] {
        let (leaks, seen) = live(&more).await?;
        leaks.none_in("what clients and backends get", seen)?;
    }
    Ok(())
}

/// The search finds the address in a signed token.
#[tokio::test]
async fn the_address_in_a_token_that_is_not_sealed_is_found() -> Result<()> {
    let (leaks, seen) = live(&json!({"token": "signed"})).await?;
    let found = leaks.find("what clients get", seen)?;
    ensure!(found.iter().any(|found| found.contains("base64")), "{found:#?}");
    Ok(())
}

/// The search finds the address in Envoy's own cookie.
#[tokio::test]
async fn the_address_in_envoys_own_cookie_is_found() -> Result<()> {
    let backends = backends()?;
    let own = json!([{
        "name": "own",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSession",
            "session_state": {
                "name": "envoy.http.stateful_session.cookie",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.http.stateful_session.cookie.v3.\
                    CookieBasedSessionState",
                    "cookie": {"name": "own"},
                },
            },
        },
    }]);
    let config = Config::load("cookie.yaml")?.without_limpet().prepend_filters(&own);
    let envoy = Envoy::serve(config.backends(&backends)).await?;
    let answer = envoy.get("/").send().await?;
    let found = leaks(&backends).find("what clients get", everything(&answer))?;
    ensure!(!found.is_empty());
    Ok(())
}
