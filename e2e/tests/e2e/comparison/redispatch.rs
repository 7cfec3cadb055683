//! A refused connection moves the request and its session to another backend.

use hyper::Method;

use super::*;

async fn assert_moves(session: &Session) -> Result<()> {
    let answer = post(session).await?;
    assert_eq!(answer.status, 200);
    let backend = answer.backend().context("no backend answered")?;
    assert_ne!(backend, session.backend);
    let cookie = answer.set_cookie(COOKIE).context("no new cookie")?;
    assert_eq!(reached(session.at, &cookie.pair()).await?, one(backend));
    Ok(())
}

async fn post(session: &Session) -> Result<Answer> {
    let request = Request::get(session.at, "/").method(Method::POST);
    request.cookie(session.cookie.pair()).send().await
}

/// The route of cookie.yaml retries at other hosts.
#[tokio::test]
async fn envoy_moves_the_request_only_if_the_route_retries() -> Result<()> {
    let mut backends = Backend::three()?;
    let native = || native_config(&json!({}), &json!({}));
    let envoy = Envoy::serve(native()?.backends(&backends)).await?;
    let plain = native()?.route(&json!({"route": {"retry_policy": null}}));
    let without = Envoy::serve(plain.backends(&backends)).await?;
    let mut session = Session::begin(envoy.address()).await?;
    stop(&mut backends, &session).await?;
    assert_moves(&session).await?;
    session.at = without.address();
    assert_eq!(post(&session).await?.status, 503);
    Ok(())
}

#[tokio::test]
async fn haproxy_moves_the_request_only_with_option_redispatch() -> Result<()> {
    let mut backends = Backend::three()?;
    let lines = "cookie limpet-session insert indirect\nretries 1\ntimeout connect 100ms";
    let haproxy_with = async |option: &str| haproxy(&format!("{lines}\n{option}"), &backends).await;
    let with = haproxy_with("option redispatch 1").await?;
    let without = haproxy_with("no option redispatch").await?;
    let mut session = Session::begin(with.address()).await?;
    stop(&mut backends, &session).await?;
    assert_moves(&session).await?;
    session.at = without.address();
    assert_eq!(post(&session).await?.status, 503);
    Ok(())
}

#[tokio::test]
async fn limpet_moves_the_request_unless_it_is_strict() -> Result<()> {
    let mut backends = Backend::three()?;
    let envoy = limpet(&json!({}), &backends).await?;
    let strict = json!({"cookie": {"name": COOKIE}, "strict": true});
    let config = Config::load("cookie.yaml")?.policy(&strict).strict_routes();
    let strict = Envoy::serve(config.backends(&backends)).await?;
    let session = Session::begin(envoy.address()).await?;
    let refused = Session::begin(strict.address()).await?;
    stop(&mut backends, &session).await?;
    assert_moves(&session).await?;
    if refused.backend != session.backend {
        stop(&mut backends, &refused).await?;
    }
    assert_eq!(post(&refused).await?.status, 503);
    Ok(())
}
