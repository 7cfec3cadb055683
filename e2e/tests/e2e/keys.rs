//! Keys: where they come from, and how several keys work together.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use limpet_e2e::{Config, Envoy, Journeys, OTHER_KEY, Request, Site, TEST_KEY, Visitor};
use serde_json::{Value, json};

fn filter(keys: &Value) -> Value {
    json!({
        "keys": keys,
        "policies": {"web": {"cookie": {"name": "limpet-session"}}},
        "default": {"policy": "web", "scope": "default"},
    })
}

/// The key id that a token names.
pub(crate) fn key_of(token: &str) -> Result<u8> {
    BASE64_URL_SAFE_NO_PAD
        .decode(token)?
        .get(1)
        .copied()
        .context("this is too short")
}

/// Checks that no session was lost and no request failed. Returns, for each client, the keys of its tokens in order.
pub(crate) fn keys_without_loss(journeys: &Journeys) -> Result<BTreeSet<Vec<u8>>> {
    journeys.none_failed()?;
    let each = journeys.0.iter().map(|journey| {
        let moves = journey.moves();
        ensure!(moves.is_empty(), "a session was lost: {moves:#?}");
        let tokens = journey.tokens().into_iter();
        tokens
            .map(|visit| key_of(visit.token.as_deref().unwrap_or_default()))
            .collect()
    });
    each.collect()
}

/// A site that signs with key 1, and a second Envoy in front of the same backends with these keys.
async fn change_of_keys(keys: &Value) -> Result<(Site, Envoy)> {
    let before = filter(&json!([{"id": 1, "env": "LIMPET_KEY_1"}]));
    let load = || Config::load("two-keys.yaml");
    let site = Site::start(load()?.filter(&before)).await?;
    let envoy = Envoy::serve(load()?.filter(&filter(keys)).backends(&site.backends)).await?;
    Ok((site, envoy))
}

#[tokio::test]
async fn a_key_from_the_environment_is_shown_nowhere() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    assert!(site.visitor().get("/").await?.set_cookie("limpet-session").is_some());
    assert!(!site.envoy.admin_text("/config_dump").await?.contains(TEST_KEY));
    assert!(!site.envoy.log()?.contains(TEST_KEY));
    Ok(())
}

#[tokio::test]
async fn envoys_with_the_same_key_honour_each_others_tokens() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    let first = site.visitor().get("/").await?;
    let pair = first.set_cookie("limpet-session").context("no cookie")?.pair();
    let other = Envoy::serve(Config::load("cookie.yaml")?.backends(&site.backends)).await?;
    for _ in 0..6 {
        assert_eq!(other.get("/").cookie(&pair).send().await?.backend(), first.backend());
    }
    Ok(())
}

#[tokio::test]
async fn a_missing_key_variable_is_an_error_that_names_it() -> Result<()> {
    let (accepted, said) = Envoy::validate(&Config::load("cookie.yaml")?.without_env("LIMPET_KEY")).await?;
    assert!(!accepted);
    assert!(said.contains("keys[0].env") && said.contains("LIMPET_KEY"), "{said}");
    Ok(())
}

#[tokio::test]
async fn an_invalid_key_is_an_error_that_does_not_show_it() -> Result<()> {
    let (accepted, said) = Envoy::validate(&Config::load("cookie.yaml")?.env("LIMPET_KEY", "dG9vIHNob3J0")).await?;
    assert!(!accepted);
    assert!(said.contains("keys[0]"), "{said}");
    assert!(!said.contains("dG9vIHNob3J0"), "{said}");
    Ok(())
}

/// Two workers and the main thread each configure the filter. There must be only one warning.
#[tokio::test]
async fn an_inline_key_warns_once() -> Result<()> {
    // A VM warns once.
    let site = Site::start(Config::load("inline-key.yaml")?.alone()).await?;
    for _ in 0..20 {
        assert_eq!(site.visitor().get("/").await?.status, 200);
    }
    let log = site.envoy.log()?;
    let warnings: Vec<_> = log
        .lines()
        .filter(|line| line.contains("[warning]") && line.contains("inline"))
        .collect();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(warnings[0].contains("key 1"), "{warnings:?}");
    Ok(())
}

#[tokio::test]
async fn a_key_from_the_environment_does_not_warn() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    site.visitor().get("/").await?;
    assert!(
        !site
            .envoy
            .log()?
            .lines()
            .any(|line| line.contains("[warning]") && line.contains("limpet:"))
    );
    Ok(())
}

