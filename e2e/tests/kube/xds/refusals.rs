//! Refusals are reported in Envoy's words, the last good configuration stays in effect, and all else arrives.

use limpet_resources::ResourceType;

use super::*;

#[tokio::test]
async fn a_refusal_is_reported_in_envoys_words() -> Result<()> {
    for api_type in BOTH {
        let site = XdsSite::new()?;
        let control_plane = ControlPlane::start().await?;
        control_plane.publish(&site.resources);
        let mut envoy = control_plane.envoy(api_type).await?;
        envoy.until_ready().await?;
        let web = envoy.listener("web").await?;
        control_plane.until_settled(1).await?;
        let status = control_plane.snapshots.status();

        // A route to an unknown cluster, and a bad cluster among good ones.
        let mut resources = site.resources.clone();
        let bad_cluster = resources::bad_cluster("bad");
        let bad_routes = resources::routes("routes", "nowhere", true);
        let bad_versions = [bad_cluster.version(), bad_routes.version()];
        for name in ["b", "c"] {
            resources.insert(resources::cluster(name, CONNECT_TIMEOUT));
            resources.insert(resources::endpoints(name, &[site.backends[1].address()]));
        }
        resources.insert(bad_cluster);
        resources.insert(bad_routes);
        control_plane.publish(&resources);
        let refusals = poll::until("two refusals", async || {
            let refusals = status.refusals(GROUP, usize::MAX);
            (refusals.len() == 2).then_some(refusals)
        })
        .await?;
        let [cluster, routes] = &refusals[..] else {
            anyhow::bail!("{refusals:?}");
        };
        assert_eq!((cluster.resource_type, &*cluster.name), (ResourceType::Cluster, "bad"));
        assert!(cluster.message.contains("bad"), "{cluster:?}");
        assert_eq!(
            (routes.resource_type, &*routes.name),
            (ResourceType::RouteConfiguration, "routes")
        );
        assert!(routes.message.contains("unknown cluster 'nowhere'"), "{routes:?}");
        assert_eq!([cluster.version, routes.version], bad_versions);
        assert!(refusals.iter().all(|refusal| &*refusal.node == "envoy"));

        assert!(!status.is_settled(GROUP));
        let progress = status.progress(GROUP, cluster.resource_type, &cluster.name, cluster.version);
        assert!(!progress.is_complete() && progress.refused == 1, "{progress:?}");
        assert_eq!(
            site.get(web).await?.backend(),
            Some("a"),
            "the last good routes are not in effect"
        );
        let arrived = async || {
            let clusters = envoy.admin().text("/clusters").await.ok()?;
            (clusters.contains("b::") && clusters.contains("c::")).then_some(())
        };
        poll::until("the other clusters", arrived).await?;

        // A refused resource is not sent again with the next change.
        let before = updates(&envoy).await?;
        resources.insert(resources::endpoints("a", &[site.backends[2].address()]));
        control_plane.publish(&resources);
        site.until_from(web, "c").await?;
        assert_eq!(status.refusals(GROUP, usize::MAX), refusals);
        let after = updates(&envoy).await?;
        let rejected = |name: &&String| name.ends_with("rejected");
        for name in after.keys().filter(rejected) {
            assert_eq!(after.get(name), before.get(name), "{name}");
        }

        resources.insert(resources::routes("routes", "b", true));
        resources.remove(ResourceType::Cluster, "bad");
        control_plane.publish(&resources);
        control_plane.until_settled(1).await?;
        site.until_from(web, "b").await?;
        assert!(status.refusals(GROUP, usize::MAX).is_empty());
    }
    Ok(())
}
