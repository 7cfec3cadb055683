//! The limits of the controller's bootstrap.

use std::net::Ipv4Addr;

use anyhow::{Result, ensure};
use limpet_e2e::{Config, Connection, Site, poll};
use limpet_outputs::envoy::{BootstrapOptions, OverloadLimits, bootstrap};
use limpet_outputs::json;

use super::LIMITS;
use super::graphs::gateway;

pub(super) fn limited(limits: OverloadLimits) -> Result<Config> {
    let made = json::typed(&bootstrap(&BootstrapOptions {
        gateway: gateway(),
        node_id: None,
        controller_host: "127.0.0.1".to_owned(),
        controller_port: 18000,
        tls: None,
        admin_port: 0,
        ready: (Ipv4Addr::LOCALHOST, 0).into(),
        metrics: None,
        limits,
    }))?;
    Ok(Config::load("cookie.yaml")?.alone().edit(|bootstrap| {
        for field in ["overload_manager", "admin", "layered_runtime"] {
            bootstrap[field] = made[field].clone();
        }
        let listeners = made["static_resources"]["listeners"].as_array().into_iter().flatten();
        if let Some(present) = bootstrap["static_resources"]["listeners"].as_array_mut() {
            // The preflight's listener needs a control plane.
            present.extend(listeners.filter(|listener| listener["name"] == READY).cloned());
        }
    }))
}

pub(super) const READY: &str = "limpet.ready";

#[tokio::test]
async fn connections_beyond_the_limit_are_closed() -> Result<()> {
    let site = Site::start(limited(OverloadLimits {
        connections: 3,
        ..LIMITS
    })?)
    .await?;
    let mut kept = Vec::new();
    for _ in 0..3 {
        let mut connection = Connection::open(site.envoy.address(), false).await?;
        assert_eq!(connection.send(site.envoy.get("/")).await?.status, 200);
        kept.push(connection);
    }
    for _ in 0..5 {
        let answer = site.envoy.get("/").send().await;
        ensure!(answer.is_err(), "{answer:?}");
    }
    // Envoy closes a connection before it counts it. The admin interface has no limit.
    poll::until("the connections to be counted", async || {
        let overflow = site.envoy.stats("downstream_global_cx_overflow").await.ok()?;
        (overflow.values().sum::<u64>() == 5).then_some(())
    })
    .await?;
    kept.clear();
    poll::until("a place for a connection", async || {
        let answer = site.envoy.get("/").send().await.ok()?;
        (answer.status == 200).then_some(())
    })
    .await
}

#[tokio::test]
async fn requests_are_refused_while_the_heap_is_full() -> Result<()> {
    let site = Site::start(limited(OverloadLimits {
        heap: 1 << 20,
        ..LIMITS
    })?)
    .await?;
    site.envoy
        .until_stat("overload.envoy.overload_actions.stop_accepting_requests.active", 1)
        .await?;
    let refused = "overload.envoy.overload_actions.stop_accepting_connections.active";
    site.envoy.until_stat(refused, 1).await?;
    assert_eq!(
        site.envoy
            .stat("overload.envoy.overload_actions.shrink_heap.active")
            .await?,
        1
    );
    Ok(())
}