#[tokio::test]
async fn two_filters_with_different_keys_on_one_envoy_do_not_mix() -> Result<()> {
    let mine = filter(&json!([{"id": 1, "env": "LIMPET_KEY_1"}]));
    let theirs = filter(&json!([{"id": 1, "env": "LIMPET_KEY_2"}]));
    let config = Config::load("two-keys.yaml")?
        .filter(&mine)
        .another_listener("second", &theirs);
    let site = Site::start(config).await?;
    let addresses = [site.envoy.address(), site.envoy.listener("second")?];
    let mut cookies = Vec::new();
    for address in addresses {
        let answer = Request::get(address, "/").send().await?;
        let pair = answer.set_cookie("limpet-session").context("no cookie")?.pair();
        cookies.push((pair, answer.backend().map(str::to_owned)));
    }
    for (index, address) in addresses.into_iter().enumerate() {
        for _ in 0..6 {
            let (own, backend) = &cookies[index];
            let answer = Request::get(address, "/").cookie(own).send().await?;
            assert_eq!(answer.backend(), backend.as_deref());
            assert!(answer.set_cookies().is_empty());
            let (foreign, _) = &cookies[1 - index];
            let answer = Request::get(address, "/").cookie(foreign).send().await?;
            assert!(
                answer.set_cookie("limpet-session").is_some(),
                "a token of the other filter was honoured"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn phase_1_the_new_key_verifies_and_the_old_one_signs() -> Result<()> {
    let keys = json!([
        {"id": 1, "env": "LIMPET_KEY_1"},
        {"id": 2, "env": "LIMPET_KEY_2", "state": "verifying"},
    ]);
    let (site, envoy) = change_of_keys(&keys).await?;
    let mut visitor = Visitor::new(&envoy);
    visitor.get("/").await?;
    assert_eq!(key_of(visitor.cookie("limpet-session").context("no cookie")?)?, 1);

    // An Envoy in phase 2 already signs with key 2.
    let ahead = filter(&json!([{"id": 2, "env": "LIMPET_KEY_2"}]));
    let ahead = Envoy::serve(Config::load("two-keys.yaml")?.filter(&ahead).backends(&site.backends)).await?;
    assert_session_moves_on_unchanged(&ahead, &envoy).await
}

#[tokio::test]
async fn phase_2_the_new_key_signs_and_the_old_one_verifies() -> Result<()> {
    let keys = json!([
        {"id": 1, "env": "LIMPET_KEY_1", "state": "verifying"},
        {"id": 2, "env": "LIMPET_KEY_2"},
    ]);
    let (site, envoy) = change_of_keys(&keys).await?;
    let mut visitor = Visitor::new(&envoy);
    visitor.get("/").await?;
    assert_eq!(key_of(visitor.cookie("limpet-session").context("no cookie")?)?, 2);
    assert_session_moves_on_unchanged(&site.envoy, &envoy).await
}

/// Checks that a session that began at one Envoy continues at another with the same token. Envoys in different phases
/// of a rotation must not rewrite each other's tokens.
async fn assert_session_moves_on_unchanged(from: &Envoy, to: &Envoy) -> Result<()> {
    let first = from.get("/").send().await?;
    let pair = first.set_cookie("limpet-session").context("no cookie")?.pair();
    for _ in 0..6 {
        let answer = to.get("/").cookie(&pair).send().await?;
        assert_eq!(answer.backend(), first.backend());
        assert!(answer.set_cookies().is_empty(), "the token was replaced");
    }
    Ok(())
}

#[tokio::test]
async fn phase_3_tokens_of_a_retiring_key_are_honoured_and_replaced() -> Result<()> {
    let before = filter(&json!([{"id": 1, "env": "LIMPET_KEY_1"}]));
    let site = Site::start(Config::load("two-keys.yaml")?.filter(&before)).await?;
    let first = site.envoy.get("/").send().await?;
    let old = first.set_cookie("limpet-session").context("no cookie")?;
    assert_eq!(key_of(&old.value)?, 1);

    let envoy = Envoy::serve(Config::load("two-keys.yaml")?.backends(&site.backends)).await?;
    let answer = envoy.get("/").cookie(old.pair()).send().await?;
    assert_eq!(answer.backend(), first.backend());
    let new = answer
        .set_cookie("limpet-session")
        .context("the token was not replaced")?;
    assert_eq!(key_of(&new.value)?, 2);
    assert_eq!(envoy.metric("web.renewed").await?, 1);

    let answer = envoy.get("/").cookie(new.pair()).send().await?;
    assert_eq!(answer.backend(), first.backend());
    assert!(answer.set_cookies().is_empty());
    Ok(())
}

#[tokio::test]
async fn a_removed_key_ends_its_sessions() -> Result<()> {
    let (site, envoy) = change_of_keys(&json!([{"id": 2, "env": "LIMPET_KEY_2"}])).await?;
    let old = site
        .envoy
        .get("/")
        .send()
        .await?
        .set_cookie("limpet-session")
        .context("no cookie")?;
    let answer = envoy.get("/").cookie(old.pair()).send().await?;
    assert!(answer.set_cookie("limpet-session").is_some());
    assert_eq!(envoy.metric("web.refused.unknown_key").await?, 1);
    Ok(())
}

/// A key with the same id and other bytes is another key.
#[tokio::test]
async fn a_key_is_its_bytes_and_not_its_id() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    let pair = site
        .envoy
        .get("/")
        .send()
        .await?
        .set_cookie("limpet-session")
        .context("no cookie")?
        .pair();
    let other = Envoy::serve(
        Config::load("cookie.yaml")?
            .env("LIMPET_KEY", OTHER_KEY)
            .backends(&site.backends),
    )
    .await?;
    other.get("/").cookie(pair).send().await?;
    assert_eq!(other.metric("web.refused.bad_signature").await?, 1);
    Ok(())
}
