//! Where keys come from, and how several work together.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use limpet_e2e::{Config, Envoy, Journeys, Request, Site};
use serde_json::{Value, json};

fn filter(keys: &Value) -> Value {
    json!({
        "keys": keys,
        "policies": {"web": {"cookie": {"name": "limpet-session"}}},
        "default": {"policy": "web", "scope": "default"},
    })
}

pub(crate) fn key_of(token: &str) -> Result<u8> {
    BASE64_URL_SAFE_NO_PAD
        .decode(token)?
        .get(1)
        .copied()
        .context("this is too short")
}

/// Checks that no session and no request was lost. Returns the keys of each client's tokens in order.
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

#[tokio::test]
async fn a_missing_key_variable_is_an_error_that_names_it() -> Result<()> {
    let (accepted, said) = Envoy::validate(&Config::load("cookie.yaml")?.without_env("LIMPET_KEY")).await?;
    assert!(!accepted);
    assert!(said.contains("keys[0].env") && said.contains("LIMPET_KEY"), "{said}");
    Ok(())
}

/// Two workers and the main thread each configure the filter.
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
