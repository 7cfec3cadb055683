//! Simultaneous changes of several types fail no request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::*;

/// Clusters are replaced many times.
#[tokio::test]
async fn clusters_exist_as_long_as_their_routes() -> Result<()> {
    for api_type in BOTH {
        let site = XdsSite::new()?;
        let control_plane = ControlPlane::start().await?;
        control_plane.publish(&site.resources);
        let mut envoy = control_plane.envoy(api_type).await?;
        envoy.until_ready().await?;
        let web = envoy.listener("web").await?;

        let done = AtomicBool::new(false);
        let requests = async {
            let mut count = 0;
            while !done.load(Ordering::Relaxed) {
                let answer = site.get(web).await?;
                anyhow::ensure!(answer.status == 200, "{}: {:?}", answer.status, answer.body);
                count += 1;
            }
            Ok(count)
        };
        let changes = async {
            let mut resources = site.resources.clone();
            let mut last = "a".to_owned();
            for round in 0..10 {
                let (name, backend) = (format!("cluster-{round}"), &site.backends[round % 3]);
                resources.remove(limpet_resources::ResourceType::Cluster, &last);
                resources.remove(limpet_resources::ResourceType::ClusterLoadAssignment, &last);
                resources.insert(resources::cluster(&name, CONNECT_TIMEOUT));
                resources.insert(resources::endpoints(&name, &[backend.address()]));
                resources.insert(resources::routes("routes", &name, true));
                control_plane.publish(&resources);
                control_plane.until_settled(1).await?;
                site.until_from(web, ["a", "b", "c"][round % 3]).await?;
                last = name;
            }
            done.store(true, Ordering::Relaxed);
            anyhow::Ok(())
        };
        let (count, all) = tokio::join!(requests, changes);
        all?;
        assert!(count? > 10);
        let clusters = envoy.admin().text("/clusters").await?;
        assert!(
            clusters.contains("cluster-9::") && !clusters.contains("cluster-8::"),
            "{clusters}"
        );
    }
    Ok(())
}

/// Envoy prepares a changed cluster again and waits for its endpoints, even if they did not change.
#[tokio::test]
async fn a_changed_cluster_is_taken_at_once() -> Result<()> {
    for api_type in BOTH {
        let site = XdsSite::new()?;
        let control_plane = ControlPlane::start().await?;
        control_plane.publish(&site.resources);
        let mut envoy = control_plane.envoy(api_type).await?;
        envoy.until_ready().await?;
        let web = envoy.listener("web").await?;
        let mut resources = site.resources.clone();
        resources.insert(resources::cluster("a", 2 * CONNECT_TIMEOUT));
        let start = Instant::now();
        control_plane.publish(&resources);
        envoy.admin().until_stat("cluster_manager.cluster_modified", 1).await?;
        envoy.admin().until_stat("cluster_manager.warming_clusters", 0).await?;
        // Envoy stops waiting after fifteen seconds.
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        control_plane.until_settled(1).await?;
        assert_eq!(site.get(web).await?.backend(), Some("a"));
    }
    Ok(())
}
