//! Several replicas, each with its own Envoys.

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Release};
use limpet_e2e::{Carrier, Crowd, poll};
use serde_json::json;

use super::wire::Wire;
use super::{message, objects, until_programmed};
use crate::keyring::{KeyringSite, SHORT_IDLE, key_encryption_key, replica};

const PHASE_TIME: &str = "300ms";
/// A replica is gone after 75 seconds of silence, and the leader looks every 30.
const FORGOTTEN: Duration = Duration::from_secs(150);
const LEASE: &str = "coordination.k8s.io/v1/Lease";

async fn until_connected(controller: &Controller, site: &KeyringSite) -> Result<()> {
    let name = format!("limpet_clients{{gateway=\"{}/web\"}}", site.namespace.name());
    let connected = async || (controller.metric(&name).await.ok()? == "1").then_some(());
    poll::until("one Envoy to be connected", connected).await
}

async fn leads(controller: &Controller) -> Result<String> {
    controller.metric("limpet_leader").await
}

async fn reports(namespace: &Namespace) -> Result<Vec<String>> {
    let lease = namespace.get(LEASE, "limpet-controller-replicas").await?;
    let annotations = lease["metadata"]["annotations"].as_object().cloned();
    let texts = annotations.context("no annotations")?;
    Ok(texts
        .values()
        .map(|text| text.as_str().unwrap_or_default().to_owned())
        .collect())
}

#[tokio::test]
async fn a_rotation_waits_for_the_envoys_of_every_replica() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let site = KeyringSite::start("replicas", PHASE_TIME).await?;
    let (leader, namespace) = (&site.controller, &site.namespace);
    let follower = replica(cluster, namespace, PHASE_TIME, SHORT_IDLE).await?;
    assert_eq!((&*leads(leader).await?, &*leads(&follower).await?), ("1", "0"));
    let way = SocketAddr::new(namespace.next_address()?, 18000);
    let wire = Wire::lay(way, follower.xds()).await?;
    let key = key_encryption_key(namespace).await?;
    let mut envoy = follower.envoy_at("web", "two", way, &[("LIMPET_KEK_1", &key)]).await?;
    envoy.until_ready().await?;
    until_connected(leader, &site).await?;
    until_connected(&follower, &site).await?;
    // Both Envoys see each session, many times.
    let addresses = [leader.address(8080), follower.address(8080)];
    let mut crowd = Crowd::gather(12, &[Carrier::Cookie], &addresses).await?;

    // The other replica's Envoy does not get the new key.
    wire.hold(true);
    site.request_rotation("now").await?;
    let introduced = [(1, "signing".to_owned()), (2, "verifying".to_owned())];
    site.until_keys(&[(1, "signing"), (2, "verifying")]).await?;
    let text = "the keyring waits for another replica";
    let told = poll::until("the leader to wait", async || {
        leader.log().ok()?.contains(text).then_some(())
    })
    .await;
    told.with_context(|| leader.log().unwrap_or_default())?;
    let begun = Instant::now();
    // Ten times the minimum duration of a phase.
    while begun.elapsed() < Duration::from_secs(3) {
        crowd.rounds(3).await?;
        assert_eq!(site.keys().await?, introduced);
    }
    let waits = |text: &String| text.contains("not all its Envoys have acknowledged the keyring");
    assert_eq!(reports(namespace).await?.iter().filter(|text| waits(text)).count(), 1);

    wire.hold(false);
    site.until_keys(&[(1, "retiring"), (2, "signing")]).await?;
    crowd.grow(6, &[Carrier::Cookie], &addresses).await?;
    site.until_keys(&[(2, "signing")]).await?;
    crowd.rounds(3).await?;
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.all_stayed()?;
    until_connected(leader, &site).await?;
    until_connected(&follower, &site).await
}

