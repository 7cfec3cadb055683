//! The API server fails.

use std::time::{Duration, Instant};

use anyhow::Result;
use limpet_e2e::kube::{Cluster, Release};
use limpet_e2e::poll;

use super::{Scene, crowd, nothing_happened, objects, redirect, until_redirected, until_sessions};

/// Longer than everything that waits for it with a pause of its own: a lease, a call, the longest pause between attempts.
const AWAY: Duration = Duration::from_secs(60);

#[tokio::test]
async fn an_api_server_that_is_away_harms_no_session() -> Result<()> {
    let mut cluster = Cluster::start(&Release::V1_2_1.definitions()?).await?;
    let scene = Scene::start(&cluster, "away").await?;
    scene.until_programmed("True/Programmed").await?;
    let before = scene.updates().await?;
    let crowd = scene.crowd().await?;

    cluster.server_mut().stop();
    let gone = Instant::now();
    let noticed = async || {
        let log = scene.controller.log().ok()?;
        let kinds = log.contains("cannot ask the API server which kinds it serves");
        (kinds && log.contains("cannot watch; what was read last stays in use")).then_some(())
    };
    poll::until("the controller to notice", noticed).await?;
    while gone.elapsed() < AWAY {
        crowd.rounds(10).await?;
        assert_eq!(scene.controller.page("/readyz").await?.status, 200);
    }
    cluster.server_mut().start_again().await?;
    let again = async || scene.controller.log().ok()?.contains("watching again").then_some(());
    poll::until("the controller to watch again", again).await?;
    assert_eq!(scene.updates().await?, before, "nothing had changed");

    scene.namespace.apply(&redirect("later")).await?;
    scene.until_redirected("/later").await?;
    nothing_happened(crowd).await
}

/// A watch that can not go on where it was misses what was deleted meanwhile: it has to begin with a list.
#[tokio::test]
async fn what_is_deleted_while_a_watch_expires_is_noticed() -> Result<()> {
    let mut cluster = Cluster::start(&Release::V1_2_1.definitions()?).await?;
    let namespace = cluster.namespace("expired").await?;
    let _pods = objects(&namespace).await?;
    namespace.apply(&redirect("gone")).await?;
    let mut controller = limpet_e2e::kube::Controller::prepare(cluster.server(), &namespace, |_| ()).await?;
    controller.environment("RUST_LOG", "info,limpet::cluster::kube=debug");
    controller.launch()?;
    controller.until_ready().await?;
    let mut envoy = controller.envoy("web", "one").await?;
    envoy.until_ready().await?;
    until_sessions(&controller).await?;
    until_redirected(&controller, "/gone", true).await?;
    let crowd = crowd(&controller).await?;

    // The watches' connections end before there is anything to tell, and what they missed is older than all that the API server remembers.
    controller.process()?.pause()?;
    cluster.server_mut().stop();
    cluster.server_mut().start_again().await?;
    namespace.delete("HTTPRoute", "gone").await?;
    namespace.apply(&redirect("new")).await?;
    cluster.server_mut().stop();
    cluster.server_mut().start_again().await?;
    controller.process()?.go_on()?;

    until_redirected(&controller, "/new", true).await?;
    until_redirected(&controller, "/gone", false).await?;
    let log = controller.log()?;
    assert!(log.contains("too old resource version"), "no watch has expired: {log}");
    nothing_happened(crowd).await
}
