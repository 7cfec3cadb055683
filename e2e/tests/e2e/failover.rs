//! A session whose backend is gone moves; a strict one fails until the backend is back.

use std::time::Duration;

use anyhow::Result;
use limpet_e2e::{Answering, Config, Site, poll};
use serde_json::{Value, json};

fn strict() -> Value {
    json!({"cookie": {"name": "limpet-session"}, "strict": true})
}

#[tokio::test]
async fn a_session_whose_backend_refuses_connections_moves_and_stays() -> Result<()> {
    let mut site = Site::start(Config::load("cookie.yaml")?).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    site.stop_backend_of(&first).await?;

    let moved = visitor.get("/").await?;
    assert_eq!(moved.status, 200);
    assert_ne!(moved.backend(), first.backend());
    assert!(
        moved.set_cookie("limpet-session").is_some(),
        "there is no token for the new backend"
    );
    assert_eq!(site.envoy.metric("web.reissued").await?, 1);

    site.backend_of(&first)?.restart()?;
    for _ in 0..10 {
        let answer = visitor.get("/").await?;
        assert_eq!(answer.backend(), moved.backend());
        assert!(answer.set_cookies().is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn a_session_whose_backend_is_unhealthy_moves() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?.health_checks()).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    site.make_unhealthy(&[first.backend().unwrap_or_default()]).await?;

    let moved = visitor.get("/").await?;
    assert_ne!(moved.backend(), first.backend());
    assert!(moved.set_cookie("limpet-session").is_some());
    for _ in 0..10 {
        assert_eq!(visitor.get("/").await?.backend(), moved.backend());
    }
    Ok(())
}

#[tokio::test]
async fn a_session_whose_backend_left_the_cluster_moves() -> Result<()> {
    let before = Site::start(Config::load("cookie.yaml")?).await?;
    let token = before
        .envoy
        .get("/")
        .send()
        .await?
        .set_cookie("limpet-session")
        .map(|cookie| cookie.pair());
    let after = Site::start(Config::load("cookie.yaml")?).await?;
    let moved = after.envoy.get("/").cookie(token.unwrap_or_default()).send().await?;
    assert_eq!(moved.status, 200);
    assert!(moved.set_cookie("limpet-session").is_some());
    assert_eq!(after.envoy.metric("web.reissued").await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_strict_session_fails_only_while_its_backend_is_unhealthy() -> Result<()> {
    let config = Config::load("cookie.yaml")?.policy(&strict()).strict_routes();
    let mut site = Site::start(config.health_checks()).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    assert!(first.set_cookie("limpet-session").is_some());
    for _ in 0..20 {
        let answer = visitor.get("/").await?;
        assert_eq!(answer.backend(), first.backend());
        assert!(answer.set_cookies().is_empty());
    }
    site.make_unhealthy(&[first.backend().unwrap_or_default()]).await?;

    for _ in 0..10 {
        let refused = visitor.get("/").await?;
        assert_eq!(refused.status, 503);
        assert!(refused.set_cookies().is_empty());
    }
    site.backend_of(&first)?.set_healthy(true);
    let again = poll::until("the session to continue", async || {
        visitor.get("/").await.ok().filter(|answer| answer.status == 200)
    })
    .await?;
    assert_eq!(again.backend(), first.backend());
    assert!(again.set_cookies().is_empty());
    Ok(())
}

/// The route of `cookie.yaml` retries at other hosts.
#[tokio::test]
async fn a_strict_session_is_not_retried_after_a_refused_connection() -> Result<()> {
    let mut site = Site::start(Config::load("cookie.yaml")?.policy(&strict()).strict_routes()).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    site.stop_backend_of(&first).await?;
    for _ in 0..10 {
        let answer = visitor.get("/").await?;
        assert_eq!((answer.status, answer.backend()), (503, None));
        assert!(answer.set_cookies().is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn a_strict_session_is_not_retried_after_its_backend_fails() -> Result<()> {
    let retries = json!({"route": {"retry_policy": {"retry_on": "5xx,reset", "num_retries": 3}}});
    let config = Config::load("cookie.yaml")?
        .policy(&strict())
        .strict_routes()
        .route(&retries);
    let mut site = Site::start(config).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    site.backend_of(&first)?.answer(Answering::status(500));
    for _ in 0..5 {
        let answer = visitor.get("/").await?;
        assert_eq!((answer.status, answer.backend()), (500, first.backend()));
    }
    site.backend_of(&first)?.answer(Answering::hanging_up());
    for _ in 0..5 {
        assert_eq!(visitor.get("/").await?.backend(), None);
    }
    Ok(())
}

/// A client can ask for retries by headers.
#[tokio::test]
async fn a_strict_session_is_not_retried_at_the_clients_request() -> Result<()> {
    let mut site = Site::start(Config::load("cookie.yaml")?.policy(&strict()).strict_routes()).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    site.stop_backend_of(&first).await?;
    for _ in 0..5 {
        let request = site
            .envoy
            .get("/")
            .header("x-envoy-max-retries", "5")
            .header("x-envoy-retry-on", "connect-failure,5xx");
        assert_eq!(visitor.send(request).await?.backend(), None);
    }
    Ok(())
}

#[tokio::test]
async fn a_strict_policy_retries_requests_without_a_session() -> Result<()> {
    let mut site = Site::start(Config::load("cookie.yaml")?.policy(&strict()).strict_routes()).await?;
    site.backends[0].stop().await;
    for _ in 0..12 {
        let answer = site.visitor().get("/").await?;
        assert_eq!(answer.status, 200);
        assert!(answer.set_cookie("limpet-session").is_some());
    }
    Ok(())
}

#[tokio::test]
async fn after_a_retry_the_token_names_the_backend_that_answered() -> Result<()> {
    let retries = json!({"route": {"retry_policy": {"retry_on": "5xx", "num_retries": 5}}});
    let site = Site::start(Config::load("cookie.yaml")?.route(&retries)).await?;
    let [a, b, c] = &site.backends;
    a.answer(Answering::status(503));
    b.answer(Answering::status(503));
    for _ in 0..6 {
        let mut visitor = site.visitor();
        assert_eq!(visitor.get("/").await?.backend(), Some("c"));
        let before = [a.requests(), b.requests(), c.requests()];
        let second = visitor.get("/").await?;
        assert!(second.set_cookies().is_empty());
        assert_eq!(
            [a.requests(), b.requests(), c.requests()],
            [before[0], before[1], before[2] + 1]
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_session_that_a_retry_moved_has_a_token_for_its_new_backend() -> Result<()> {
    let retries = json!({"route": {"retry_policy": {"retry_on": "5xx", "num_retries": 5}}});
    let mut site = Site::start(Config::load("cookie.yaml")?.route(&retries)).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    site.backend_of(&first)?.answer(Answering::status(503));
    let moved = visitor.get("/").await?;
    assert_ne!(moved.backend(), first.backend());
    assert!(moved.set_cookie("limpet-session").is_some());
    site.backend_of(&first)?.answer(Answering::ok());
    for _ in 0..6 {
        assert_eq!(visitor.get("/").await?.backend(), moved.backend());
    }
    Ok(())
}

#[tokio::test]
async fn a_slow_backend_keeps_its_sessions() -> Result<()> {
    let mut site = Site::start(Config::load("cookie.yaml")?).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    site.backend_of(&first)?
        .answer(Answering::ok().after(Duration::from_millis(300)));
    assert_eq!(visitor.get("/").await?.backend(), first.backend());
    Ok(())
}
