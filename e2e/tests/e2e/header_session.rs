//! Sessions in a header.

use anyhow::{Context, Result};
use limpet_e2e::{Config, Site};
use serde_json::json;

#[tokio::test]
async fn the_first_answer_has_the_token_and_it_keeps_the_session() -> Result<()> {
    let site = Site::start(Config::load("header.yaml")?).await?;
    let first = site.envoy.get("/").send().await?;
    let token = first.header("x-session").context("no token")?;
    assert!(first.set_cookies().is_empty());
    for _ in 0..20 {
        let answer = site.envoy.get("/").header("x-session", token).send().await?;
        assert_eq!(answer.backend(), first.backend());
        assert_eq!(answer.header("x-session"), None, "a token was issued again");
    }
    Ok(())
}

/// `X-Session` over HTTP/1.1, in title case, and `x-session` over HTTP/2.
#[tokio::test]
async fn the_headers_name_is_read_in_any_case() -> Result<()> {
    let site = Site::with_policy(&json!({"header": {"name": "X-SESSION"}})).await?;
    let first = site.envoy.get("/").send().await?;
    let token = first.header("x-session").context("no token")?;
    for _ in 0..6 {
        let title_case = site.envoy.get("/").header("x-session", token).send().await?;
        let lower_case = site.envoy.get("/").header("x-session", token).http2().send().await?;
        assert_eq!([title_case.backend(), lower_case.backend()], [first.backend(); 2]);
    }
    Ok(())
}

#[tokio::test]
async fn the_backend_does_not_see_the_header() -> Result<()> {
    let site = Site::start(Config::load("header.yaml")?).await?;
    let first = site.envoy.get("/").send().await?;
    let token = first.header("x-session").context("no token")?;
    let seen = site.envoy.get("/").header("x-session", token).send().await?.seen()?;
    assert!(seen.all("x-session").is_empty());
    let seen = site
        .envoy
        .get("/")
        .header("x-session", "not a token")
        .send()
        .await?
        .seen()?;
    assert!(seen.all("x-session").is_empty(), "the backend sees a refused token");
    Ok(())
}
