//! Resources of every type arrive; afterwards only changes are sent.

use anyhow::Context as _;
use limpet_resources::ResourceType;

use super::*;

#[tokio::test]
async fn everything_arrives_and_then_only_changes() -> Result<()> {
    for api_type in BOTH {
        let site = XdsSite::new()?;
        let control_plane = ControlPlane::start().await?;
        let mut envoy = control_plane.envoy(api_type).await?;
        let status = control_plane.snapshots.status();
        poll::until("Envoy to connect", async || {
            (status.connected(GROUP) == 1).then_some(())
        })
        .await?;
        assert!(!status.is_settled(GROUP) && !envoy.admin().ready().await);

        control_plane.publish(&site.resources);
        envoy.until_ready().await?;
        control_plane.until_settled(1).await?;
        let web = envoy.listener("web").await?;
        let answer = site.get(web).await?;
        assert_eq!((answer.backend(), answer.header("x-filter")), (Some("a"), Some("one")));
        for resource in site.resources.iter() {
            let progress = status.progress(GROUP, resource.resource_type(), resource.name(), resource.version());
            assert!(
                progress.is_complete() && progress.acknowledged == 1,
                "{resource:?}: {progress:?}"
            );
        }
        assert_eq!(status.acknowledged(GROUP, "envoy").len(), site.resources.len());

        let before = updates(&envoy).await?;
        let endpoints = resources::endpoints("a", &[site.backends[1].address()]);
        assert!(control_plane.snapshots.publish_one(GROUP, endpoints));
        site.until_from(web, "b").await?;
        control_plane.until_settled(1).await?;
        let mut expected = before;
        *expected.entry("cluster.a.update_success".to_owned()).or_default() += 1;
        assert_eq!(updates(&envoy).await?, expected, "{api_type}");

        let mut resources = site.resources.clone();
        resources.insert(resources::endpoints("a", &[site.backends[1].address()]));
        resources.insert(resources::filter("greeting", "two"));
        control_plane.publish(&resources);
        poll::until("the other filter", async || {
            let answer = site.get(web).await.ok()?;
            (answer.header("x-filter") == Some("two")).then_some(())
        })
        .await?;
        control_plane.until_settled(1).await?;
        let name = "extension_config_discovery.http_filter.greeting.update_success";
        *expected.entry(name.to_owned()).or_default() += 1;
        assert_eq!(updates(&envoy).await?, expected, "{api_type}");

        let counts = control_plane.snapshots.counts();
        // The routes of this control plane contain their virtual hosts.
        for each in ResourceType::ALL
            .into_iter()
            .filter(|each| *each != ResourceType::VirtualHost)
        {
            let counts = counts.of_type(each).context("no such type")?;
            assert!(
                counts.sent >= 1 && counts.acknowledged >= 1 && counts.refused == 0,
                "{each}"
            );
        }
        drop(envoy);
        poll::until("Envoy's end to be noticed", async || {
            (status.connected(GROUP) == 0).then_some(())
        })
        .await?;
    }
    Ok(())
}
