//! `make demo`: shows a signed session through a stock Envoy step by step, and checks each step.

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

/// The backends end with the process, and Envoy with the thread that started it.
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
        setup.restart_backends()?;
        steps::print_commands_to_try(&setup);
        std::future::pending().await
    };
    tokio::select! {
        ended = show => ended,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}
