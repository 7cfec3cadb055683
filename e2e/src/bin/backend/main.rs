//! A backend of the tests as a program, for pods. The environment names it (`POD_NAME`). It listens at port 8000 until
//! SIGTERM. Then it ends as docs/how-to/rollouts.md says: it is not ready any more, serves until all Envoys know, and
//! finishes its requests.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use limpet_e2e::protocols::{Chat, Echo};
use limpet_e2e::{Backend, Protocol};
use tokio::signal::unix::{SignalKind, signal};

/// Longer than a readiness probe takes to notice, and Envoys to learn.
const KNOWN: Duration = Duration::from_secs(15);
/// How long requests may take. Open streams end after it.
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