#[tokio::test]
async fn programmed_counts_the_envoys_of_all_living_replicas() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("followers").await?;
    let _pods = objects(&namespace).await?;
    let leader = replica(cluster, &namespace, PHASE_TIME, SHORT_IDLE).await?;
    let mut follower = replica(cluster, &namespace, PHASE_TIME, SHORT_IDLE).await?;
    assert_eq!((&*leads(&leader).await?, &*leads(&follower).await?), ("1", "0"));
    let key = key_encryption_key(&namespace).await?;
    let mut envoy = follower.envoy_with("web", "one", &[("LIMPET_KEK_1", &key)]).await?;
    envoy.until_ready().await?;
    until_programmed(&namespace, "web", "True/Programmed").await?;

    let taken = TcpListener::bind(follower.address(8081))?;
    let listeners = |port: u16| {
        json!({"spec": {"listeners": [
            {"name": "http", "port": 8080, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "Same"}}},
            {"name": "more", "port": port, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "Same"}}},
        ]}})
    };
    namespace.merge("Gateway", "web", &listeners(8081)).await?;
    let gateway = until_programmed(&namespace, "web", "False/Invalid").await?;
    let words = message(&gateway["status"]["conditions"], "Programmed");
    assert!(words.starts_with("Envoy one refused Listener"), "{words}");
    assert!(words.contains("cannot bind") && words.contains(":8081"), "{words}");
    drop(taken);
    namespace.merge("Gateway", "web", &listeners(8082)).await?;
    until_programmed(&namespace, "web", "True/Programmed").await?;

    // A replica's report counts until it is certainly gone, because its Envoys may connect to another one.
    follower.kill();
    let killed = Instant::now();
    while reports(&namespace).await?.len() > 1 {
        ensure!(killed.elapsed() < FORGOTTEN, "the follower is not forgotten");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let gateway = until_programmed(&namespace, "web", "False/Pending").await?;
    assert_eq!(
        message(&gateway["status"]["conditions"], "Programmed"),
        "No Envoy of this Gateway is connected"
    );
    Ok(())
}

/// The rollouts of Envoys and controller may meet.
#[tokio::test]
async fn the_envoys_of_a_replica_that_has_ended_are_not_waited_for() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("ended").await?;
    let _pods = objects(&namespace).await?;
    let leader = replica(cluster, &namespace, PHASE_TIME, SHORT_IDLE).await?;
    let mut follower = replica(cluster, &namespace, PHASE_TIME, SHORT_IDLE).await?;
    let key = key_encryption_key(&namespace).await?;
    let environment = [("LIMPET_KEK_1", &*key)];
    let mut envoys = Vec::new();
    for (controller, name) in [(&leader, "one"), (&follower, "two")] {
        let mut envoy = controller.envoy_with("web", name, &environment).await?;
        envoy.until_ready().await?;
        envoys.push(envoy);
    }
    until_programmed(&namespace, "web", "True/Programmed").await?;

    // It will not acknowledge the other listener.
    envoys[1].process().pause()?;
    namespace
        .merge(
            "Gateway",
            "web",
            &json!({"spec": {"listeners": [{"name": "http", "port": 8081, "protocol": "HTTP"}]}}),
        )
        .await?;
    let gateway = until_programmed(&namespace, "web", "False/Pending").await?;
    assert_eq!(
        message(&gateway["status"]["conditions"], "Programmed"),
        "Of 2 connected Envoys, 1 have acknowledged the configuration"
    );
    follower.end().await?;
    // Long before its silence would make it gone.
    until_programmed(&namespace, "web", "True/Programmed").await?;
    let reports = reports(&namespace).await?;
    let last: Vec<_> = reports.iter().filter(|text| !text.contains("\"envoys\"")).collect();
    ensure!(last.len() == 1 && reports.len() == 2, "{reports:?}");
    // A rotation still waits until its Envoys must be elsewhere.
    ensure!(
        last[0].contains("\"waitsFor\"") || last[0].contains("\"keyring\""),
        "{last:?}"
    );
    Ok(())
}

/// For a moment, new connections still reach it, and their Envoys must learn of new pods.
#[tokio::test]
async fn a_replica_that_is_to_end_serves_on_for_a_moment() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("lingering").await?;
    let _pods = objects(&namespace).await?;
    let mut leader = replica(cluster, &namespace, PHASE_TIME, SHORT_IDLE).await?;
    let follower = replica(cluster, &namespace, PHASE_TIME, SHORT_IDLE).await?;
    let key = key_encryption_key(&namespace).await?;
    let mut envoy = leader.envoy_with("web", "one", &[("LIMPET_KEK_1", &key)]).await?;
    envoy.until_ready().await?;
    let admin = envoy.admin();
    let begun = Instant::now();
    let meanwhile = async {
        admin.until_stat("control_plane.connected_state", 0).await?;
        anyhow::Ok(begun.elapsed())
    };
    let (ended, served) = tokio::join!(leader.end(), meanwhile);
    ended?;
    let served = served?;
    // The controller's own time for it is two seconds.
    ensure!(served > Duration::from_millis(1_900), "Envoy was served for {served:?}");
    poll::until("the other replica to lead", async || {
        (leads(&follower).await.ok()? == "1").then_some(())
    })
    .await
}
