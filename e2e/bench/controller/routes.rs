//! The cost of each change for the whole controller with one client: processor time, bytes, and delay.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use limpet_e2e::kube::{Cluster, Controller, Release};
use limpet_resources::ResourceType;

use crate::catalog::{Catalog, addresses};
use crate::client::Client;
use crate::report::{kilobytes, latencies, milliseconds, row};
use crate::subject::{Subject, until_statuses_are_written};

const CHANGES: usize = 50;
const LARGE: usize = 1000;
const RATE: usize = 50;
const SECONDS: usize = 10;
pub(crate) async fn run(routes: usize) -> Result<()> {
    let cluster = Cluster::start(&Release::V1_6_1.definitions()?).await?;
    let (server, namespace) = (cluster.server(), cluster.namespace("bench").await?);
    let catalog = Catalog {
        namespace: namespace.name().to_owned(),
        routes,
        gateways: vec![vec!["edge".to_owned()]],
        large: LARGE,
        ..Catalog::default()
    };
    println!("\nThe whole controller: {routes} routes with a session and a Service each");
    let start = Instant::now();
    namespace.gateway_class().await?;
    let admin = server.admin();
    admin
        .apply_object(&catalog.gateway(namespace.name(), "edge", 8080))
        .await?;
    catalog.write(server).await?;
    row(
        "objects written, for the measurement",
        format!("{:.0} s", start.elapsed().as_secs_f64()),
    );

    let mut controller = Controller::prepare(server, &namespace, |_| {}).await?;
    let start = Instant::now();
    controller.launch()?;
    controller.until_ready().await?;
    let ready = start.elapsed();
    let subject = Subject(controller.process()?.id());
    row(
        "from start until everything is published",
        format!("{}, {} of CPU", milliseconds(ready), milliseconds(subject.ran()?)),
    );
    let mut client = Client::connect(controller.xds(), &format!("{}/edge", namespace.name())).await?;
    client.until(ResourceType::ClusterLoadAssignment, routes + 1).await?;
    until_statuses_are_written(&controller).await?;
    subject.until_at_rest().await?;
    row("memory then", kilobytes(subject.memory()?));
    let mut changes = Changes { subject, client };

    let spread = |number: usize| number * routes / CHANGES % routes;
    changes
        .series("a route with another timeout", async |number| {
            catalog.change_timeout(&admin, spread(number), 10 + number).await
        })
        .await?;
    changes
        .series("a route with another path", async |number| {
            catalog
                .change_route(&admin, spread(number), &format!("/v{number}"))
                .await
        })
        .await?;
    changes
        .series("a changed endpoint", async |number| {
            let route = spread(number);
            let address = addresses(route).nth(3 + number % 60).context("an address")?;
            catalog.change_endpoint(&admin, route, address).await
        })
        .await?;

    let (before, start) = (subject.ran()?, Instant::now());
    for number in 0..RATE * SECONDS {
        let due = start + Duration::from_secs(1) / u32::try_from(RATE)? * u32::try_from(number)?;
        tokio::time::sleep_until(due.into()).await;
        catalog.roll_large(&admin, number).await?;
    }
    let took = start.elapsed().as_secs_f64();
    let spent = subject.ran_since(before)?;
    subject.until_quiet().await?;
    let received = changes.client.drain();
    let bytes: usize = received.iter().map(|received| received.bytes).sum();
    row(
        &format!("{LARGE} endpoints of a Service that roll"),
        format!(
            "{:.0} changes a second, {:.0} % of a core, {} responses, {} in all",
            f64::from(u32::try_from(RATE * SECONDS)?) / took,
            spent.as_secs_f64() / took * 100.0,
            received.len(),
            kilobytes(bytes as u64 / 1024)
        ),
    );
    row("most memory", kilobytes(subject.peak_memory()?));
    row("memory at the end", kilobytes(subject.memory()?));
    Ok(())
}

struct Changes {
    subject: Subject,
    client: Client,
}

impl Changes {
    /// Makes changes, each when the controller is done.
    async fn series(&mut self, what: &str, mut change: impl AsyncFnMut(usize) -> Result<()>) -> Result<()> {
        let subject = self.subject;
        subject.until_at_rest().await?;
        let idle = subject.idle().await?;
        let (mut spent, mut took, mut bytes, mut resources) = (Vec::new(), Vec::new(), 0, 0);
        let (before_all, start_of_all) = (subject.ran()?, Instant::now());
        for number in 0..CHANGES {
            self.client.drain();
            let (before, start) = (subject.ran()?, Instant::now());
            change(number).await?;
            let first = self.client.next().await?;
            took.push(first.at - start);
            subject.until_quiet().await?;
            let ran = subject.ran_since(before)?;
            spent.push(ran.saturating_sub(start.elapsed().mul_f64(idle)));
            let rest = self.client.drain();
            resources += 1 + rest.len();
            bytes += first.bytes + rest.iter().map(|received| received.bytes).sum::<usize>();
        }
        subject.until_at_rest().await?;
        let all = subject
            .ran_since(before_all)?
            .saturating_sub(start_of_all.elapsed().mul_f64(idle));
        row(&format!("{what}, CPU"), latencies(spent)?);
        row(
            "  with all that came later",
            milliseconds(all / u32::try_from(CHANGES)?),
        );
        row("  until the client had it", latencies(took)?);
        row(
            "  sent to the client for each",
            format!("{} bytes in {} resources", bytes / CHANGES, resources / CHANGES),
        );
        Ok(())
    }
}
