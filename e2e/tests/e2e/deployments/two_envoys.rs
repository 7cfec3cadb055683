//! Two Envoys with the same backends and keyring serve the same sessions.

use anyhow::Result;
use limpet_e2e::{Backend, Build, Carrier, Config, Crowd, Envoy};
use serde_json::json;

use crate::dynamic_module::takes_both;

async fn sessions_go_on_at_either(builds: [Build; 2]) -> Result<()> {
    let backends = Backend::three()?;
    let config = Config::load("cookie.yaml")?
        .both_carriers(&json!({}))
        .backends(&backends);
    let start = |build| Envoy::serve(config.clone().build(build));
    let envoys = [start(builds[0]).await?, start(builds[1]).await?];
    let crowd = Crowd::gather(24, &Carrier::ALL, &[envoys[0].address(), envoys[1].address()]).await?;
    crowd.rounds(10).await?;
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.none_moved()?;
    for envoy in &envoys {
        let issued = envoy.stats("limpet.*issued$").await?;
        assert!(issued.values().sum::<u64>() >= 6, "{issued:?}");
    }
    Ok(())
}

#[tokio::test]
async fn envoys_of_the_same_build_share_sessions() -> Result<()> {
    sessions_go_on_at_either([Build::tested()?; 2]).await
}

#[tokio::test]
async fn envoys_of_different_builds_share_sessions() -> Result<()> {
    if takes_both().await? {
        sessions_go_on_at_either([Build::Wasm, Build::Module]).await?;
    }
    Ok(())
}
