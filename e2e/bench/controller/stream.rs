//! The xDS server and a client on this machine, without a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use limpet_model::graph::ClusterName;
use limpet_outputs::envoy;
use limpet_resources::ResourceType;
use limpet_xds::{Server, ServerOptions, ServerSecurity, Snapshots};

use crate::changes;
use crate::client::Client;
use crate::objects::{self, GeneratedObjects};
use crate::pure::{BuildResult, assignments, of_edge};
use crate::report::{kilobytes, latencies, milliseconds, row};

pub(crate) async fn run(generated: &GeneratedObjects) -> Result<()> {
    let mut objects = generated.objects()?;
    let build = BuildResult::of(generated, &objects);
    let mut assignments = assignments(generated);
    let snapshots = Snapshots::new();
    let group = generated.edge().to_string();
    let published = of_edge(generated, &build, &assignments)?;
    let mut expected = BTreeMap::new();
    for of_type in ResourceType::ALL {
        expected.insert(of_type, published.of_type(of_type).count());
    }
    snapshots.publish(&group, published);
    let options = ServerOptions {
        address: ([127, 0, 0, 1], 0).into(),
        security: ServerSecurity::PlaintextOnLoopback,
    };
    let server = Server::bind(options, snapshots.clone()).await?;
    let address = server.address();
    let serving = tokio::spawn(server.serve(std::future::pending()));

    println!(
        "\nStream: {} rules, {} endpoints, one client",
        generated.rules,
        generated.endpoints()
    );
    let start = Instant::now();
    let mut client = Client::connect(address, &group).await?;
    let received = client.until(ResourceType::RouteConfiguration, 1).await?;
    let last = received.iter().map(|received| received.at).max();
    let bytes: usize = received.iter().map(|received| received.bytes).sum();
    let mut counts = BTreeMap::from(ResourceType::ALL.map(|of_type| (of_type, 0)));
    for received in &received {
        *counts.entry(received.resource_type).or_default() += 1;
    }
    ensure!(counts == expected, "expected {expected:?}, found {counts:?}");
    row(
        "from connecting until it had everything",
        milliseconds(last.map_or(Duration::ZERO, |last| last - start)),
    );
    row(
        "  resources",
        format!("{}, {}", received.len(), kilobytes(bytes as u64 / 1024)),
    );

    let change = |rule: usize| {
        let name = ClusterName(objects::cluster_name(rule).into());
        let assignment = Arc::new(envoy::load_assignment(&name, &objects::fewer_endpoints(rule)));
        snapshots.publish_one(&group, Arc::clone(&assignment));
        if let Some(of_rule) = assignments.get_mut(rule) {
            *of_rule = assignment;
        }
    };
    let times = changes::run(generated.rules, &mut client, change).await?;
    row("an endpoint change, 50 in a second", latencies(times)?);
    row("  other resources sent", "none");

    objects::add(&mut objects, &generated.route(1, true))?;
    let start = Instant::now();
    let build = BuildResult::of(generated, &objects);
    let publishing = Instant::now();
    snapshots.publish(&group, of_edge(generated, &build, &assignments)?);
    let received = client.until(ResourceType::RouteConfiguration, 1).await?;
    let [one] = received.as_slice() else {
        anyhow::bail!("expected one resource, found {received:?}");
    };
    ensure!(
        one.resource_type == ResourceType::RouteConfiguration && !one.removed,
        "{one:?}"
    );
    row("a route change", milliseconds(one.at - start));
    row("  to publish and send it", milliseconds(one.at - publishing));
    row(
        "  the resource",
        format!(
            "{} {}, {}",
            one.resource_type,
            one.name,
            kilobytes(one.bytes as u64 / 1024)
        ),
    );
    drop(client);
    serving.abort();
    Ok(())
}
