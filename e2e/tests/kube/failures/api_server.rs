use std::time::{Duration, Instant};

use anyhow::Result;
use limpet_e2e::kube::Controller;
use limpet_e2e::poll;

use super::{ControlledSite, crowd, nothing_happened, objects, redirect, until_redirected, until_sessions};
use crate::clusters;

/// Longer than a lease, a call, and the longest pause between attempts.
const AWAY: Duration = Duration::from_secs(60);

#[tokio::test]
async fn an_absent_api_server_harms_no_session() -> Result<()> {
    let mut cluster = clusters::to_stop().await?;
    let site = ControlledSite::start(&cluster, "away").await?;
    site.until_programmed("True/Programmed").await?;
    let before = site.updates().await?;
    let crowd = site.crowd().await?;

    let address = format!("the API server at https://{}", cluster.server().address());
    let away = format!("cannot reach {address}: ");
    cluster.server_mut().stop();
    let gone = Instant::now();
    let noticed = async || {
        let log = site.controller.log().ok()?;
        let away = log.contains(&away);
        (away && log.contains("cannot watch; what was read last stays in use")).then_some(())
    };
    poll::until("the controller to notice", noticed).await?;
    while gone.elapsed() < AWAY {
        crowd.rounds(10).await?;
        assert_eq!(site.controller.page("/readyz").await?.status, 200);
    }
    // Said once for all requests meanwhile.
    let (log, again_at) = (site.controller.log()?, format!("{address} is reached again"));
    assert_eq!(log.matches(&away).count(), 1, "{log}");
    assert!(!log.contains(&again_at), "{log}");
    cluster.server_mut().start_again().await?;
    let again = async || {
        let log = site.controller.log().ok()?;
        (log.contains("watching again") && log.contains(&again_at)).then_some(())
    };
    poll::until("the controller to watch again", again).await?;
    assert_eq!(site.updates().await?, before, "Envoy got a new configuration");
    let log = site.controller.log()?;
    assert!(!log.contains("kube_client"), "{log}");

    site.namespace.apply(&redirect("later")).await?;
    site.until_redirected("/later").await?;
    nothing_happened(crowd).await
}

/// A watch that cannot continue misses deletions, so it must begin with a list.
#[tokio::test]
async fn deletions_while_a_watch_expires_are_noticed() -> Result<()> {
    let mut cluster = clusters::to_stop().await?;
    let namespace = cluster.namespace("expired").await?;
    let _pods = objects(&namespace).await?;
    namespace.apply(&redirect("gone")).await?;
    let mut controller = Controller::prepare(cluster.server(), &namespace, |_| ()).await?;
    controller.environment("RUST_LOG", "info,limpet::cluster::kube=debug");
    controller.launch()?;
    controller.until_ready().await?;
    let mut envoy = controller.envoy("web", "one").await?;
    envoy.until_ready().await?;
    until_sessions(&controller).await?;
    until_redirected(&controller, "/gone", true).await?;
    let crowd = crowd(&controller).await?;

    // The watches' connections end before any event, and the API server has forgotten their versions.
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
