//! All backends are replaced while clients send requests.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use limpet_e2e::{Answering, Backend, Carrier, Config, Crowd, Envoy};
use serde_json::json;

use super::{moved_only_where_it_had_to, retire};

/// Slow backends, so that many requests are unfinished at every moment.
fn generation(name: &str) -> Result<Vec<Backend>> {
    let start = |number| {
        let backend = Backend::start(&format!("{name}-{number}"))?;
        backend.answer(Answering::ok().after(Duration::from_millis(20)));
        Ok(backend)
    };
    (1..=4).map(start).collect()
}

async fn start(backends: &[Backend]) -> Result<(Envoy, Crowd)> {
    let config = Config::load("draining.yaml")?.both_carriers(&json!({}));
    let envoy = Envoy::serve(config.backends(backends)).await?;
    let crowd = Crowd::gather(24, &Carrier::ALL, &[envoy.address()]).await?;
    Ok((envoy, crowd))
}

#[tokio::test]
async fn replacing_backends_one_by_one_fails_no_request() -> Result<()> {
    let mut serving = generation("old")?;
    let (mut envoy, crowd) = start(&serving).await?;
    let mut taken_out = BTreeMap::new();
    for new in generation("new")? {
        serving.push(new);
        envoy.update(|config| config.backends(&serving))?;
        let mut old = serving.remove(0);
        envoy.update(|config| config.health(old.address(), "DRAINING"))?;
        crowd.rounds(1).await?;
        taken_out.insert(old.name().to_owned(), Instant::now());
        envoy.update(|config| config.backends(&serving))?;
        retire(&mut old, &crowd).await?;
    }
    crowd.rounds(2).await?;
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    for journey in &journeys.0 {
        let moves = moved_only_where_it_had_to(journey, &taken_out)?;
        ensure!(moves >= 1, "a session did not leave its old backend");
    }
    Ok(())
}

/// No backend drains: one change replaces all.
#[tokio::test]
async fn replacing_all_backends_at_once_fails_no_request() -> Result<()> {
    let old = generation("old")?;
    let (mut envoy, crowd) = start(&old).await?;
    let new = generation("new")?;
    let now = Instant::now();
    let taken_out: BTreeMap<_, _> = old.iter().map(|backend| (backend.name().to_owned(), now)).collect();
    envoy.update(|config| config.backends(&new))?;
    for mut backend in old {
        retire(&mut backend, &crowd).await?;
    }
    crowd.rounds(2).await?;
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    for journey in &journeys.0 {
        assert_eq!(moved_only_where_it_had_to(journey, &taken_out)?, 1);
    }
    Ok(())
}
