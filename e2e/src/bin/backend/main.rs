//! The tests' backend for pods, named by `POD_NAME`, at port 8000. After SIGTERM it ends as in docs/how-to/rollouts.md:
//! unready, it serves until all Envoys know, and finishes its requests.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use limpet_e2e::protocols::{Chat, Echo};
use limpet_e2e::{Backend, Protocol};
use tokio::signal::unix::{SignalKind, signal};

/// Longer than a readiness probe and Envoys take to learn.
const KNOWN: Duration = Duration::from_secs(15);
/// The limit of requests; open streams end after it.
const REQUESTS: Duration = Duration::from_secs(5);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let name = std::env::var("POD_NAME").context("POD_NAME")?;
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 8000));
    let protocols: [Arc<dyn Protocol>; 2] = [Arc::new(Echo), Arc::new(Chat)];
    let mut backend = Backend::start_speaking(&name, address, &protocols)?;
    terminate.recv().await;
    backend.leave();
    tokio::time::sleep(KNOWN).await;
    backend.finish(REQUESTS).await;
    Ok(())
}
