//! Tokens that are refused: the request is load-balanced, a new session begins, and the reason is counted.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use limpet_e2e::{Config, Envoy, Site, filter_with, poll};
use serde_json::{Value, json};

/// A site, and one of its tokens.
async fn site_and_token() -> Result<(Site, String)> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    let token = site
        .visitor()
        .get("/")
        .await?
        .set_cookie("limpet-session")
        .context("no cookie was set")?
        .value;
    Ok((site, token))
}

/// Sends the token, and checks that it is refused for this reason and that a new session begins.
async fn assert_refused(envoy: &Envoy, token: &str, reason: &str) -> Result<()> {
    let counter = format!("web.refused.{reason}");
    let before = envoy.metric(&counter).await?;
    let answer = envoy.get("/").cookie(format!("limpet-session={token}")).send().await?;
    assert_eq!(answer.status, 200);
    assert!(
        answer.set_cookie("limpet-session").is_some(),
        "no new session began ({reason})"
    );
    assert_eq!(
        envoy.metric(&counter).await? - before,
        1,
        "{token:?} is not refused as {reason}"
    );
    assert_eq!(envoy.metric("web.steered").await?, 0);
    Ok(())
}

/// The token with changed bytes.
fn changed(token: &str, change: impl FnOnce(&mut Vec<u8>)) -> Result<String> {
    let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(token)?;
    change(&mut bytes);
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

#[tokio::test]
async fn a_text_that_is_not_a_token_is_refused() -> Result<()> {
    let (site, token) = site_and_token().await?;
    for wrong in [
        "",
        "x",
        "not a token",
        "AAAA",
        &token[..8],
        &format!("{token}="),
        &token.repeat(40),
    ] {
        assert_refused(&site.envoy, wrong, "malformed").await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_token_of_an_unknown_key_is_refused() -> Result<()> {
    let (site, token) = site_and_token().await?;
    assert_refused(&site.envoy, &changed(&token, |bytes| bytes[1] = 7)?, "unknown_key").await
}

#[tokio::test]
async fn a_token_with_its_last_byte_changed_is_refused() -> Result<()> {
    let (site, token) = site_and_token().await?;
    let last = BASE64_URL_SAFE_NO_PAD.decode(&token)?.len() - 1;
    assert_refused(
        &site.envoy,
        &changed(&token, |bytes| bytes[last] ^= 1)?,
        "bad_signature",
    )
    .await
}

#[tokio::test]
async fn a_token_with_any_bit_flipped_is_refused() -> Result<()> {
    let (site, token) = site_and_token().await?;
    let bits = BASE64_URL_SAFE_NO_PAD.decode(&token)?.len() * 8;
    for bit in 0..bits {
        let forged = changed(&token, |bytes| bytes[bit / 8] ^= 1 << (bit % 8))?;
        let answer = site
            .envoy
            .get("/")
            .cookie(format!("limpet-session={forged}"))
            .send()
            .await?;
        assert!(
            answer.set_cookie("limpet-session").is_some(),
            "bit {bit} is not protected"
        );
    }
    assert_eq!(site.envoy.metric("web.steered").await?, 0);
    Ok(())
}

/// A second Envoy in front of the same backends, with another configuration of the filter.
async fn another_envoy(site: &Site, filter: &Value) -> Result<Envoy> {
    Envoy::serve(Config::load("cookie.yaml")?.filter(filter).backends(&site.backends)).await
}

fn unix_seconds() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

#[tokio::test]
async fn a_token_for_a_fenced_address_is_refused() -> Result<()> {
    let (site, token) = site_and_token().await?;
    let mut filter = filter_with(&json!({"cookie": {"name": "limpet-session"}}));
    filter["fences"] = json!([{"address": "127.0.0.1", "notBefore": unix_seconds()? + 3600}]);
    assert_refused(&another_envoy(&site, &filter).await?, &token, "fenced").await
}

#[tokio::test]
async fn a_fence_spares_tokens_for_other_addresses() -> Result<()> {
    let (site, token) = site_and_token().await?;
    let mut filter = filter_with(&json!({"cookie": {"name": "limpet-session"}}));
    let not_before = unix_seconds()? + 3600;
    filter["fences"] = json!([
        {"address": "127.0.0.2", "notBefore": not_before},
        {"address": "127.0.0.1:1", "notBefore": not_before},
    ]);
    let envoy = another_envoy(&site, &filter).await?;
    envoy.get("/").cookie(format!("limpet-session={token}")).send().await?;
    assert_eq!(envoy.metric("web.steered").await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_fence_spares_tokens_of_the_new_owner() -> Result<()> {
    let (site, token) = site_and_token().await?;
    let mut filter = filter_with(&json!({"cookie": {"name": "limpet-session"}}));
    filter["fences"] = json!([{"address": "127.0.0.1", "notBefore": unix_seconds()? - 3600}]);
    let envoy = another_envoy(&site, &filter).await?;
    envoy.get("/").cookie(format!("limpet-session={token}")).send().await?;
    assert_eq!(envoy.metric("web.steered").await?, 1);
    Ok(())
}

/// As if the clock of whoever wrote it were an hour ahead.
#[tokio::test]
async fn a_fence_ahead_of_the_clock_lets_new_sessions_live() -> Result<()> {
    let (site, token) = site_and_token().await?;
    let mut filter = filter_with(&json!({"cookie": {"name": "limpet-session"}}));
    filter["clockSkew"] = "2s".into();
    let ahead = json!({"address": "127.0.0.1", "notBefore": unix_seconds()? + 3600});
    filter["fences"] = json!([ahead]);
    let config = Config::load("ecds.yaml")?.filter(&filter).backends(&site.backends);
    let mut envoy = Envoy::serve(config).await?;
    assert_refused(&envoy, &token, "fenced").await?;
    let stays = async |envoy: &Envoy, token: &str| {
        let cookie = format!("limpet-session={token}");
        for _ in 0..20 {
            let answer = envoy.get("/").cookie(cookie.clone()).send().await?;
            ensure!(
                answer.set_cookie("limpet-session").is_none(),
                "the session has begun anew"
            );
        }
        anyhow::Ok(())
    };
    let young = poll::until("a session that lasts", async || {
        let answer = envoy.get("/").send().await.ok()?;
        let token = answer.set_cookie("limpet-session")?.value;
        stays(&envoy, &token).await.ok().map(|()| token)
    })
    .await?;
    assert!(
        envoy
            .log()?
            .contains("fences[0].notBefore: expected a time at most 2s (clockSkew) from now")
    );

    // Nor does it begin anew with the next configuration.
    filter["fences"] = json!([ahead, {"address": "127.0.0.2", "notBefore": 1}]);
    let reloads = "extension_config_discovery.http_filter.limpet.config_reload";
    let before = envoy.stat(reloads).await?;
    envoy.update(|config| config.filter(&filter))?;
    envoy.until_stat(reloads, before + 1).await?;
    stays(&envoy, &young).await?;
    ensure!(
        stays(&envoy, &token).await.is_err(),
        "the former owner's session goes on"
    );
    Ok(())
}

/// A strict session whose route now leads to another cluster could only fail, so it ends.
#[tokio::test]
async fn a_strict_token_for_another_cluster_is_refused() -> Result<()> {
    let policy = json!({"cookie": {"name": "limpet-session"}, "strict": true});
    let config = || anyhow::Ok(Config::load("cookie.yaml")?.policy(&policy).strict_routes());
    let site = Site::start(config()?).await?;
    let token = site
        .visitor()
        .get("/")
        .await?
        .set_cookie("limpet-session")
        .context("no cookie was set")?
        .value;
    let elsewhere = config()?
        .another_cluster("elsewhere", &site.backends)
        .route(&json!({"route": {"cluster": "elsewhere"}}));
    let envoy = Envoy::serve(elsewhere.backends(&site.backends)).await?;
    assert_refused(&envoy, &token, "unknown_destination").await
}

#[tokio::test]
async fn a_token_of_another_cookie_name_is_refused() -> Result<()> {
    let (site, token) = site_and_token().await?;
    let envoy = another_envoy(&site, &filter_with(&json!({"cookie": {"name": "other"}}))).await?;
    envoy.get("/").cookie(format!("other={token}")).send().await?;
    assert_eq!(envoy.metric("web.refused.bad_signature").await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_stale_token_does_not_hide_a_good_one() -> Result<()> {
    let (site, token) = site_and_token().await?;
    let forged = changed(&token, |bytes| bytes[20] ^= 1)?;
    let answer = site
        .envoy
        .get("/")
        .cookie(format!("limpet-session={forged}; limpet-session={token}"))
        .send()
        .await?;
    assert!(answer.set_cookies().is_empty());
    assert_eq!(site.envoy.metric("web.steered").await?, 1);
    Ok(())
}
