//! A session whose backend is lost can be refused instead of moved.

use limpet_e2e::{Site, poll};

use super::*;

async fn assert_refused(session: &Session) -> Result<()> {
    for _ in 0..4 {
        let answer = session.send().await?;
        assert_eq!((answer.status, answer.backend()), (503, None));
    }
    Ok(())
}

#[tokio::test]
async fn envoy_refuses_while_the_backend_is_unhealthy() -> Result<()> {
    let config = native_config(&json!({"strict": true}), &json!({}))?.health_checks();
    let site = Site::start(config).await?;
    let session = Session::begin(site.envoy.address()).await?;
    site.make_unhealthy(&[&session.backend]).await?;
    assert_refused(&session).await
}

/// The route of cookie.yaml retries refused connections at other hosts. Without these retries the session fails.
#[tokio::test]
async fn envoy_moves_the_session_if_the_route_retries() -> Result<()> {
    let mut backends = Backend::three()?;
    let retrying = || native_config(&json!({"strict": true}), &json!({}));
    let envoy = Envoy::serve(retrying()?.backends(&backends)).await?;
    let plain = retrying()?.route(&json!({"route": {"retry_policy": null}}));
    let without = Envoy::serve(plain.backends(&backends)).await?;
    let mut session = Session::begin(envoy.address()).await?;
    stop(&mut backends, &session).await?;
    let answer = session.send().await?;
    assert_eq!(answer.status, 200);
    assert_ne!(answer.backend(), Some(session.backend.as_str()));
    session.at = without.address();
    assert_refused(&session).await
}

const CHECKS: &str = "timeout connect 100ms\ndefault-server check inter 100ms fall 1 rise 1";

async fn until_known(haproxy: &Haproxy) -> Result<()> {
    poll::until("HAProxy to know that a server is down", async || {
        for _ in 0..12 {
            let answer = Request::get(haproxy.address(), "/").send().await.ok()?;
            answer.backend()?;
        }
        Some(())
    })
    .await
}

/// HAProxy retries at the same server.
#[tokio::test]
async fn haproxy_refuses_with_option_persist_even_if_it_retries() -> Result<()> {
    let mut backends = Backend::three()?;
    let lines = format!("cookie limpet-session insert indirect\noption persist\nretries 1\n{CHECKS}");
    let haproxy = haproxy(&lines, &backends).await?;
    let session = Session::begin(haproxy.address()).await?;
    stop(&mut backends, &session).await?;
    until_known(&haproxy).await?;
    assert_refused(&session).await
}

#[tokio::test]
async fn haproxy_moves_the_session_without_option_persist() -> Result<()> {
    let mut backends = Backend::three()?;
    let haproxy = haproxy(&format!("cookie limpet-session insert indirect\n{CHECKS}"), &backends).await?;
    let session = Session::begin(haproxy.address()).await?;
    stop(&mut backends, &session).await?;
    until_known(&haproxy).await?;
    assert_eq!(session.send().await?.status, 200);
    Ok(())
}

/// With the same retries as Envoy's own session above.
#[tokio::test]
async fn limpet_refuses_even_if_the_route_retries() -> Result<()> {
    let mut backends = Backend::three()?;
    let policy = json!({"cookie": {"name": COOKIE}, "strict": true});
    let config = Config::load("cookie.yaml")?.policy(&policy).strict_routes();
    let envoy = Envoy::serve(config.backends(&backends)).await?;
    let session = Session::begin(envoy.address()).await?;
    stop(&mut backends, &session).await?;
    assert_refused(&session).await
}
