//! How long a session lasts. These tests wait, because they test time itself.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use limpet_e2e::{SetCookie, Site};
use serde_json::{Value, json};

fn policy(timeouts: &Value) -> Value {
    let mut policy = json!({"cookie": {"name": "limpet-session"}});
    for (name, value) in timeouts.as_object().into_iter().flatten() {
        policy[name] = value.clone();
    }
    policy
}

async fn pass(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

#[tokio::test]
async fn a_session_that_is_used_in_time_goes_on() -> Result<()> {
    let site = Site::with_policy(&policy(&json!({"idleTimeout": "3s"}))).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    assert!(first.set_cookie("limpet-session").is_some());
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(7) {
        pass(1.5).await;
        assert_eq!(visitor.get("/").await?.backend(), first.backend());
    }
    assert_eq!(site.envoy.metric("web.refused.idle").await?, 0);
    Ok(())
}

/// The session is idle for longer than 1.1 times the timeout, with a margin of whole seconds.
#[tokio::test]
async fn a_session_that_is_not_used_in_time_ends() -> Result<()> {
    let site = Site::with_policy(&policy(&json!({"idleTimeout": "1s"}))).await?;
    let mut visitor = site.visitor();
    visitor.get("/").await?;
    pass(3.2).await;
    let answer = visitor.get("/").await?;
    assert!(answer.set_cookie("limpet-session").is_some());
    assert_eq!(site.envoy.metric("web.refused.idle").await?, 1);
    assert_eq!(site.envoy.metric("web.issued").await?, 2);
    Ok(())
}

#[tokio::test]
async fn idle_accounting_does_not_set_a_cookie_with_every_answer() -> Result<()> {
    let site = Site::with_policy(&policy(&json!({"idleTimeout": "1h"}))).await?;
    let mut visitor = site.visitor();
    assert!(visitor.get("/").await?.set_cookie("limpet-session").is_some());
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(2500) {
        assert!(visitor.get("/").await?.set_cookies().is_empty());
    }
    assert_eq!(site.envoy.metric("web.renewed").await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_token_is_renewed_after_a_tenth_of_the_idle_timeout() -> Result<()> {
    let site = Site::with_policy(&policy(&json!({"idleTimeout": "10s"}))).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    pass(2.1).await;
    let renewed = visitor.get("/").await?;
    assert_eq!(renewed.backend(), first.backend());
    assert!(renewed.set_cookie("limpet-session").is_some());
    assert!(
        visitor.get("/").await?.set_cookies().is_empty(),
        "the token was renewed more than once"
    );
    assert_eq!(site.envoy.metric("web.renewed").await?, 1);
    assert_eq!(site.envoy.metric("web.issued").await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_session_in_use_ends_at_its_absolute_timeout() -> Result<()> {
    let site = Site::with_policy(&policy(&json!({"absoluteTimeout": "3s", "idleTimeout": "2s"}))).await?;
    let mut visitor = site.visitor();
    visitor.get("/").await?;
    let start = Instant::now();
    while site.envoy.metric("web.refused.expired").await? == 0 {
        assert!(start.elapsed() < Duration::from_secs(8), "the session does not end");
        pass(0.4).await;
        visitor.get("/").await?;
    }
    assert!(
        start.elapsed() > Duration::from_millis(1900),
        "the session ended too early"
    );
    assert_eq!(site.envoy.metric("web.issued").await?, 2, "no new session began");
    assert_eq!(site.envoy.metric("web.refused.idle").await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_session_cookie_has_neither_expires_nor_max_age() -> Result<()> {
    let site = Site::with_policy(&policy(&json!({"absoluteTimeout": "1h", "idleTimeout": "10m"}))).await?;
    let cookie = site
        .visitor()
        .get("/")
        .await?
        .set_cookie("limpet-session")
        .context("no cookie")?;
    assert!(cookie.attribute("Expires").is_none() && cookie.attribute("Max-Age").is_none());
    Ok(())
}

fn max_age(cookie: &SetCookie) -> Result<u64> {
    Ok(cookie.attribute("Max-Age").context("no Max-Age")?.parse()?)
}

#[tokio::test]
async fn a_permanent_cookie_lasts_for_the_absolute_timeout() -> Result<()> {
    let policy = json!({"cookie": {"name": "limpet-session", "lifetimeType": "Permanent"}, "absoluteTimeout": "1h"});
    let site = Site::with_policy(&policy).await?;
    let before = SystemTime::now();
    let cookie = site
        .visitor()
        .get("/")
        .await?
        .set_cookie("limpet-session")
        .context("no cookie")?;
    assert_eq!(max_age(&cookie)?, 3600);
    let expires = httpdate::parse_http_date(cookie.attribute("Expires").context("no Expires")?)?;
    let ahead = expires.duration_since(before)?;
    assert!((3598..=3602).contains(&ahead.as_secs()), "{ahead:?}");
    Ok(())
}

/// Browsers take `Max-Age=0` for a deletion.
#[tokio::test]
async fn a_permanent_cookie_of_half_a_second_is_no_deletion() -> Result<()> {
    let policy = json!({"cookie": {"name": "limpet-session", "lifetimeType": "Permanent"}, "absoluteTimeout": "500ms"});
    let site = Site::with_policy(&policy).await?;
    let before = SystemTime::now();
    let cookie = site
        .visitor()
        .get("/")
        .await?
        .set_cookie("limpet-session")
        .context("no cookie")?;
    assert_eq!(max_age(&cookie)?, 1);
    let expires = httpdate::parse_http_date(cookie.attribute("Expires").context("no Expires")?)?;
    assert!(expires > before, "{cookie:?}");
    Ok(())
}

#[tokio::test]
async fn a_renewed_permanent_cookie_lasts_for_what_is_left() -> Result<()> {
    let policy = json!({
        "cookie": {"name": "limpet-session", "lifetimeType": "Permanent"},
        "absoluteTimeout": "1h",
        "idleTimeout": "10s",
    });
    let site = Site::with_policy(&policy).await?;
    let mut visitor = site.visitor();
    let first = visitor
        .get("/")
        .await?
        .set_cookie("limpet-session")
        .context("no cookie")?;
    pass(2.1).await;
    let renewed = visitor
        .get("/")
        .await?
        .set_cookie("limpet-session")
        .context("not renewed")?;
    assert!((3590..=3598).contains(&max_age(&renewed)?));
    assert_eq!(first.attribute("Expires"), renewed.attribute("Expires"));
    Ok(())
}
