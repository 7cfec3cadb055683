//! Sessions in a cookie.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use limpet_e2e::{Answering, Config, SetCookie, Site};
use serde_json::json;

/// The cookie `session` of a new visitor with this policy.
async fn first_cookie(policy: serde_json::Value, scheme: &str) -> Result<SetCookie> {
    let site = Site::with_policy(&policy).await?;
    let answer = site.envoy.get("/").header("x-forwarded-proto", scheme).send().await?;
    answer.set_cookie("limpet-session").context("no cookie was set")
}

fn attributes<const N: usize>(attributes: [&str; N]) -> BTreeSet<String> {
    attributes.map(str::to_owned).into()
}

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
async fn the_cookie_is_host_only_http_only_and_same_site() -> Result<()> {
    let cookie = first_cookie(json!({"cookie": {"name": "limpet-session"}}), "http").await?;
    assert_eq!(cookie.attributes, attributes(["Path=/", "HttpOnly", "SameSite=Strict"]));
    Ok(())
}

#[tokio::test]
async fn the_cookie_is_secure_if_the_request_came_over_https() -> Result<()> {
    let cookie = first_cookie(json!({"cookie": {"name": "limpet-session"}}), "https").await?;
    assert_eq!(
        cookie.attributes,
        attributes(["Path=/", "HttpOnly", "SameSite=Strict", "Secure"])
    );
    Ok(())
}

#[tokio::test]
async fn secure_can_be_always() -> Result<()> {
    let cookie = first_cookie(
        json!({"cookie": {"name": "limpet-session", "secure": "always"}}),
        "http",
    )
    .await?;
    assert!(cookie.attribute("Secure").is_some());
    Ok(())
}

#[tokio::test]
async fn secure_can_be_never() -> Result<()> {
    let cookie = first_cookie(
        json!({"cookie": {"name": "limpet-session", "secure": "never"}}),
        "https",
    )
    .await?;
    assert!(cookie.attribute("Secure").is_none());
    Ok(())
}

#[tokio::test]
async fn every_attribute_can_be_chosen() -> Result<()> {
    let policy = json!({"cookie": {
        "name": "limpet-session",
        "path": "/shop",
        "domain": "example.com",
        "secure": "always",
        "httpOnly": false,
        "sameSite": "None",
        "partitioned": true,
    }});
    let cookie = first_cookie(policy, "http").await?;
    let expected = [
        "Path=/shop",
        "Domain=example.com",
        "Secure",
        "SameSite=None",
        "Partitioned",
    ];
    assert_eq!(cookie.attributes, attributes(expected));
    Ok(())
}

#[tokio::test]
async fn a_sealed_token_is_short_and_shows_no_address() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    let mut visitor = site.visitor();
    let answer = visitor.get("/").await?;
    let port = site
        .backends
        .iter()
        .find(|backend| Some(backend.name()) == answer.backend())
        .context("no backend")?
        .address()
        .port();
    let token = visitor.cookie("limpet-session").context("no token")?;
    assert!(token.len() <= 64, "{} characters", token.len());
    assert!(!shows(token, &[127, 0, 0, 1])? && !shows(token, &port.to_be_bytes())?);
    Ok(())
}

#[tokio::test]
async fn a_signed_token_shows_the_address() -> Result<()> {
    let cookie = first_cookie(json!({"cookie": {"name": "limpet-session"}, "token": "signed"}), "http").await?;
    assert!(shows(&cookie.value, &[127, 0, 0, 1])?);
    Ok(())
}

/// Whether a token contains these bytes.
fn shows(token: &str, bytes: &[u8]) -> Result<bool> {
    let token = BASE64_URL_SAFE_NO_PAD.decode(token)?;
    Ok(token.windows(bytes.len()).any(|window| window == bytes))
}

#[tokio::test]
async fn two_visitors_of_one_backend_have_different_tokens() -> Result<()> {
    let backend = limpet_e2e::Backend::start("only")?;
    let envoy = limpet_e2e::Envoy::serve(Config::load("cookie.yaml")?.backends([&backend])).await?;
    let mut tokens = BTreeSet::new();
    for _ in 0..20 {
        tokens.insert(
            envoy
                .get("/")
                .send()
                .await?
                .set_cookie("limpet-session")
                .context("no cookie was set")?
                .value,
        );
    }
    assert_eq!(tokens.len(), 20);
    Ok(())
}

#[tokio::test]
async fn shared_caches_store_no_answer_that_sets_the_cookie() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    for backend in &site.backends {
        backend.answer(Answering::ok().header("cache-control", "public, max-age=60"));
    }
    let mut visitor = site.visitor();
    assert_eq!(
        visitor.get("/").await?.header("cache-control"),
        Some("private, max-age=60")
    );
    assert_eq!(
        visitor.get("/").await?.header("cache-control"),
        Some("public, max-age=60"),
        "no cookie was set here"
    );
    Ok(())
}

#[tokio::test]
async fn an_answer_that_nobody_stores_keeps_its_cache_control() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    for backend in &site.backends {
        backend.answer(Answering::ok().header("cache-control", "no-store"));
    }
    assert_eq!(site.visitor().get("/").await?.header("cache-control"), Some("no-store"));
    Ok(())
}

#[tokio::test]
async fn no_directive_of_several_cache_control_fields_is_lost() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    for backend in &site.backends {
        let answering = Answering::ok()
            .header("cache-control", "max-age=60")
            .header("cache-control", "must-revalidate");
        backend.answer(answering);
    }
    let answer = site.visitor().get("/").await?;
    let directives: BTreeSet<_> = answer
        .header("cache-control")
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .collect();
    assert_eq!(directives, BTreeSet::from(["private", "max-age=60", "must-revalidate"]));
    Ok(())
}

#[tokio::test]
async fn cache_control_can_be_kept() -> Result<()> {
    let site = Site::with_policy(&json!({"cookie": {"name": "limpet-session"}, "cacheControl": "keep"})).await?;
    for backend in &site.backends {
        backend.answer(Answering::ok().header("cache-control", "public, max-age=60"));
    }
    let answer = site.visitor().get("/").await?;
    assert!(answer.set_cookie("limpet-session").is_some());
    assert_eq!(answer.header("cache-control"), Some("public, max-age=60"));
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
