//! A gateway with one route.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use limpet_e2e::Build;

use crate::site::EnvoyGatewaySite;

async fn a_session_holds(build: Build) -> Result<()> {
    let (site, _envoy) = EnvoyGatewaySite::start("limpet-session", build).await?;

    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    let cookie = first.set_cookie("limpet-session").context("no cookie")?;
    assert_eq!(cookie.attribute("Path"), Some("/"));
    assert!(cookie.attribute("HttpOnly").is_some());
    assert!(!cookie.value.contains('.'), "readable: {}", cookie.value);
    let mut answers = vec![first];
    for _ in 0..10 {
        answers.push(visitor.get("/").await?);
    }
    for answer in &answers {
        assert_eq!(answer.backend(), answers[0].backend());
        let internal = |name: &str| name.starts_with("x-limpet");
        assert!(!answer.headers.keys().any(|name| internal(name.as_str())), "{answer:?}");
        let seen = answer.seen()?;
        assert!(seen.internal_headers().is_empty(), "{seen:?}");
        assert_eq!(seen.cookies(), None);
    }
    // No token is replaced without a reason.
    assert!(
        answers[1..]
            .iter()
            .all(|answer| answer.set_cookie("limpet-session").is_none())
    );

    let mut backends = BTreeSet::new();
    for _ in 0..40 {
        backends.extend(site.get("/").send().await?.backend().map(str::to_owned));
    }
    assert_eq!(backends.len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_session_stays_with_the_module() -> Result<()> {
    a_session_holds(Build::Module).await
}

#[tokio::test]
async fn a_session_stays_with_wasm() -> Result<()> {
    a_session_holds(Build::Wasm).await
}

async fn nobody_else_steers(build: Build) -> Result<()> {
    let (site, envoy) = EnvoyGatewaySite::start("forged", build).await?;
    let pod = site.pods[0].address().to_string();
    for name in [
        "x-limpet-host",
        "x-limpet-host-strict",
        "x-limpet-session",
        "x-limpet-destination",
    ] {
        let mut backends = BTreeSet::new();
        for _ in 0..40 {
            let answer = site.get("/").header(name, &pod).send().await?;
            assert_eq!(answer.status, 200);
            assert!(
                answer.set_cookie("limpet-session").is_some(),
                "{name} prevents a session"
            );
            // For the module, this is an ordinary header.
            assert!(
                build == Build::Module || answer.seen()?.internal_headers().is_empty(),
                "{name} reaches the backend"
            );
            backends.extend(answer.backend().map(str::to_owned));
        }
        assert_eq!(backends.len(), 2, "{name} steers");
    }

    let mut visitor = site.session_on("a").await?;
    let token = visitor.cookie("limpet-session").context("no token")?.to_owned();
    let (head, tail) = token.split_at(token.len() - 2);
    let forged = format!("{head}{}", if tail == "AA" { "BA" } else { "AA" });
    let refused = envoy.admin().stats("limpet.*refused").await?.values().sum::<u64>();
    visitor.keep("limpet-session", &forged);
    let answer = visitor.get("/").await?;
    assert_eq!(answer.status, 200);
    assert!(
        answer.set_cookie("limpet-session").is_some(),
        "a forged token was honoured"
    );
    let now = envoy.admin().stats("limpet.*refused").await?.values().sum::<u64>();
    assert_eq!(now, refused + 1);
    Ok(())
}

#[tokio::test]
async fn clients_cannot_steer_with_the_module() -> Result<()> {
    nobody_else_steers(Build::Module).await
}

#[tokio::test]
async fn clients_cannot_steer_with_wasm() -> Result<()> {
    nobody_else_steers(Build::Wasm).await
}
