//! `make chaos`: pods and processes end in every way while clients use sessions, and every loss must have a reason.
#![allow(clippy::indexing_slicing, reason = "JSON by index: what is not there is null")]

mod clients;
mod connections;
mod counters;
mod events;
mod processes;
mod results;
mod samples;
mod site;
mod watch;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hyper::Method;
use limpet_e2e::chaos::{Protocol, Report, judge};
use limpet_e2e::kube::Release;
use limpet_e2e::{Build, tools};
use serde_json::{Value, json};
use tokio::task::LocalSet;

use self::clients::Clients;
use self::counters::Counters;
use self::events::Stage;
use self::processes::Processes;
use self::samples::Samples;
use self::site::Site;
use self::watch::Watch;

const CLIENTS: usize = 200;
/// The length of a run without `MINUTES`, whose results are for docs.
const MINUTES: u64 = 10;
/// The time before the first event and after the last.
const PEACE: Duration = Duration::from_secs(5);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // One thread, so that events need not be `Send`.
    match LocalSet::new().run_until(Box::pin(run())).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nThe run failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Everything ends with the namespaces of this program.
async fn run() -> Result<()> {
    if std::env::args().nth(1).as_deref() == Some(counters::READ) {
        return counters::print().await;
    }
    let minutes = minutes()?;
    let filter = Build::tested()?;
    let site = Site::install(filter).await?;
    let mut about = about(&site, filter, minutes).await?;
    println!("Everything ends for {minutes} minutes, and then until it is back");
    let begun = Instant::now();
    let processes = Processes::watch(begun)?;
    let samples = Samples::take(begun, processes.clone())?;
    let counters = Counters::watch(processes.clone());
    let watch = Watch::start(begun, site.default.clone(), processes);
    let clients = Clients::start(begun, CLIENTS, &Protocol::ALL, site.address).await?;
    let stage = Arc::new(Stage::new(site, watch));
    tokio::time::sleep(PEACE).await;
    let happened = stage.happen(Duration::from_secs(minutes * 60)).await;
    tokio::time::sleep(PEACE).await;
    let visits = clients.leave().await?;
    let pods = stage.watch.history();
    let (envoys, counters) = counters.sums();
    about["envoys"] = envoys.into();
    let happened = happened.inspect_err(|error| eprintln!("An event failed: {error:#}"));
    let events = happened
        .as_ref()
        .map(|happened| happened.iter().map(|(event, times)| (event.name(), *times)));
    let report = Report {
        about,
        events: events.into_iter().flatten().collect(),
        verdict: judge(&pods, &visits),
        counters,
        samples: samples.all(),
    };
    results::write(&report, minutes == MINUTES)?;
    let faults = report.faults();
    for pod in pods.iter().filter(|_| !faults.is_empty()) {
        eprintln!("{:?} {} {:?} {:?}", pod.role, pod.name, pod.address, pod.ends);
    }
    for fault in faults.iter().take(50) {
        eprintln!("{fault}");
    }
    happened?;
    ensure!(faults.is_empty(), "{} faults", faults.len());
    Ok(())
}

fn minutes() -> Result<u64> {
    match std::env::var("MINUTES").ok().filter(|minutes| !minutes.is_empty()) {
        None => Ok(MINUTES),
        Some(minutes) => {
            let number = minutes.parse().ok().filter(|minutes| *minutes > 0);
            number.with_context(|| format!("MINUTES is {minutes}: expected a whole number above 0"))
        }
    }
}

async fn about(site: &Site, filter: Build, minutes: u64) -> Result<Value> {
    let version = site.default.call(Method::GET, "/version", "", None).await?;
    let (major, minor) = tools::envoy_version()?;
    let namespace = site.default.get("v1/Namespace", site::SYSTEM).await?;
    let date = namespace["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
    Ok(json!({
        "filter": match filter { Build::Wasm => "wasm", Build::Module => "module" },
        "minutes": minutes,
        "clients": CLIENTS,
        "date": date.split('T').next(),
        "envoy": format!("{major}.{minor}"),
        "kubernetes": version["gitVersion"],
        "gatewayApi": Release::V1_7_0.tag(),
        "machine": results::machine()?,
    }))
}
