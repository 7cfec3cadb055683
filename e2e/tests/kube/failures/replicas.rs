//! Several replicas, each with Envoys of its own.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Controller, Release};
use limpet_e2e::{Carrier, Crowd, poll};

use super::wire::Wire;
use crate::keyring::{Shop, key_encryption_key, replica};

const PHASE_TIME: &str = "300ms";
const LEASE: &str = "coordination.k8s.io/v1/Lease";

async fn until_connected(controller: &Controller, shop: &Shop) -> Result<()> {
    let name = format!("limpet_clients{{gateway=\"{}/web\"}}", shop.namespace.name());
    let connected = async || (controller.metric(&name).await.ok()? == "1").then_some(());
    poll::until("one Envoy to be connected", connected).await
}

/// What replicas tell each other, text by text.
async fn reports(shop: &Shop) -> Result<Vec<String>> {
    let lease = shop.namespace.get(LEASE, "limpet-controller-replicas").await?;
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
    let shop = Shop::open("replicas", PHASE_TIME).await?;
    let (leader, namespace) = (&shop.controller, &shop.namespace);
    let follower = replica(cluster, namespace, PHASE_TIME).await?;
    let leads = async |controller: &Controller| controller.metric("limpet_leader").await;
    assert_eq!((&*leads(leader).await?, &*leads(&follower).await?), ("1", "0"));
    let way = SocketAddr::new(namespace.next_address()?, 18000);
    let wire = Wire::lay(way, follower.xds()).await?;
    let key = key_encryption_key(namespace).await?;
    let mut envoy = follower.envoy_at("web", "two", way, &[("LIMPET_KEK_1", &key)]).await?;
    envoy.until_ready().await?;
    until_connected(leader, &shop).await?;
    until_connected(&follower, &shop).await?;
    // Each session is seen by both Envoys, again and again.
    let addresses = [leader.address(8080), follower.address(8080)];
    let mut crowd = Crowd::gather(12, &[Carrier::Cookie], &addresses).await?;

    // The one that is connected to the replica that does not lead hears nothing of the new key.
    wire.hold(true);
    shop.wish("now").await?;
    let introduced = [(1, "signing".to_owned()), (2, "verifying".to_owned())];
    shop.until_keys(&[(1, "signing"), (2, "verifying")]).await?;
    let text = "the rotation waits for another replica";
    let told = poll::until("the leader to wait", async || {
        leader.log().ok()?.contains(text).then_some(())
    })
    .await;
    told.with_context(|| leader.log().unwrap_or_default())?;
    let begun = Instant::now();
    // Ten times as long as the phase lasts at least.
    while begun.elapsed() < Duration::from_secs(3) {
        crowd.rounds(3).await?;
        assert_eq!(shop.keys().await?, introduced);
    }
    let waits = |text: &String| text.contains("not all its Envoys have acknowledged the keyring");
    assert_eq!(reports(&shop).await?.iter().filter(|text| waits(text)).count(), 1);

    wire.hold(false);
    shop.until_keys(&[(1, "retiring"), (2, "signing")]).await?;
    crowd.grow(6, &[Carrier::Cookie], &addresses).await?;
    shop.until_keys(&[(2, "signing")]).await?;
    crowd.rounds(3).await?;
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    for journey in &journeys.0 {
        ensure!(journey.moves().is_empty(), "a session moved: {:?}", journey.moves());
    }
    until_connected(leader, &shop).await?;
    until_connected(&follower, &shop).await
}
