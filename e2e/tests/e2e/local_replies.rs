//! Answers that Envoy sends without a backend neither start nor move a session.

use std::time::Duration;

use anyhow::Result;
use limpet_e2e::{Answer, Answering, Config, Site};
use serde_json::json;

/// A cookie session, a header session and a strict session.
fn sites(change: impl Fn(Config) -> Config) -> Result<[Config; 3]> {
    let load = || anyhow::Ok(change(Config::load("cookie.yaml")?));
    Ok([
        load()?,
        load()?.policy(&json!({"header": {"name": "limpet-session"}})),
        load()?
            .policy(&json!({"cookie": {"name": "limpet-session"}, "strict": true}))
            .strict_routes(),
    ])
}

#[track_caller]
fn assert_issues_nothing(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status);
    assert_eq!(answer.backend(), None, "a backend answered");
    assert!(
        answer.set_cookies().is_empty() && answer.header("limpet-session").is_none(),
        "a token was issued"
    );
    let internal: Vec<_> = answer
        .headers
        .keys()
        .filter(|name| name.as_str().starts_with("x-limpet"))
        .collect();
    assert!(internal.is_empty(), "{internal:?}");
}

#[tokio::test]
async fn a_reply_of_envoys_routes_starts_no_session() -> Result<()> {
    let routes = json!([
        {"match": {"prefix": "/direct"}, "direct_response": {"status": 200}},
        {"match": {"prefix": "/redirect"}, "redirect": {"path_redirect": "/there"}},
        {"match": {"prefix": "/slow"}, "route": {"cluster": "backends", "timeout": "0.1s"}},
    ]);
    for config in sites(|config| config.routes(routes.clone()))? {
        let site = Site::start(config).await?;
        for backend in &site.backends {
            backend.answer(Answering::ok().after(Duration::from_secs(60)));
        }
        for (path, status) in [
            ("/direct", 200),
            ("/redirect", 301),
            ("/elsewhere", 404),
            ("/slow", 504),
        ] {
            assert_issues_nothing(&site.envoy.get(path).send().await?, status);
        }
    }
    Ok(())
}

/// The connection is closed without an answer, and then refused.
#[tokio::test]
async fn a_failed_connection_starts_no_session() -> Result<()> {
    for config in sites(|config| config)? {
        let mut site = Site::start(config).await?;
        for backend in &site.backends {
            backend.answer(Answering::hanging_up());
        }
        assert_issues_nothing(&site.envoy.get("/").send().await?, 503);
        for backend in &mut site.backends {
            backend.stop().await;
        }
        assert_issues_nothing(&site.envoy.get("/").send().await?, 503);
    }
    Ok(())
}

#[tokio::test]
async fn a_cluster_without_healthy_hosts_starts_no_session() -> Result<()> {
    for config in sites(|config| config)? {
        let site = Site::start(config.health_checks()).await?;
        site.make_unhealthy(&["a", "b", "c"]).await?;
        assert_issues_nothing(&site.envoy.get("/").send().await?, 503);
    }
    Ok(())
}

/// It keeps its token and its backend.
#[tokio::test]
async fn a_session_outlives_an_upstream_timeout() -> Result<()> {
    let mut site = Site::start(Config::load("cookie.yaml")?.route(&json!({"route": {"timeout": "0.5s"}}))).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    site.backend_of(&first)?
        .answer_next(Answering::ok().after(Duration::from_secs(60)));
    assert_issues_nothing(&visitor.get("/").await?, 504);
    site.backend_of(&first)?.answer_next(Answering::hanging_up());
    assert_issues_nothing(&visitor.get("/").await?, 503);
    assert_eq!(visitor.get("/").await?.backend(), first.backend());
    Ok(())
}

#[tokio::test]
async fn a_backends_own_error_starts_a_session() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    for backend in &site.backends {
        backend.answer(Answering::status(503));
    }
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    assert!(first.set_cookie("limpet-session").is_some());
    assert_eq!(visitor.get("/").await?.backend(), first.backend());
    Ok(())
}
