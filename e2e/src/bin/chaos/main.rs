//! `make chaos`: pods and processes end in every way while clients use their sessions, and everything that clients see
//! is counted and has to have a reason.
#![allow(clippy::indexing_slicing, reason = "JSON by index: what is not there is null")]

mod clients;
mod connections;
mod events;
mod processes;
mod site;
mod watch;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use limpet_e2e::Build;
use limpet_e2e::chaos::{Protocol, judge};

use self::clients::Clients;
use self::processes::Processes;
use self::site::Site;
use self::watch::Watch;

const CLIENTS: usize = 20;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nThe run failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Everything ends with the namespaces that this runs in, by whatever ends it.
async fn run() -> Result<()> {
    let site = Site::install(Build::tested()?).await?;
    let begun = Instant::now();
    let watch = Watch::start(begun, site.default.clone(), Processes::watch(begun)?);
    let clients = Clients::start(begun, CLIENTS, &[Protocol::Http1], site.address);
    tokio::time::sleep(Duration::from_secs(5)).await;
    events::application_rollout(&site, 1).await?;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let visits = clients.leave().await?;
    let pods = watch.history();
    let verdict = judge(&pods, &visits);
    println!("{verdict:#?}");
    ensure!(verdict.failed.is_empty() && verdict.moved.is_empty() && verdict.moved_again.is_empty());
    Ok(())
}
