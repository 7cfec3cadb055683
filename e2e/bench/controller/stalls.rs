//! The worst latency of an Envoy's traffic while hosts change, for stalled workers.
//!
//! An unchanged host gets a request every two milliseconds, while another one changes every second. Envoy then gets
//! only that host (delta, VHDS) or the whole route configuration (state of the world, RDS). The baseline has no
//! changes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use limpet_e2e::kube::{Cluster, Controller, Release};
use limpet_e2e::{Backend, Request, SteadyLoad, poll, worst};

use crate::catalog::{Catalog, PORT, host, route_name};
use crate::report::row;
use crate::subject::Subject;

const RATE: f64 = 500.0;
const LENGTH: Duration = Duration::from_secs(20);

pub(crate) async fn run(hosts: usize) -> Result<()> {
    let cluster = Cluster::start(&Release::V1_6_1.definitions()?).await?;
    let (server, namespace) = (cluster.server(), cluster.namespace("bench").await?);
    let catalog = Catalog {
        namespace: namespace.name().to_owned(),
        routes: hosts,
        gateways: vec![vec!["edge".to_owned()]],
        ..Catalog::default()
    };
    println!("\nTraffic while hosts change: {hosts} hosts, {RATE} requests a second, one change a second");
    namespace.gateway_class().await?;
    let admin = server.admin();
    admin
        .apply_object(&catalog.gateway(namespace.name(), "edge", 8080))
        .await?;
    catalog.write(server).await?;
    let at = SocketAddr::new(namespace.next_address()?, PORT);
    let _backend = Backend::start_at("backend", at)?;
    catalog.serve_at(&admin, 0, at.ip()).await?;
    let controller = Controller::start(server, &namespace, |_| {}).await?;
    Subject(controller.process()?.id()).until_at_rest().await?;

    for protocol in ["VHDS", "RDS"] {
        let mut envoy = if protocol == "VHDS" {
            controller.envoy("edge", "delta").await?
        } else {
            controller.envoy_of_the_world("edge", "world").await?
        };
        envoy.until_ready().await?;
        let load = load(controller.address(8080)).await?;
        let mut number = 0;
        let mut measure = async |what: &str, changes: bool| -> Result<()> {
            let (before, start) = (Subject(envoy.pid()).ran()?, Instant::now());
            let sending = load.clone();
            let sent = tokio::task::spawn_blocking(move || sending.send(LENGTH));
            while !sent.is_finished() {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if changes {
                    number += 1;
                    catalog.change_route(&admin, number, &format!("/{protocol}")).await?;
                }
            }
            let share = Subject(envoy.pid()).ran_since(before)?.as_secs_f64() / start.elapsed().as_secs_f64();
            row(
                &format!("{protocol}, {what}"),
                format!("{}, {:.0} % of a core", worst(&sent.await??)?, share * 100.0),
            );
            Ok(())
        };
        measure("no changes", false).await?;
        measure("one host a second", true).await?;
        measure("no changes", false).await?;
        measure("one host a second", true).await?;
    }
    Ok(())
}

async fn load(address: SocketAddr) -> Result<SteadyLoad> {
    let host = host(&route_name(0));
    poll::until("the first host", async || {
        let answer = Request::get(address, "/").header("host", &host).send().await.ok()?;
        (answer.status == 200).then_some(())
    })
    .await?;
    Ok(SteadyLoad {
        address,
        request: format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n").into_bytes(),
        rate: RATE,
        connections: 8,
    })
}
