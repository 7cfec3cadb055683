//! `make demo-kube`: shows step by step how Kubernetes objects lead to signed sessions through a stock Envoy, and
//! checks each step.
//!
//! The API server, etcd and the controllers are Kubernetes' own; the pods are backends in this process.

#![allow(clippy::indexing_slicing, reason = "JSON by index: what is not there is null")]

mod keys;
mod objects;
mod sessions;
mod setup;
mod steps;

use std::process::ExitCode;

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};

use setup::Setup;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nThe demo failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Everything started ends with this: by its value, or with the network namespace.
async fn run() -> Result<()> {
    let once = std::env::var("DEMO").is_ok_and(|demo| demo == "once");
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let show = async {
        let mut setup = Setup::start().await?;
        steps::run(&mut setup).await?;
        if once {
            return Ok(());
        }
        steps::print_commands_to_try(&setup)?;
        std::future::pending().await
    };
    tokio::select! {
        ended = show => ended,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}
