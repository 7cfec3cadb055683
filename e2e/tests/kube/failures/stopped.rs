//! Processes that are stopped (SIGSTOP), as on a node that hangs: their connections stay, and nobody answers.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use limpet_e2e::kube::{Cluster, Release};

use super::{ControlledSite, nothing_happened, redirect};

/// Longer than a lease and the longest pause between two attempts.
const STOPPED: Duration = Duration::from_secs(50);

#[tokio::test]
async fn a_stopped_controller_harms_no_session() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let site = ControlledSite::start(cluster, "stopped").await?;
    site.until_programmed("True/Programmed").await?;
    let crowd = site.crowd().await?;
    site.controller.process()?.pause()?;
    site.namespace.apply(&redirect("meanwhile")).await?;
    let stopped = Instant::now();
    while stopped.elapsed() < STOPPED {
        crowd.rounds(5).await?;
    }
    site.controller.process()?.go_on()?;
    site.until_redirected("/meanwhile").await?;
    nothing_happened(crowd).await
}

#[tokio::test]
async fn a_stopped_api_server_harms_no_session() -> Result<()> {
    let cluster = Cluster::start(&Release::V1_2_1.definitions()?).await?;
    let site = ControlledSite::start(&cluster, "hangs").await?;
    site.until_programmed("True/Programmed").await?;
    let before = site.updates().await?;
    let crowd = site.crowd().await?;
    cluster.server().process()?.pause()?;
    let stopped = Instant::now();
    while stopped.elapsed() < STOPPED {
        crowd.rounds(5).await?;
        ensure!(site.controller.page("/readyz").await?.status == 200);
    }
    cluster.server().process()?.go_on()?;
    assert_eq!(site.updates().await?, before, "Envoy got a new configuration");
    site.namespace.apply(&redirect("later")).await?;
    site.until_redirected("/later").await?;
    nothing_happened(crowd).await
}

/// Requests wait for an Envoy that is stopped, and are answered when it goes on.
#[tokio::test]
async fn a_stopped_envoy_goes_on_with_its_sessions() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let site = ControlledSite::start(cluster, "stopped-envoy").await?;
    let crowd = site.crowd().await?;
    crowd.rounds(2).await?;
    site.envoy.process().pause()?;
    site.namespace.apply(&redirect("meanwhile")).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    site.envoy.process().go_on()?;
    site.until_redirected("/meanwhile").await?;
    nothing_happened(crowd).await
}
