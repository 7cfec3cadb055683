//! A backend of the tests as a program, for pods. The environment names it (`POD_NAME`). It listens at port 8000 until
//! it is told to end.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use limpet_e2e::Backend;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let name = std::env::var("POD_NAME").context("POD_NAME")?;
    let mut backend = Backend::start_at(&name, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 8000)))?;
    terminate.recv().await;
    backend.stop().await;
    Ok(())
}
