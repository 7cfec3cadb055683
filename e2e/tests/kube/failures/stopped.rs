//! Stopped processes (SIGSTOP), as on a node that hangs: their connections stay without answers.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use limpet_e2e::kube::{Cluster, Controller, Release};
use limpet_e2e::poll;

use super::{ControlledSite, nothing_happened, objects, redirect};
use crate::clusters;
use crate::keyring::{SHORT_IDLE, replica};

/// Longer than a lease and the longest pause between two attempts.
const STOPPED: Duration = Duration::from_secs(50);

/// An unreleased Lease of 40 seconds, on a busy machine.
const REPLACED: Duration = Duration::from_secs(120);

pub(super) async fn until_leading(controller: &Controller) -> Result<()> {
    let begun = Instant::now();
    while controller.metric("limpet_leader").await? != "1" {
        ensure!(begun.elapsed() < REPLACED, "nobody leads: {}", controller.log()?);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

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
async fn a_stopped_leader_is_replaced_and_leads_no_more() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("stopped-leader").await?;
    let _pods = objects(&namespace).await?;
    let leader = replica(cluster, &namespace, "1m", SHORT_IDLE).await?;
    let follower = replica(cluster, &namespace, "1m", SHORT_IDLE).await?;
    let leads = async |controller: &Controller| controller.metric("limpet_leader").await;
    assert_eq!((&*leads(&leader).await?, &*leads(&follower).await?), ("1", "0"));
    leader.process()?.pause()?;
    until_leading(&follower).await?;
    leader.process()?.go_on()?;
    let resigned = async || leads(&leader).await.ok().filter(|leads| leads == "0");
    poll::until("the former leader to notice", resigned).await?;
    assert_eq!(leads(&follower).await?, "1");
    Ok(())
}

#[tokio::test]
async fn a_stopped_api_server_harms_no_session() -> Result<()> {
    let cluster = clusters::to_stop().await?;
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

/// Requests wait for a stopped Envoy, and are answered when it continues.
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
