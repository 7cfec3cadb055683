//! One bad virtual host among thousands costs no other, on running and on new Envoys.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, ensure};
use limpet_outputs::envoy::{self, OverloadLimits};
use limpet_resources::{PREFLIGHT, ResourceType};
use serde_json::Value;
use tokio::task::{JoinHandle, JoinSet};

use super::*;

const HOSTS: usize = 5000;
const VISITED: usize = 50;
/// The host that becomes bad, and a neighbour that changes in the same publication.
const BAD: usize = 2500;
const NEIGHBOUR: usize = 17;

fn domain(number: usize) -> String {
    format!("host-{number}.example")
}

fn put(resources: &mut Resources, number: usize, status: u32, is_bad: bool) {
    let (unit, host) = (
        format!("httproute/shop/host-{number}"),
        format!("web/{}", domain(number)),
    );
    resources.insert_unit(resources::host(&unit, &unit, status, is_bad));
    resources.insert(resources::host(&host, &domain(number), status, is_bad));
}

fn street() -> Resources {
    let mut resources = Resources::new();
    resources.insert(resources::plain_listener("web"));
    for name in ["web", PREFLIGHT] {
        resources.insert(resources::no_hosts(name));
    }
    for number in 0..HOSTS {
        put(&mut resources, number, 201, false);
    }
    resources
}

/// Publishes the refused host with this status, as the controller does.
fn heal(control_plane: &ControlPlane, mut resources: Resources, status: u32) -> JoinHandle<Result<Vec<String>>> {
    let (snapshots, mut told) = (control_plane.snapshots.clone(), control_plane.snapshots.status());
    tokio::spawn(async move {
        let refused = loop {
            told.judged().await;
            let refused = told.disapprovals();
            if !refused.is_empty() {
                break refused;
            }
        };
        put(&mut resources, BAD, status, false);
        snapshots.publish(GROUP, resources);
        Ok(refused
            .into_iter()
            .map(|refused| format!("{}: {}", refused.unit, refused.message))
            .collect())
    })
}

async fn status_of(web: SocketAddr, number: usize) -> Result<u16> {
    Ok(Request::get(web, "/")
        .header("host", domain(number))
        .send()
        .await?
        .status)
}

async fn until_status(web: SocketAddr, number: usize, status: u16) -> Result<()> {
    let what = format!("{status} of host {number}");
    poll::until(&what, async || {
        (status_of(web, number).await.ok()? == status).then_some(())
    })
    .await
}

/// Visits hosts on new connections until `done`. A host answers 201, and the neighbour 202 from its change on.
fn visit(web: SocketAddr, done: &Arc<AtomicBool>) -> JoinSet<Result<usize>> {
    let mut clients = JoinSet::new();
    for number in 0..VISITED {
        let done = Arc::clone(done);
        clients.spawn(async move {
            let mut visits = 0;
            while !done.load(Ordering::Relaxed) {
                let status = status_of(web, number).await.with_context(|| domain(number))?;
                ensure!(
                    status == 201 || number == NEIGHBOUR && status == 202,
                    "{status} of {number}"
                );
                visits += 1;
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            Ok(visits)
        });
    }
    clients
}

async fn leave(mut clients: JoinSet<Result<usize>>, done: &AtomicBool) -> Result<()> {
    done.store(true, Ordering::Relaxed);
    while let Some(visits) = clients.join_next().await {
        ensure!(visits?? > 0);
    }
    Ok(())
}

/// An Envoy with the listener and the metadata of the controller's bootstrap.
async fn start_envoy(control_plane: &ControlPlane, api_type: &str) -> Result<Proxy> {
    let of_controller = envoy::bootstrap(&envoy::BootstrapOptions {
        gateway: limpet_api::ObjectName::new("default", "web"),
        node_id: None,
        controller_host: "localhost".to_owned(),
        controller_port: 1,
        tls: None,
        admin_port: 0,
        ready: (Ipv4Addr::LOCALHOST, 0).into(),
        metrics: None,
        limits: OverloadLimits {
            heap: 512 << 20,
            connections: 1000,
        },
    });
    let of_controller = limpet_outputs::json::typed(&of_controller)?;
    let mut bootstrap = bootstrap(control_plane.address, api_type, &Value::Null);
    bootstrap["static_resources"]["listeners"] = of_controller["static_resources"]["listeners"].clone();
    bootstrap["node"]["metadata"] = of_controller["node"]["metadata"].clone();
    Proxy::start(&bootstrap.to_string(), &[]).await
}

fn sent(control_plane: &ControlPlane, resource_type: ResourceType) -> u64 {
    let counts = control_plane.snapshots.counts();
    counts.of_type(resource_type).map_or(0, |counts| counts.sent)
}

#[tokio::test]
async fn a_bad_host_among_5000_costs_no_other() -> Result<()> {
    for api_type in BOTH {
        let control_plane = ControlPlane::start().await?;
        let mut resources = street();
        control_plane.publish(&resources);
        let mut envoy = start_envoy(&control_plane, api_type).await?;
        envoy.until_ready().await?;
        let web = envoy.listener("web").await?;
        control_plane.until_settled(1).await?;
        let done = Arc::default();
        let clients = visit(web, &done);

        let hosts_sent = sent(&control_plane, ResourceType::VirtualHost);
        put(&mut resources, NEIGHBOUR, 202, false);
        let healed = heal(&control_plane, resources.clone(), 201);
        put(&mut resources, BAD, 203, true);
        control_plane.publish(&resources);
        until_status(web, NEIGHBOUR, 202).await?;
        let refused = healed.await??;
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(refused[0].starts_with("httproute/shop/host-2500: "), "{refused:?}");
        assert_eq!(status_of(web, BAD).await?, 201);
        control_plane.until_settled(1).await?;
        let hosts_sent = sent(&control_plane, ResourceType::VirtualHost) - hosts_sent;
        // One by one, or within their route configuration.
        assert!(hosts_sent <= 1, "{hosts_sent} hosts sent for one change");
        leave(clients, &done).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_new_envoy_serves_the_rest_from_its_start() -> Result<()> {
    for api_type in BOTH {
        let control_plane = ControlPlane::start().await?;
        let mut resources = street();
        let healed = heal(&control_plane, resources.clone(), 500);
        put(&mut resources, BAD, 203, true);
        control_plane.publish(&resources);
        let mut envoy = start_envoy(&control_plane, api_type).await?;
        let web = envoy.listener("web").await?;
        // From its first answer on.
        let done = Arc::default();
        poll::until("an open port", async || tokio::net::TcpStream::connect(web).await.ok()).await?;
        let clients = visit(web, &done);
        envoy.until_ready().await?;
        control_plane.until_settled(1).await?;
        assert_eq!(healed.await??.len(), 1);
        until_status(web, BAD, 500).await?;
        leave(clients, &done).await?;
    }
    Ok(())
}
