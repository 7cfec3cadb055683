//! All backends are replaced while the clients keep coming.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use limpet_e2e::{Answering, Backend, Carrier, Config, Crowd, Envoy, Journey};
use serde_json::json;

/// Backends that take their time, so that at every moment many requests are on their way.
fn generation(name: &str) -> Result<Vec<Backend>> {
    let start = |number| {
        let backend = Backend::start(&format!("{name}-{number}"))?;
        backend.answer(Answering::ok().after(Duration::from_millis(20)));
        Ok(backend)
    };
    (1..=4).map(start).collect()
}

/// Waits until no more requests come to a backend that was taken out, and stops it, as a pod's preStop hook does.
async fn retire(mut backend: Backend, crowd: &Crowd) -> Result<()> {
    loop {
        let before = backend.requests();
        crowd.rounds(1).await?;
        if backend.requests() == before {
            backend.stop().await;
            return Ok(());
        }
    }
}

/// A session moved when its backend had been taken out, and at no other time; each move, and nothing else, brought a new token; and in the end
/// it is on a backend that is still there.
fn moved_only_where_it_had_to(journey: &Journey, taken_out: &BTreeMap<String, Instant>) -> Result<usize> {
    let mut with_token = vec![journey.visits[0].begun];
    let mut left = Vec::new();
    for (from, visit) in journey.moves() {
        let gone = taken_out.get(from).is_some_and(|since| *since <= visit.ended);
        ensure!(gone, "a session left {from}, which was there: {visit:#?}");
        ensure!(!left.contains(&from), "a session came back to {from}: {journey:#?}");
        left.push(from);
        with_token.push(visit.begun);
    }
    let tokens: Vec<_> = journey.tokens().iter().map(|visit| visit.begun).collect();
    ensure!(
        tokens == with_token,
        "tokens without moves, or moves without: {journey:#?}"
    );
    let last = journey.visits.last().and_then(|visit| visit.backend());
    ensure!(
        last.is_some_and(|last| !taken_out.contains_key(last)),
        "{last:?} is gone"
    );
    Ok(left.len())
}

async fn start(backends: &[Backend]) -> Result<(Envoy, Crowd)> {
    let config = Config::load("draining.yaml")?.both_carriers(&json!({}));
    let envoy = Envoy::start(config.backends(backends)).await?;
    let crowd = Crowd::gather(24, &Carrier::ALL, &[envoy.address()]).await?;
    Ok((envoy, crowd))
}

#[tokio::test]
async fn one_after_the_other() -> Result<()> {
    let mut serving = generation("old")?;
    let (mut envoy, crowd) = start(&serving).await?;
    let mut taken_out = BTreeMap::new();
    for new in generation("new")? {
        serving.push(new);
        envoy.update(|config| config.backends(&serving))?;
        let old = serving.remove(0);
        envoy.update(|config| config.health(old.address(), "DRAINING"))?;
        crowd.rounds(1).await?;
        taken_out.insert(old.name().to_owned(), Instant::now());
        envoy.update(|config| config.backends(&serving))?;
        retire(old, &crowd).await?;
    }
    crowd.rounds(2).await?;
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    for journey in &journeys.0 {
        let moves = moved_only_where_it_had_to(journey, &taken_out)?;
        ensure!(moves >= 1, "somebody is still on an old backend");
    }
    Ok(())
}

/// Nobody drains first: the old ones are out when the new ones are in.
#[tokio::test]
async fn all_at_once() -> Result<()> {
    let old = generation("old")?;
    let (mut envoy, crowd) = start(&old).await?;
    let new = generation("new")?;
    let now = Instant::now();
    let taken_out: BTreeMap<_, _> = old.iter().map(|backend| (backend.name().to_owned(), now)).collect();
    envoy.update(|config| config.backends(&new))?;
    for backend in old {
        retire(backend, &crowd).await?;
    }
    crowd.rounds(2).await?;
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    for journey in &journeys.0 {
        assert_eq!(moved_only_where_it_had_to(journey, &taken_out)?, 1);
    }
    Ok(())
}
