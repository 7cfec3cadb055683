use anyhow::{Result, ensure};
use limpet_e2e::kube::{Cluster, Release};
use limpet_e2e::poll;

use super::{ControlledSite, WEB};

/// `docs/how-to/rollouts.md`: drain, fail the readiness probe, end.
#[tokio::test]
async fn a_pod_that_first_stops_serving_fails_no_request() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let site = ControlledSite::start(cluster, "ending").await?;
    let pods = [
        site.namespace.pod("going-1", WEB).await?,
        site.namespace.pod("going-2", WEB).await?,
    ];
    let known = async |address: &str| {
        let clusters = site.envoy.admin().text("/clusters").await.ok()?;
        Some(clusters.contains(&format!("::{address}::")))
    };
    let until_known = async |address: &str, expected: bool| {
        let told = async || (known(address).await? == expected).then_some(());
        poll::until("Envoy to be told", told).await
    };
    for pod in &pods {
        until_known(&pod.address().to_string(), true).await?;
    }
    let crowd = site.crowd().await?;
    crowd.rounds(3).await?;
    for pod in pods {
        let (name, address) = (pod.name().to_owned(), pod.address().to_string());
        pod.drain().await?;
        crowd.rounds(5).await?;
        ensure!(
            known(&address).await == Some(true),
            "{name}: its sessions have moved already"
        );
        pod.report(false).await?;
        until_known(&address, false).await?;
        // Workers follow the main thread, and requests on their way end: a `preStop` hook waits longer.
        crowd.rounds(2).await?;
        pod.remove().await?;
        crowd.rounds(5).await?;
    }
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    let moves: Vec<_> = journeys.0.iter().flat_map(|journey| journey.moves()).collect();
    ensure!(!moves.is_empty(), "nobody had a session at the pods that ended");
    let left = moves.iter().filter(|(from, _)| !from.starts_with("going"));
    ensure!(left.count() == 0, "a session left a pod that stays: {moves:?}");
    Ok(())
}
