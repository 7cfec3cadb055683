//! The controller itself fails.

use anyhow::Result;
use limpet_e2e::kube::{Cluster, Release};
use limpet_e2e::poll;

use super::{Scene, nothing_happened, redirect};

#[tokio::test]
async fn a_controller_that_is_killed_changes_nothing_when_it_is_back() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let mut scene = Scene::start(cluster, "killed").await?;
    scene.until_programmed("True/Programmed").await?;
    let before = scene.updates().await?;
    assert!(before.len() > 5, "{before:?}");
    let crowd = scene.crowd().await?;

    scene.controller.kill();
    crowd.rounds(5).await?;
    scene.controller.launch()?;
    scene.controller.until_ready().await?;
    until_connected(&scene).await?;
    crowd.rounds(5).await?;
    assert_eq!(scene.updates().await?, before, "nothing had changed");

    // What changes while nobody is there arrives when somebody is.
    scene.controller.kill();
    scene.namespace.apply(&redirect("meanwhile")).await?;
    scene.controller.launch()?;
    scene.controller.until_ready().await?;
    scene.until_redirected("/meanwhile").await?;
    until_connected(&scene).await?;
    let after = scene.updates().await?;
    for (name, count) in before
        .iter()
        .filter(|(name, _)| name.contains("listener") || name.contains("cluster"))
    {
        assert_eq!(after.get(name), Some(count), "{name}: only routes had changed");
    }
    assert_ne!(after, before);
    nothing_happened(crowd).await
}

/// Waits until Envoy is connected and has all that it is to have.
async fn until_connected(scene: &Scene) -> Result<()> {
    let name = format!("limpet_clients{{gateway=\"{}/web\"}}", scene.namespace.name());
    let connected = async || scene.controller.metric(&name).await.ok().filter(|count| count == "1");
    poll::until("Envoy to come back", connected).await?;
    scene.until_programmed("True/Programmed").await.map(drop)
}
