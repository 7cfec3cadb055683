//! The whole controller as a process, with a real API server and a client. The benchmark writes `EndpointSlices`
//! itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hyper::Method;
use limpet_e2e::kube::{self, ApiServer, Cluster, Controller, Release};
use limpet_e2e::{Scheduled, tools};
use limpet_resources::ResourceType;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::changes;
use crate::client::Client;
use crate::objects::{self, GeneratedObjects};
use crate::report::{kilobytes, latencies, memory, milliseconds, peak_memory, row};

const WRITERS: usize = 8;
/// Statuses are complete after this silence; they wait ten seconds for Envoys.
const QUIET: Duration = Duration::from_secs(12);

pub(crate) async fn run(rules: usize) -> Result<()> {
    let mut definitions = Release::V1_6_1.definitions()?;
    // This release lacks the definition.
    definitions.push(tools::checkout().join("controller/deploy/crds/backendlbpolicies.yaml"));
    let cluster = Cluster::start(&definitions).await?;
    let server = cluster.server();
    let namespace = cluster.namespace("bench").await?;
    let generated = GeneratedObjects {
        rules,
        name: namespace.name().to_owned(),
        controller_name: namespace.controller_name(),
    };
    println!(
        "\nWith an API server: {} rules, {} endpoints, one client",
        generated.rules,
        generated.endpoints()
    );
    let start = Instant::now();
    let count = write_all(server, &generated).await?;
    row(
        "objects written, for the measurement",
        format!("{count} in {:.0} s", start.elapsed().as_secs_f64()),
    );

    let everywhere = |config: &mut Value| config["namespaces"] = json!([]);
    let mut controller = Controller::prepare(server, &namespace, everywhere).await?;
    let start = Instant::now();
    controller.launch()?;
    controller.until_ready().await?;
    row(
        "from start until everything is published",
        milliseconds(start.elapsed()),
    );
    let pid = controller.process()?.id().to_string();
    let builds = number(&controller, "limpet_build_seconds_count").await?;
    let seconds = number(&controller, "limpet_build_seconds_sum").await?;
    row(
        "  builds until then",
        format!("{builds}, {:.1} ms in all", seconds * 1e3),
    );
    row("peak memory until then", kilobytes(peak_memory(&pid)?));

    let start = Instant::now();
    let mut client = Client::connect(controller.xds(), &generated.edge().to_string()).await?;
    let received = client.until(ResourceType::RouteConfiguration, 1).await?;
    let last = received
        .iter()
        .map(|received| received.at)
        .max()
        .context("nothing came")?;
    let assignments = received
        .iter()
        .filter(|of| of.resource_type == ResourceType::ClusterLoadAssignment);
    ensure!(
        assignments.count() == generated.rules,
        "not the endpoints of {} Services",
        generated.rules
    );
    row("from connecting until it had everything", milliseconds(last - start));
    let start = Instant::now();
    let written = until_statuses_are_written(&controller).await?;
    row(
        "statuses written",
        format!("{written} in {:.0} s after that", start.elapsed().as_secs_f64()),
    );
    row("memory then", kilobytes(memory(&pid)?));

    let slices = Writers::new(server, WRITERS);
    let process = controller.process()?.id();
    let before = Scheduled::of(process)?;
    let times = changes::run(generated.rules, &mut client, |rule| slices.make_unfit(rule)).await?;
    let taken = Scheduled::of(process)?.since(before).ran;
    slices.end().await?;
    row(
        "processor time of an endpoint change",
        milliseconds(taken / u32::try_from(times.len())?),
    );
    row("an endpoint change, 50 in a second", latencies(times)?);
    row("  other resources sent", "none");

    let start = Instant::now();
    server.admin().apply_object(&generated.route(1, true)).await?;
    let received = client.until(ResourceType::VirtualHost, 1).await?;
    let [one] = received.as_slice() else {
        anyhow::bail!("expected one resource, found {received:?}");
    };
    row("a route change", milliseconds(one.at - start));
    row(
        "  the resource",
        format!("{} {}, {} bytes", one.resource_type, one.name, one.bytes),
    );
    row("most memory", kilobytes(peak_memory(&pid)?));
    row("memory at the end", kilobytes(memory(&pid)?));
    Ok(())
}

