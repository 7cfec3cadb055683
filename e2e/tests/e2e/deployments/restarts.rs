//! Sessions are in their tokens, so they survive a restart of Envoy.

use std::time::Instant;

use anyhow::{Result, ensure};
use limpet_e2e::{Backend, Carrier, Config, Crowd, Envoy, Site};
use serde_json::json;

fn config() -> Result<Config> {
    Ok(Config::load("cookie.yaml")?.both_carriers(&json!({})))
}

#[tokio::test]
async fn sessions_continue_after_a_crash() -> Result<()> {
    let Site {
        backends: _kept,
        mut envoy,
    } = Site::start(config()?.alone()).await?;
    let crowd = Crowd::gather(24, &Carrier::ALL, &[envoy.address()]).await?;
    let down = Instant::now();
    envoy.restart().await?;
    let up = Instant::now();
    crowd.rounds(3).await?;
    let journeys = crowd.leave().await;
    journeys.none_moved()?;
    let visits = || journeys.0.iter().flat_map(|journey| &journey.visits);
    for visit in visits().filter(|visit| visit.answer.is_err()) {
        let meanwhile = visit.begun < up && visit.ended > down;
        ensure!(meanwhile, "a request failed while Envoy was running: {visit:#?}");
    }
    ensure!(visits().all(|visit| visit.answer.as_ref().map_or(true, |answer| answer.0 == 200)));
    ensure!(
        visits().any(|visit| visit.answer.is_err()),
        "no request failed during the crash"
    );
    // The new process issued no token: it honoured the old ones.
    let issued = envoy.stats("limpet.*issued").await?;
    ensure!(
        !issued.is_empty() && issued.values().all(|count| *count == 0),
        "{issued:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_hot_restart_fails_no_request_and_moves_no_session() -> Result<()> {
    let backends = Backend::three()?;
    let config = config()?.quick_drain().backends(&backends);
    let mut envoy = Envoy::start_for_hot_restarts(config).await?;
    let (pid, address) = (envoy.pid(), envoy.address());
    let crowd = Crowd::gather(24, &Carrier::ALL, &[address]).await?;
    envoy.hot_restart().await?;
    ensure!(envoy.pid() != pid && envoy.address() == address);
    crowd.rounds(3).await?;
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.none_moved()
}
