use anyhow::Result;
use limpet_e2e::kube::{Cluster, Release};

use super::{ControlledSite, nothing_happened, redirect, until_connected};

#[tokio::test]
async fn a_killed_controller_changes_nothing_when_it_is_back() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let mut site = ControlledSite::start(cluster, "killed").await?;
    site.until_programmed("True/Programmed").await?;
    let before = site.updates().await?;
    assert!(before.len() > 5, "{before:?}");
    let crowd = site.crowd().await?;

    site.controller.kill();
    crowd.rounds(5).await?;
    site.controller.launch()?;
    site.controller.until_ready().await?;
    until_connected(&site).await?;
    crowd.rounds(5).await?;
    assert_eq!(site.updates().await?, before, "Envoy got a new configuration");

    // Changes without a controller arrive when there is one again.
    site.controller.kill();
    site.namespace.apply(&redirect("meanwhile")).await?;
    site.controller.launch()?;
    site.controller.until_ready().await?;
    site.until_redirected("/meanwhile").await?;
    until_connected(&site).await?;
    let after = site.updates().await?;
    for (name, count) in before
        .iter()
        .filter(|(name, _)| name.contains("listener") || name.contains("cluster"))
    {
        assert_eq!(
            after.get(name),
            Some(count),
            "{name} changed, though only routes should"
        );
    }
    assert_ne!(after, before);
    nothing_happened(crowd).await
}