async fn write_all(server: &ApiServer, generated: &GeneratedObjects) -> Result<usize> {
    let admin = server.admin();
    for object in GeneratedObjects::namespaces().chain(generated.gateways()) {
        admin.apply_object(&object).await?;
    }
    let rules = generated.rules;
    let of_part = move |generated: &GeneratedObjects, part: usize| {
        if part < rules {
            let mut objects = GeneratedObjects::of_rule(part);
            objects.push(GeneratedObjects::slice(part));
            objects
        } else {
            vec![generated.route(part - rules, false)]
        }
    };
    let parts = rules + generated.routes();
    let (next, written) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..WRITERS {
        let (client, generated, next, written) = (
            server.admin(),
            generated.clone(),
            Arc::clone(&next),
            Arc::clone(&written),
        );
        tasks.spawn(async move {
            loop {
                let part = next.fetch_add(1, Ordering::Relaxed);
                if part >= parts {
                    return anyhow::Ok(());
                }
                for object in of_part(&generated, part) {
                    client.apply_object(&object).await?;
                    written.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(written.load(Ordering::Relaxed))
}

async fn number(controller: &Controller, metric: &str) -> Result<f64> {
    Ok(controller.metric(metric).await?.parse()?)
}

async fn until_statuses_are_written(controller: &Controller) -> Result<f64> {
    let name = "limpet_status_writes_total{result=\"written\"}";
    let (mut written, mut since) = (0.0, Instant::now());
    while since.elapsed() < QUIET || written == 0.0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        // The metric does not exist before the first write.
        let now = number(controller, name).await.unwrap_or_default();
        if now > written {
            (written, since) = (now, Instant::now());
        }
        ensure!(since.elapsed() < 30 * QUIET, "no status is written");
    }
    Ok(written)
}

/// Writes slices over several connections, so that one change does not wait for another.
struct Writers {
    turns: Vec<mpsc::UnboundedSender<usize>>,
    next: AtomicUsize,
    tasks: JoinSet<Result<()>>,
}

impl Writers {
    fn new(server: &ApiServer, count: usize) -> Self {
        let mut tasks = JoinSet::new();
        let turns = (0..count).map(|_| {
            let (sender, mut receiver) = mpsc::unbounded_channel();
            let client = server.admin();
            tasks.spawn(async move {
                while let Some(rule) = receiver.recv().await {
                    make_unfit(&client, rule).await?;
                }
                Ok(())
            });
            sender
        });
        Self {
            turns: turns.collect(),
            next: AtomicUsize::new(0),
            tasks,
        }
    }

    /// Makes a rule's first endpoint unready, without waiting.
    fn make_unfit(&self, rule: usize) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.turns.len();
        if let Some(writer) = self.turns.get(turn) {
            // A failed writer reports its error at the end.
            let _ = writer.send(rule);
        }
    }

    async fn end(self) -> Result<()> {
        let Self { turns, mut tasks, .. } = self;
        drop(turns);
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok(())
    }
}

async fn make_unfit(client: &kube::Client, rule: usize) -> Result<()> {
    let service = objects::service(rule);
    let path = format!(
        "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices/{}",
        service.namespace, service.name
    );
    let change = json!([
        {"op": "replace", "path": "/endpoints/0/conditions/ready", "value": false},
        {"op": "replace", "path": "/endpoints/0/conditions/serving", "value": false},
    ]);
    client
        .call(Method::PATCH, &path, "application/json-patch+json", Some(&change))
        .await
        .map(drop)
}
