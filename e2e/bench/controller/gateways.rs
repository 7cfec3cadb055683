//! Many Gateways with three Envoys each on one controller: updates, start, an Envoy's memory, and statuses.
//!
//! All but two Envoys are clients that acknowledge as Envoy does: so many do not fit a machine.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{ApiServer, Cluster, Controller, Namespace, Proxy, Release};
use limpet_resources::ResourceType;

use crate::catalog::Catalog;
use crate::client::Client;
use crate::report::{kilobytes, milliseconds, row};
use crate::subject::{Subject, until_statuses_are_written};

const ROUTES: usize = 2000;
const ENVOYS: usize = 3;
/// The Gateway whose route changes, and an unrelated one.
const CHANGED: usize = 7;
const OTHER: usize = 8;

pub(crate) async fn run(gateways: usize) -> Result<()> {
    ensure!(gateways > OTHER, "expected more than {OTHER} Gateways");
    let cluster = Cluster::start(&Release::V1_6_1.definitions()?).await?;
    let (server, namespace) = (cluster.server(), cluster.namespace("bench").await?);
    let catalog = Catalog {
        namespace: namespace.name().to_owned(),
        routes: ROUTES,
        gateways: (0..gateways).map(|number| vec![gateway(number)]).collect(),
        ..Catalog::default()
    };
    println!("\n{gateways} Gateways, {} Envoys, {ROUTES} routes", gateways * ENVOYS);
    namespace.gateway_class().await?;
    let admin = server.admin();
    for number in 0..gateways {
        let port = 8100 + u16::try_from(number)?;
        admin
            .apply_object(&catalog.gateway(namespace.name(), &gateway(number), port))
            .await?;
    }
    catalog.write(server).await?;

    let mut controller = Controller::prepare(server, &namespace, |_| {}).await?;
    let start = Instant::now();
    controller.launch()?;
    controller.until_ready().await?;
    row(
        "from start until everything is published",
        milliseconds(start.elapsed()),
    );
    let subject = Subject(controller.process()?.id());
    let alone = subject.memory()?;

    let start = Instant::now();
    let mut clients = Vec::new();
    for number in 0..gateways {
        // Each Gateway's Envoys have a client address of their own (`e2e/src/kube/network.rs`).
        let from = IpAddr::from([10, 66, 255, u8::try_from(number)?]);
        for _ in 0..ENVOYS {
            let group = format!("{}/{}", namespace.name(), gateway(number));
            let client = Client::connect_from(Some(from), controller.xds(), &group).await?;
            clients.push((number, client));
        }
    }
    let mut last = start;
    for (number, client) in &mut clients {
        let routes = (*number..ROUTES).step_by(gateways).count();
        last = last.max(client.has(ResourceType::ClusterLoadAssignment, routes).await?);
    }
    row(
        "start of all Envoys at once, until each had everything",
        milliseconds(last - start),
    );
    until_statuses_are_written(&controller).await?;
    statuses(server, &namespace)?;
    let each = subject.memory()?.saturating_sub(alone) / u64::try_from(clients.len())?;
    row("memory of the controller for each Envoy", format!("{each} KiB"));
    row("memory then", kilobytes(subject.memory()?));

    let (mut changed, mut other) = (
        controller.envoy(&gateway(CHANGED), "changed").await?,
        controller.envoy(&gateway(OTHER), "other").await?,
    );
    changed.until_ready().await?;
    other.until_ready().await?;
    subject.until_at_rest().await?;
    for (_, client) in &mut clients {
        client.drain();
    }
    let responses: Vec<usize> = clients.iter().map(|(_, client)| client.responses()).collect();
    let updates = [updates(&changed).await?, updates(&other).await?];
    let before = subject.ran()?;
    catalog.change_route(&admin, CHANGED, "/changed").await?;
    for (_, client) in clients.iter_mut().filter(|(number, _)| *number == CHANGED) {
        client.next().await?;
    }
    subject.until_at_rest().await?;
    row(
        "a changed route of one Gateway, CPU",
        milliseconds(subject.ran_since(before)?),
    );
    let mut woken = BTreeMap::new();
    for ((number, client), before) in clients.iter().zip(responses) {
        if client.responses() > before {
            *woken.entry(*number).or_insert(0) += 1;
        }
    }
    row("  Envoys that were sent something, by Gateway", format!("{woken:?}"));
    ensure!(
        woken == BTreeMap::from([(CHANGED, ENVOYS)]),
        "expected the Envoys of Gateway {CHANGED} alone"
    );
    let now = [self::updates(&changed).await?, self::updates(&other).await?];
    row(
        "  updates that the two genuine Envoys had",
        format!("{} and {}", now[0] - updates[0], now[1] - updates[1]),
    );
    ensure!(
        now[0] > updates[0] && now[1] == updates[1],
        "expected an update of the first one alone"
    );
    Ok(())
}

fn gateway(number: usize) -> String {
    format!("edge-{number}")
}

async fn updates(envoy: &Proxy) -> Result<u64> {
    let stats = envoy.admin().stats("update_(success|rejected)").await?;
    Ok(stats.values().sum())
}

fn statuses(server: &ApiServer, namespace: &Namespace) -> Result<()> {
    let requests = server.requests_of(&format!("system:serviceaccount:{}:limpet-controller", namespace.name()))?;
    let is_status = |uri: &str| uri.split('?').next().is_some_and(|path| path.ends_with("/status"));
    let mut times: Vec<Duration> = requests
        .iter()
        .filter(|of| is_status(&of.uri))
        .map(|of| of.at)
        .collect();
    times.sort();
    let (first, last) = times.first().zip(times.last()).context("no status was written")?;
    let busiest = times.iter().enumerate().map(|(from, start)| {
        times
            .iter()
            .skip(from)
            .take_while(|at| **at < *start + Duration::from_secs(1))
            .count()
    });
    row(
        "statuses written after the start",
        format!(
            "{} in {:.1} s, at most {} in a second",
            times.len(),
            last.saturating_sub(*first).as_secs_f64(),
            busiest.max().unwrap_or_default()
        ),
    );
    Ok(())
}
