//! Sessions that their application moves to another backend.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use limpet_e2e::{Answer, Backend, Config, Site, Visitor};
use serde_json::{Value, json};

const COOKIE: &str = "limpet-session";
const MOVE: &str = "x-move";

fn policy(fields: &Value) -> Value {
    let mut policy = json!({"cookie": {"name": COOKIE}, "move": {"header": "X-Move"}});
    for (name, field) in fields.as_object().into_iter().flatten() {
        policy[name] = field.clone();
    }
    policy
}

async fn site(fields: &Value) -> Result<Site> {
    Site::start(Config::load("cookie.yaml")?.policy(&policy(fields))).await
}

async fn moving(site: &Site, visitor: &mut Visitor, to: impl ToString) -> Result<Answer> {
    let request = site.envoy.get("/").answered_with(MOVE, to.to_string());
    let answer = visitor.send(request).await?;
    assert_eq!(
        (answer.status, answer.header(MOVE)),
        (200, None),
        "clients see the header"
    );
    Ok(answer)
}

fn others(site: &Site, answer: &Answer) -> Result<[(String, SocketAddr); 2]> {
    let other = |backend: &&Backend| Some(backend.name()) != answer.backend();
    let others = site.backends.iter().filter(other);
    let others: Vec<_> = others
        .map(|backend| (backend.name().to_owned(), backend.address()))
        .collect();
    others.try_into().ok().context("two other backends")
}

fn nowhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 9], 9))
}

#[tokio::test]
async fn a_session_goes_where_its_application_says() -> Result<()> {
    let site = site(&json!({})).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    for (number, (name, address)) in (1..).zip(others(&site, &first)?) {
        let before = visitor.get("/").await?;
        let told = moving(&site, &mut visitor, address).await?;
        assert_eq!(told.backend(), before.backend());
        assert!(told.set_cookie(COOKIE).is_some(), "no token for the new backend");
        assert_eq!(told.header("cache-control"), Some("private"));
        let arrived = visitor.get("/").await?;
        assert_eq!(arrived.backend(), Some(name.as_str()));
        assert!(arrived.set_cookie(COOKIE).is_some(), "nothing says that it has arrived");
        for _ in 0..6 {
            let answer = visitor.get("/").await?;
            assert_eq!((answer.backend(), answer.set_cookies().len()), (Some(name.as_str()), 0));
        }
        assert_eq!(site.envoy.metric("web.moved").await?, number);
        assert_eq!(site.envoy.metric("web.renewed").await?, number);
    }
    assert_eq!(site.envoy.metric("web.refused_moves").await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_move_to_no_host_is_refused_and_counted() -> Result<()> {
    // A VM logs a refused move once.
    let config = Config::load("cookie.yaml")?.policy(&policy(&json!({})));
    let site = Site::start(config.alone()).await?;
    let mut visitor = site.visitor();
    moving(&site, &mut visitor, nowhere()).await?;
    assert_eq!(site.envoy.metric("web.moved").await?, 1);
    assert_eq!(site.envoy.metric("web.refused_moves").await?, 0, "nobody knows yet");
    let back = visitor.get("/").await?;
    assert_eq!(back.status, 200);
    assert!(back.set_cookie(COOKIE).is_some());
    for _ in 0..6 {
        assert_eq!(visitor.get("/").await?.backend(), back.backend());
    }
    assert_eq!(site.envoy.metric("web.refused_moves").await?, 1);
    assert_eq!(site.envoy.metric("web.reissued").await?, 1);
    let log = site.envoy.log()?;
    let line = "policy web: x-move: 127.0.0.9:9 is no host of the cluster, or not available";
    assert!(log.contains(line), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_move_locks_no_strict_session_out() -> Result<()> {
    let config = Config::load("cookie.yaml")?.policy(&policy(&json!({"strict": true})));
    let mut site = Site::start(config.moving_strict_routes()).await?;
    let mut visitor = site.visitor();
    visitor.get("/").await?;
    moving(&site, &mut visitor, nowhere()).await?;
    let back = visitor.get("/").await?;
    assert_eq!(back.status, 200, "the session is locked out");
    assert_eq!(site.envoy.metric("web.refused_moves").await?, 1);

    let [(name, address), _] = others(&site, &back)?;
    moving(&site, &mut visitor, address).await?;
    for _ in 0..4 {
        assert_eq!(visitor.get("/").await?.backend(), Some(name.as_str()));
    }
    // It has arrived, so it is strict.
    let arrived = visitor.get("/").await?;
    site.stop_backend_of(&arrived).await?;
    assert_eq!(visitor.get("/").await?.status, 503);
    Ok(())
}

#[tokio::test]
async fn a_moving_session_passes_a_backend_that_is_gone() -> Result<()> {
    for strict in [false, true] {
        let config = Config::load("cookie.yaml")?.policy(&policy(&json!({"strict": strict})));
        let mut site = Site::start(config.moving_strict_routes()).await?;
        let mut visitor = site.visitor();
        let [(gone, address), _] = others(&site, &visitor.get("/").await?)?;
        moving(&site, &mut visitor, address).await?;
        site.backend(&gone)?.stop().await;
        // Envoy tries it, and then another one.
        let passed = visitor.get("/").await?;
        assert_eq!(passed.status, 200, "strict: {strict}");
        assert_ne!(passed.backend(), Some(gone.as_str()));
        assert_eq!(site.envoy.metric("web.refused_moves").await?, 1);
    }
    Ok(())
}

/// Only hosts of the session's own cluster are searched.
#[tokio::test]
async fn a_host_of_another_cluster_is_never_reached() -> Result<()> {
    let site = site(&json!({})).await?;
    let elsewhere = Backend::start("elsewhere")?;
    for _ in 0..6 {
        let mut visitor = site.visitor();
        moving(&site, &mut visitor, elsewhere.address()).await?;
        assert_eq!(visitor.get("/").await?.status, 200);
    }
    assert_eq!(elsewhere.requests(), 0);
    assert_eq!(site.envoy.metric("web.refused_moves").await?, 6);
    Ok(())
}
