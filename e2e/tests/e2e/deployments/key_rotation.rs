//! A key rotation while clients use two Envoys in turn, one of which is a phase ahead.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Carrier, Config, Crowd, Envoy, Journey, Site, filter_with_both};
use serde_json::{Value, json};

use crate::keys::keys_without_loss;

const RETIRING: usize = 3;

/// Before the rotation, in the three phases of `docs/reference/configuration.md`, and after it.
fn filter(phase: usize) -> Value {
    let key = |id: u8, state| json!({"id": id, "env": format!("LIMPET_KEY_{id}"), "state": state});
    // Cache-Control differs between a phase and the one before it.
    let cache_control = if phase.is_multiple_of(2) { "private" } else { "keep" };
    let mut filter = filter_with_both(&json!({"cacheControl": cache_control}));
    filter["default"] = json!({"policy": "cookie"});
    filter["keys"] = match phase {
        0 => json!([key(1, "signing")]),
        1 => json!([key(1, "signing"), key(2, "verifying")]),
        2 => json!([key(1, "verifying"), key(2, "signing")]),
        RETIRING => json!([key(1, "retiring"), key(2, "signing")]),
        _ => json!([key(2, "signing")]),
    };
    filter
}

async fn advance(envoy: &mut Envoy, phase: usize) -> Result<()> {
    envoy.update(|config| config.filter(&filter(phase)))?;
    envoy
        .until_every_worker(&format!("is in phase {phase}"), |answer| {
            answer.header("cache-control").is_some() == phase.is_multiple_of(2)
        })
        .await
}

/// Checks that tokens are replaced no sooner than their key retires.
fn none_renewed_before(journey: &Journey, retiring: Instant) -> Result<()> {
    let renewed_early = journey.tokens().iter().skip(1).any(|visit| visit.ended < retiring);
    ensure!(!renewed_early, "a token was replaced before its key retired");
    Ok(())
}

#[tokio::test]
async fn a_rotation_loses_no_session_and_rewrites_each_token_once() -> Result<()> {
    let config = Config::load("ecds.yaml")?
        .both_carriers(&json!({}))
        .filter_environment(&["LIMPET_KEY_1", "LIMPET_KEY_2"])
        .filter(&filter(0));
    let Site { backends, envoy } = Site::start(config.clone()).await?;
    let mut envoys = [envoy, Envoy::serve(config.backends(&backends)).await?];
    let addresses = [envoys[0].address(), envoys[1].address()];
    let mut crowd = Crowd::gather(12, &Carrier::ALL, &addresses).await?;
    let mut retiring = None;
    for phase in 1..=4 {
        if phase == RETIRING {
            retiring = Some(Instant::now());
        }
        advance(&mut envoys[0], phase).await?;
        crowd.grow(12, &Carrier::ALL, &addresses).await?;
        crowd.rounds(4).await?;
        advance(&mut envoys[1], phase).await?;
        crowd.rounds(4).await?;
    }
    let retiring = retiring.context("no key retired")?;
    let journeys = crowd.leave().await;
    // Tokens were replaced, or under the new key from the beginning.
    assert_eq!(keys_without_loss(&journeys)?, BTreeSet::from([vec![1, 2], vec![2]]));
    for journey in &journeys.0 {
        none_renewed_before(journey, retiring)?;
    }
    for envoy in &envoys {
        let refused = envoy.stats("limpet.*refused").await?;
        ensure!(refused.values().all(|count| *count == 0), "{refused:#?}");
    }
    Ok(())
}
