//! How long tokens last that only the application renews.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use limpet_core::token::Unverified;
use limpet_e2e::{Build, Config, Envoy, Site};
use serde_json::json;

use super::*;
use crate::dynamic_module::takes_both;
use crate::keys::key_of;

/// Of the sessions in [`until_they_end`].
const BOUND: Duration = Duration::from_secs(1);
/// Between Envoy's clock and that of the tests.
const CLOCKS: Duration = Duration::from_millis(10);

/// Uses a session of each mode until its token is refused for this reason, which it is from [`BOUND`] on and not before. The application's
/// value reaches it all the same.
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
            assert_eq!(mode.set_by(&answer), None, "{mode:?}: a token by itself");
            if site.envoy.metric(&counter).await? == 1 {
                break;
            }
            assert!(asked < BOUND + CLOCKS, "{mode:?}: it holds after {asked:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(start.elapsed() + CLOCKS > BOUND, "{mode:?}: it ended too early");
        client.begin("def").await?;
        client.token("def")?;
        assert_eq!(
            site.envoy.metric(&format!("{}.issued", mode.name())).await?,
            2,
            "{mode:?}: a new one begins"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_session_ends_with_its_absolute_timeout() -> Result<()> {
    let config = every_mode(&json!({"absoluteTimeout": "1s"}))?;
    until_they_end(config, "expired").await
}

/// Without an absolute timeout it ends that long after the application set it, however much it is used.
#[tokio::test]
async fn a_session_ends_with_max_idle_after_it_was_set() -> Result<()> {
    let mut filter = filter_of_every_mode(&json!({}));
    filter["maxIdle"] = "1s".into();
    until_they_end(every_mode(&json!({}))?.filter(&filter), "idle").await
}

/// Setting it again on the same backend goes on with the session: its age counts from the first token.
#[tokio::test]
async fn a_session_that_is_set_again_does_not_become_younger() -> Result<()> {
    let site = Site::start(every_mode(&json!({"token": "signed", "absoluteTimeout": "1h"}))?).await?;
    for mode in Mode::ALL {
        let mut client = Client::new(&site.envoy, mode);
        let mut claims = Vec::new();
        for own in ["abc", "def"] {
            client.begin(own).await?;
            let token = Unverified::parse(client.token(own)?.as_bytes())?;
            claims.push(token.claims.context("a sealed token")?);
        }
        assert_eq!(claims[0].host, claims[1].host, "{mode:?}");
        assert_eq!(claims[0].issued_at, claims[1].issued_at, "{mode:?}");
        assert!(claims[0].last_seen < claims[1].last_seen, "{mode:?}");
        assert_eq!(site.envoy.metric(&format!("{}.renewed", mode.name())).await?, 1);
    }
    Ok(())
}

/// Nothing replaces a token of a key that retires but the application, so the key verifies on.
#[tokio::test]
async fn a_retiring_keys_tokens_go_on_until_the_application_sets_its_session_again() -> Result<()> {
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
    let retiring = Envoy::start(with_keys(keys)?.backends(&site.backends)).await?;
    let without = json!([{"id": 2, "env": "LIMPET_KEY_2"}]);
    let without = Envoy::start(with_keys(without)?.backends(&site.backends)).await?;
    for mode in Mode::ALL {
        let mut client = Client::new(&site.envoy, mode);
        let first = client.begin("abc").await?;
        client.at = retiring.address();
        client.assert_holds(first.backend(), "abc").await?;
        assert_eq!(key_of(client.token("abc")?)?, 1, "{mode:?}");

        // Taken away too early, it ends the session; the application gets its value all the same.
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
async fn a_session_goes_on_at_an_envoy_with_the_other_build_and_comes_back() -> Result<()> {
    if !takes_both()? {
        return Ok(());
    }
    let load = |build| anyhow::Ok(every_mode(&json!({}))?.build(build));
    let site = Site::start(load(Build::Wasm)?).await?;
    let module = Envoy::start(load(Build::Module)?.backends(&site.backends)).await?;
    let envoys = [&site.envoy, &module];
    for mode in Mode::ALL {
        for (here, there) in [(0, 1), (1, 0)] {
            let mut client = Client::new(envoys[here], mode);
            let first = client.begin("a~b").await?;
            for envoy in [there, here, there] {
                client.at = envoys[envoy].address();
                client.assert_holds(first.backend(), "a~b").await?;
            }
            // The other one renews it, and the first one honours that.
            let again = client.begin("c").await?;
            assert_eq!(again.backend(), first.backend(), "{mode:?}");
            client.at = envoys[here].address();
            client.assert_holds(first.backend(), "c").await?;
        }
    }
    Ok(())
}
