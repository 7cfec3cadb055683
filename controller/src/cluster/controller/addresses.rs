//! The addresses that a start listens on, and `--check` tries.

use std::io::ErrorKind;
use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::cluster::cli::TargetKind;
use crate::cluster::config::Config;
use crate::exit::CommandFailure;

/// Listens on an address. `field` names it in the configuration.
pub(crate) async fn bind(field: &str, address: SocketAddr) -> Result<TcpListener, CommandFailure> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| cannot_listen(field, address, &error))
}

/// Checks that all addresses can be listened on. One that is in use may be in use by a running controller.
///
/// # Errors
/// If an address cannot be listened on.
pub(crate) fn check(config: &Config, target: TargetKind) -> Result<(), CommandFailure> {
    for (field, address) in config.addresses_to_listen_on(target) {
        match std::net::TcpListener::bind(address) {
            Err(error) if error.kind() != ErrorKind::AddrInUse => return Err(cannot_listen(field, address, &error)),
            _ => {}
        }
    }
    Ok(())
}

fn cannot_listen(field: &str, address: SocketAddr, error: &std::io::Error) -> CommandFailure {
    CommandFailure(format!("{field}: cannot listen on {address}: {error}"))
}
