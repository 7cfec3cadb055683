//! The memory that routes take of an Envoy: without sessions, and with a policy each, by build; added in turn, or there
//! at its start.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{self, Cluster, Controller, Proxy, Release};
use limpet_e2e::{Backend, Build, Connection, Request, poll};
use serde_json::Value;

use crate::catalog::{Catalog, PORT, Sessions, host, route_name};
use crate::report::{memory, row};

/// Longer than the controller waits, so that each route is a push.
const PAUSE: Duration = Duration::from_millis(50);
/// Replaced configuration goes once workers have the new one.
const REPLACED: Duration = Duration::from_secs(2);
/// Connections for each host, so that each worker has some.
const CONNECTIONS: usize = 8;
const LISTENER: u16 = 8080;

pub(crate) async fn run(routes: usize) -> Result<()> {
    ensure!(routes > 1, "expected more than one route");
    let cluster = Cluster::start(&Release::V1_6_1.definitions()?).await?;
    println!("\nMemory of an Envoy with two workers: {routes} routes with a Service of two endpoints each");
    for (name, sessions, build) in [
        ("no sessions", Sessions::None, Build::Module),
        ("module", Sessions::OfOwnPolicies, Build::Module),
        ("wasm", Sessions::OfOwnPolicies, Build::Wasm),
    ] {
        measure(&cluster, name, sessions, build, routes).await?;
    }
    Ok(())
}

async fn measure(cluster: &Cluster, name: &str, sessions: Sessions, build: Build, routes: usize) -> Result<()> {
    let (server, namespace) = (cluster.server(), cluster.namespace("bench").await?);
    let endpoints = vec![namespace.next_address()?, namespace.next_address()?];
    let start = |at| Backend::start_at("backend", SocketAddr::new(at, PORT));
    let _backends: Vec<Backend> = endpoints.iter().copied().map(start).collect::<Result<_>>()?;
    let catalog = Catalog {
        namespace: namespace.name().to_owned(),
        routes,
        gateways: vec![vec!["edge".to_owned()]],
        sessions,
        endpoints,
        ..Catalog::default()
    };
    let admin = server.admin();
    namespace.gateway_class().await?;
    admin
        .apply_object(&catalog.gateway(namespace.name(), "edge", LISTENER))
        .await?;
    // So that the first measurement has the VMs.
    catalog.write_route(&admin, 0).await?;
    let filter = kube::filter(build)?;
    let with_filter = |config: &mut Value| {
        if let Some(of_config) = config.pointer_mut("/envoy/filter") {
            *of_config = filter;
        }
    };
    let controller = Controller::start(server, &namespace, with_filter).await?;
    let address = controller.address(LISTENER);

    let mut envoy = controller.envoy("edge", "one-by-one").await?;
    envoy.until_ready().await?;
    until_served(address, 0).await?;
    let first = Memory::of(&envoy).await?;
    for number in 1..routes {
        catalog.write_route(&admin, number).await?;
        tokio::time::sleep(PAUSE).await;
    }
    first
        .print_since(&format!("{name}, one by one"), &envoy, address, routes)
        .await?;
    drop(envoy);

    let mut envoy = controller.envoy("edge", "at-once").await?;
    envoy.until_ready().await?;
    first
        .print_since(&format!("{name}, at once"), &envoy, address, routes)
        .await
}

/// In bytes.
struct Memory {
    /// Envoy's own figure, without VMs.
    allocated: u64,
    resident: u64,
}

impl Memory {
    async fn of(envoy: &Proxy) -> Result<Self> {
        tokio::time::sleep(REPLACED).await;
        let page: Value = serde_json::from_str(&envoy.admin().text("/memory").await?)?;
        let allocated = page.get("allocated").and_then(Value::as_str);
        Ok(Self {
            allocated: allocated.context("no allocated")?.parse()?,
            resident: memory(&envoy.pid().to_string())? * 1024,
        })
    }

    /// Prints the growth per route since the first, before and after requests.
    async fn print_since(&self, name: &str, envoy: &Proxy, address: SocketAddr, routes: usize) -> Result<()> {
        until_served(address, routes - 1).await?;
        self.print(name, &Self::of(envoy).await?, routes)?;
        ask_all(address, routes).await?;
        self.print("  after requests of each", &Self::of(envoy).await?, routes)
    }

    fn print(&self, name: &str, now: &Self, routes: usize) -> Result<()> {
        let each = |now: u64, first: u64| anyhow::Ok(now.saturating_sub(first) / u64::try_from(routes - 1)?);
        row(
            name,
            format!(
                "{} bytes allocated for each route, {} resident; {} MB in all",
                each(now.allocated, self.allocated)?,
                each(now.resident, self.resident)?,
                now.resident >> 20
            ),
        );
        Ok(())
    }
}

async fn until_served(address: SocketAddr, number: usize) -> Result<()> {
    let host = host(&route_name(number));
    poll::until("an answer for the last route", async || {
        let answer = Request::get(address, "/").header("host", &host).send().await.ok()?;
        (answer.status == 200).then_some(())
    })
    .await
}

async fn ask_all(address: SocketAddr, routes: usize) -> Result<()> {
    for _ in 0..CONNECTIONS {
        let mut connection = Connection::open(address, false).await?;
        for number in 0..routes {
            let request = Request::get(address, "/").header("host", host(&route_name(number)));
            let answer = connection.send(request).await?;
            ensure!(answer.status == 200, "route {number}: {answer:?}");
        }
    }
    Ok(())
}
