//! Sessions in a header instead of a cookie.

use super::*;

pub(super) async fn reached_with(at: SocketAddr, name: &str, value: &str) -> Result<BTreeSet<String>> {
    let mut backends = BTreeSet::new();
    for _ in 0..6 {
        let answer = Request::get(at, "/").header(name, value).send().await?;
        backends.insert(answer.backend().unwrap_or("none").to_owned());
    }
    Ok(backends)
}

/// The header has the cookie's value: the address, which every client can write.
#[tokio::test]
async fn envoys_header_is_as_forgeable_as_its_cookie() -> Result<()> {
    let backends = Backend::three()?;
    let config = native_filter(&json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSession",
        "session_state": {
            "name": "envoy.http.stateful_session.header",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.http.stateful_session.header.v3.HeaderBasedSessionState",
                "name": "x-session",
            },
        },
    }))?;
    let envoy = Envoy::serve(config.backends(&backends)).await?;
    let answer = Request::get(envoy.address(), "/").send().await?;
    let value = answer.header("x-session").context("no header")?;
    let held = reached_with(envoy.address(), "x-session", value).await?;
    assert_eq!(held, one(answer.backend().unwrap_or_default()));
    for backend in &backends {
        let forged = BASE64_STANDARD.encode(backend.address().to_string());
        let reached = reached_with(envoy.address(), "x-session", &forged).await?;
        assert_eq!(reached, one(backend.name()));
    }
    Ok(())
}

#[tokio::test]
async fn haproxys_cookie_directive_knows_cookies_only() -> Result<()> {
    let backends = Backend::three()?;
    let haproxy = haproxy("cookie limpet-session insert indirect", &backends).await?;
    let answer = Request::get(haproxy.address(), "/").send().await?;
    assert!(answer.header("limpet-session").is_none() && answer.set_cookie(COOKIE).is_some());
    assert_eq!(reached_with(haproxy.address(), "limpet-session", "a").await?.len(), 3);
    Ok(())
}

#[tokio::test]
async fn limpets_header_is_signed() -> Result<()> {
    let backends = Backend::three()?;
    let config = Config::load("cookie.yaml")?.policy(&json!({"header": {"name": "x-session"}}));
    let envoy = Envoy::serve(config.backends(&backends)).await?;
    let answer = Request::get(envoy.address(), "/").send().await?;
    assert!(answer.set_cookies().is_empty());
    let value = answer.header("x-session").context("no header")?;
    let held = reached_with(envoy.address(), "x-session", value).await?;
    assert_eq!(held, one(answer.backend().unwrap_or_default()));
    let forged = BASE64_STANDARD.encode(backends[0].address().to_string());
    assert_eq!(reached_with(envoy.address(), "x-session", &forged).await?.len(), 3);
    Ok(())
}
