//! `make demo-kube`: from objects in a Kubernetes API server to signed sessions through a stock Envoy, told step by step in the terminal, and
//! checked: a step that does not do what it says ends the demo with an error.
//!
//! API server, etcd and controllers are Kubernetes' own. What is not there is a kubelet: the pods are backends of this process.

#![allow(clippy::indexing_slicing, reason = "JSON by index: what is not there is null")]

mod keys;
mod objects;
mod stage;
mod walk;

use std::process::ExitCode;

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};

use stage::Stage;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nThe demo ends here: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whatever way this ends, everything that was started ends with it: by its value, and by its namespace.
async fn run() -> Result<()> {
    let once = std::env::var("DEMO").is_ok_and(|demo| demo == "once");
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let show = async {
        let mut stage = Stage::set().await?;
        walk::walk(&mut stage).await?;
        if once {
            return Ok(());
        }
        walk::say_what_to_try(&stage)?;
        std::future::pending().await
    };
    tokio::select! {
        ended = show => ended,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}
