//! Limpet and Envoy Gateway in turn on the same objects: memory, start, changes until an Envoy serves them, and
//! processor time.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Client, Controller, EnvoyGateway};
use limpet_e2e::{Backend, Request};

use crate::catalog::{Catalog, PORT, host, route_name};
use crate::report::{median, row};
use crate::subject::Subject;

const ROUNDS: usize = 3;
/// Changes of each kind in a round.
const CHANGES: usize = 10;
const PATIENCE: Duration = Duration::from_secs(90);
/// Envoy Gateway's class, and the Gateways' ports: its Envoys listen at all addresses.
const CLASS: &str = "eg";
const PORTS: [u16; 2] = [8090, 8091];
const GATEWAYS: [&str; 2] = ["limpet", "peer"];

const WHAT: [&str; 8] = [
    "start, until an Envoy serves all hosts, ms",
    "  CPU until it is at rest, ms",
    "memory then, MB",
    "a changed route, until it is served, ms",
    "  CPU, ms",
    "a changed endpoint, until it is served, ms",
    "  CPU, ms",
    "most memory, MB",
];

#[expect(clippy::indexing_slicing, reason = "arrays of two controllers and eight figures")]
pub(crate) async fn run(routes: usize) -> Result<()> {
    let mut peer = EnvoyGateway::start().await?;
    let namespace = peer.cluster().namespace("bench").await?;
    let catalog = Catalog {
        namespace: namespace.name().to_owned(),
        routes,
        gateways: vec![GATEWAYS.map(str::to_owned).to_vec()],
        ..Catalog::default()
    };
    println!("\nLimpet and Envoy Gateway: {routes} routes with a session and a Service each, {ROUNDS} rounds");
    let admin = peer.cluster().server().admin();
    namespace.gateway_class().await?;
    for ((name, class), port) in GATEWAYS.iter().zip([namespace.name(), CLASS]).zip(PORTS) {
        admin.apply_object(&catalog.gateway(class, name, port)).await?;
    }
    let mut limpet = Controller::prepare(peer.cluster().server(), &namespace, |_| {}).await?;
    let addresses = [limpet.address(PORTS[0]), SocketAddr::from(([127, 0, 0, 1], PORTS[1]))];
    // Its objects for Envoys stay.
    drop(peer.envoy(&namespace, GATEWAYS[1], &[]).await?);
    peer.end();
    catalog.write(peer.cluster().server()).await?;
    let backend = SocketAddr::new(namespace.next_address()?, PORT);
    let _backend = Backend::start_at("backend", backend)?;

    let mut all = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for which in [round % 2, 1 - round % 2] {
            let start = Instant::now();
            let (pid, envoy) = if which == 0 {
                limpet.launch()?;
                (limpet.process()?.id(), limpet.envoy(GATEWAYS[0], "bench").await?)
            } else {
                peer.start_again().await?;
                (peer.pid(), peer.envoy(&namespace, GATEWAYS[1], &[]).await?)
            };
            let site = Site {
                catalog: &catalog,
                admin: &admin,
                subject: Subject(pid),
                address: addresses[which],
                backend,
                first: (2 * round + which) * CHANGES,
            };
            let measured = site.measure(start).await.with_context(|| GATEWAYS[which].to_owned())?;
            all[which].push(measured);
            drop(envoy);
            if which == 0 { limpet.end().await? } else { peer.end() }
        }
    }
    let of = |which: usize, at: usize| median(all[which].iter().map(|round: &[f64; 8]| round[at]).collect());
    row("", format!("{:>12} {:>15}", "Limpet", "Envoy Gateway"));
    for (at, what) in WHAT.iter().enumerate() {
        row(what, format!("{:12.1} {:15.1}", of(0, at), of(1, at)));
    }
    Ok(())
}

struct Site<'a> {
    catalog: &'a Catalog,
    admin: &'a Client,
    subject: Subject,
    address: SocketAddr,
    backend: SocketAddr,
    /// The first route to change.
    first: usize,
}

impl Site<'_> {
    async fn measure(&self, start: Instant) -> Result<[f64; 8]> {
        let last = self.catalog.routes - 1;
        // Routes that no round changes.
        for number in [2 * ROUNDS * CHANGES, last / 2, last] {
            self.until(number, |status| status != 404).await?;
        }
        let started = start.elapsed();
        self.subject.until_at_rest().await?;
        let (spent, memory) = (self.subject.ran()?, self.subject.memory()?);
        let middle = self.catalog.routes / 2;
        let routes = async |number| self.catalog.change_route(self.admin, number, "/elsewhere").await;
        let routes = self.changes(self.first, routes, |status| status == 404).await?;
        let endpoints = async |number| self.catalog.serve_at(self.admin, number, self.backend.ip()).await;
        let endpoints = self
            .changes(middle + self.first, endpoints, |status| status == 200)
            .await?;
        #[expect(clippy::cast_precision_loss, reason = "some megabytes")]
        let megabytes = |kilobytes: u64| kilobytes as f64 / 1024.0;
        Ok([
            millis(started),
            millis(spent),
            megabytes(memory),
            routes[0],
            routes[1],
            endpoints[0],
            endpoints[1],
            megabytes(self.subject.peak_memory()?),
        ])
    }

    /// Changes routes. Returns the median until an Envoy served one, and the CPU of each.
    async fn changes(
        &self,
        first: usize,
        mut change: impl AsyncFnMut(usize) -> Result<()>,
        served: impl Fn(u16) -> bool,
    ) -> Result<[f64; 2]> {
        self.subject.until_at_rest().await?;
        let idle = self.subject.idle().await?;
        let (before, since) = (self.subject.ran()?, Instant::now());
        let mut took = Vec::new();
        for number in first..first + CHANGES {
            let start = Instant::now();
            change(number).await?;
            self.until(number, &served).await?;
            took.push(millis(start.elapsed()));
            self.subject.until_quiet().await?;
        }
        self.subject.until_at_rest().await?;
        let spent = self
            .subject
            .ran_since(before)?
            .saturating_sub(since.elapsed().mul_f64(idle));
        Ok([median(took), millis(spent / u32::try_from(CHANGES)?)])
    }

    async fn until(&self, number: usize, served: impl Fn(u16) -> bool) -> Result<()> {
        let (start, host) = (Instant::now(), host(&route_name(number)));
        loop {
            let answer = Request::get(self.address, "/").header("host", &host).send().await;
            if answer.is_ok_and(|answer| served(answer.status)) {
                return Ok(());
            }
            ensure!(start.elapsed() < PATIENCE, "{host} is not served as expected");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
