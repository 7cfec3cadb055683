use anyhow::{Context, Result};
use limpet_e2e::{Answering, Config, Site};
use serde_json::json;

#[tokio::test]
async fn fifty_requests_reach_the_backend_of_the_first_one() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    assert!(first.set_cookie("limpet-session").is_some());
    for _ in 0..50 {
        let answer = visitor.get("/").await?;
        assert_eq!(answer.backend(), first.backend());
        assert!(answer.set_cookies().is_empty(), "a token was issued again");
    }
    Ok(())
}

/// The Gateway API allows names of 256 characters since 1.7.0.
#[tokio::test]
async fn the_longest_names_keep_their_sessions() -> Result<()> {
    let name = "n".repeat(256);
    for policy in [json!({"cookie": {"name": name}}), json!({"header": {"name": name}})] {
        let site = Site::with_policy(&policy).await?;
        let first = site.envoy.get("/").send().await?;
        let token = match first.set_cookie(&name) {
            Some(cookie) => cookie.value,
            None => first.header(&name).context("no token")?.to_owned(),
        };
        for _ in 0..6 {
            let request = site.envoy.get("/");
            let request = if policy["cookie"].is_null() {
                request.header(&name, &token)
            } else {
                request.cookie(format!("{name}={token}"))
            };
            assert_eq!(request.send().await?.backend(), first.backend());
        }
    }
    Ok(())
}

#[tokio::test]
async fn requests_of_concurrent_visitors_do_not_mix() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    let mut visitors = tokio::task::JoinSet::new();
    for _ in 0..30 {
        let mut visitor = site.visitor();
        visitors.spawn(async move {
            let first = visitor.get("/").await?;
            assert!(first.set_cookie("limpet-session").is_some());
            for _ in 0..20 {
                let answer = visitor.get("/").await?;
                assert_eq!(answer.backend(), first.backend());
                assert!(answer.set_cookies().is_empty());
            }
            anyhow::Ok(())
        });
    }
    visitors.join_all().await.into_iter().collect()
}

#[tokio::test]
async fn visitors_spread_over_all_backends() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    for _ in 0..30 {
        site.visitor().get("/").await?;
    }
    for backend in &site.backends {
        assert!(backend.requests() > 0, "backend {} got no request", backend.name());
    }
    Ok(())
}

#[tokio::test]
async fn the_cookie_is_secure_if_the_request_came_over_https() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    for (scheme, is_secure) in [("http", false), ("https", true)] {
        let answer = site.envoy.get("/").header("x-forwarded-proto", scheme).send().await?;
        let cookie = answer.set_cookie("limpet-session").context("no cookie was set")?;
        assert_eq!(cookie.attribute("Secure").is_some(), is_secure, "{scheme}");
    }
    Ok(())
}

#[tokio::test]
async fn the_applications_own_cookies_are_set_too() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    for backend in &site.backends {
        backend.answer(
            Answering::ok()
                .header("set-cookie", "a=1; Path=/")
                .header("set-cookie", "b=\"2\""),
        );
    }
    let answer = site.visitor().get("/").await?;
    let names: Vec<_> = answer.set_cookies().into_iter().map(|cookie| cookie.name).collect();
    assert_eq!(names, ["a", "b", "limpet-session"]);
    Ok(())
}
