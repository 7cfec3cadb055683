//! How long tokens last if only the application renews them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use limpet_core::token::Unverified;
use limpet_e2e::{Build, Config, Envoy, Site};
use serde_json::json;

use super::*;
use crate::dynamic_module::takes_both;
use crate::keys::key_of;

/// The limit on sessions in [`until_they_end`].
const BOUND: Duration = Duration::from_secs(1);
/// The difference between Envoy's clock and the test's.
const CLOCKS: Duration = Duration::from_millis(10);

/// Uses a session of each mode until its token is refused for this reason, and checks that this happens at [`BOUND`]
/// and not before. The application gets its value in any case.
async fn until_they_end(config: Config, reason: &str) -> Result<()> {
    let site = Site::start(config).await?;
    for mode in Mode::ALL {
        let mut client = Client::new(&site.envoy, mode);
        let start = Instant::now();
        client.begin("abc").await?;
        let begun = Instant::now();
        let counter = format!("{}.refused.{reason}", mode.name());
        let (name, value) = mode.seen(client.kept()?, "abc");
        loop {
            let asked = begun.elapsed();
            let answer = client.get().await?;
            assert_eq!(answer.seen()?.all(name), [&*value], "{mode:?}");
            assert_eq!(
                mode.set_by(&answer),
                None,
                "{mode:?}: a token that the application did not ask for"
            );
            if site.envoy.metric(&counter).await? == 1 {
                break;
            }
            assert!(
                asked < BOUND + CLOCKS,
                "{mode:?}: the session did not end after {asked:?}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(start.elapsed() + CLOCKS > BOUND, "{mode:?}: it ended too early");
        client.begin("def").await?;
        client.token("def")?;
        assert_eq!(
            site.envoy.metric(&format!("{}.issued", mode.name())).await?,
            2,
            "{mode:?}: no new session began"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_session_ends_at_its_absolute_timeout() -> Result<()> {
    let config = every_mode(&json!({"absoluteTimeout": "1s"}))?;
    until_they_end(config, "expired").await
}

/// Without an absolute timeout, a session ends `maxIdle` after the application set it, even if it is used.
#[tokio::test]
async fn a_session_ends_with_max_idle_after_it_was_set() -> Result<()> {
    let mut filter = filter_of_every_mode(&json!({}));
    filter["maxIdle"] = "1s".into();
    until_they_end(every_mode(&json!({}))?.filter(&filter), "idle").await
}

/// If the application sets the session again at the same backend, its age still counts from the first token.
#[tokio::test]
async fn setting_a_session_again_does_not_extend_it() -> Result<()> {
    let site = Site::start(every_mode(&json!({"token": "signed", "absoluteTimeout": "1h"}))?).await?;
    for mode in Mode::ALL {
        let mut client = Client::new(&site.envoy, mode);
        let mut claims = Vec::new();
        for own in ["abc", "def"] {
            client.begin(own).await?;
            until_another_time().await;
            let token = Unverified::parse(client.token(own)?.as_bytes())?;
            claims.push(token.claims.context("the token cannot be opened")?);
        }
        assert_eq!(claims[0].host, claims[1].host, "{mode:?}");
        assert_eq!(claims[0].issued_at, claims[1].issued_at, "{mode:?}");
        assert!(claims[0].last_seen < claims[1].last_seen, "{mode:?}");
        assert_eq!(site.envoy.metric(&format!("{}.renewed", mode.name())).await?, 1);
    }
    Ok(())
}

/// Only the application replaces a retiring key's tokens, so the key must stay for verification.
#[tokio::test]
async fn a_retiring_keys_tokens_last_until_the_session_is_set_again() -> Result<()> {
    let with_keys = |keys: Value| {
        let mut filter = filter_of_every_mode(&json!({}));
        filter["keys"] = keys;
        anyhow::Ok(
            every_mode(&json!({}))?
                .filter_environment(&["LIMPET_KEY_1", "LIMPET_KEY_2"])
                .filter(&filter),
        )
    };
    let site = Site::start(with_keys(json!([{"id": 1, "env": "LIMPET_KEY_1"}]))?).await?;
    let keys = json!([{"id": 1, "env": "LIMPET_KEY_1", "state": "retiring"}, {"id": 2, "env": "LIMPET_KEY_2"}]);
    let retiring = Envoy::serve(with_keys(keys)?.backends(&site.backends)).await?;
    let without = json!([{"id": 2, "env": "LIMPET_KEY_2"}]);
    let without = Envoy::serve(with_keys(without)?.backends(&site.backends)).await?;
    for mode in Mode::ALL {
        let mut client = Client::new(&site.envoy, mode);
        let first = client.begin("abc").await?;
        client.at = retiring.address();
        client.assert_holds(first.backend(), "abc").await?;
        assert_eq!(key_of(client.token("abc")?)?, 1, "{mode:?}");

        // If the key is removed too early, the session ends. The application still gets its value.
        let mut early = Client {
            at: without.address(),
            ..client.clone()
        };
        let (name, value) = mode.seen(early.kept()?, "abc");
        assert_eq!(early.get().await?.seen()?.all(name), [&*value], "{mode:?}");
        assert_eq!(
            without.metric(&format!("{}.refused.unknown_key", mode.name())).await?,
            1,
            "{mode:?}"
        );

        let again = client.begin("def").await?;
        assert_eq!(again.backend(), first.backend(), "{mode:?}");
        assert_eq!(key_of(client.token("def")?)?, 2, "{mode:?}");
        client.at = without.address();
        client.assert_holds(first.backend(), "def").await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_session_continues_at_an_envoy_with_the_other_build() -> Result<()> {
    if !takes_both().await? {
        return Ok(());
    }
    let load = |build| anyhow::Ok(every_mode(&json!({}))?.build(build));
    let site = Site::start(load(Build::Wasm)?).await?;
    let module = Envoy::serve(load(Build::Module)?.backends(&site.backends)).await?;
    let envoys = [&site.envoy, &module];
    for mode in Mode::ALL {
        for (here, there) in [(0, 1), (1, 0)] {
            let mut client = Client::new(envoys[here], mode);
            let first = client.begin("a~b").await?;
            for envoy in [there, here, there] {
                client.at = envoys[envoy].address();
                client.assert_holds(first.backend(), "a~b").await?;
            }
            // The other Envoy renews the session, and the first one honours the new token.
            let again = client.begin("c").await?;
            assert_eq!(again.backend(), first.backend(), "{mode:?}");
            client.at = envoys[here].address();
            client.assert_holds(first.backend(), "c").await?;
        }
    }
    Ok(())
}
