use std::path::PathBuf;

use clap::Args;

use crate::exit::EXIT_CODES;
use limpet_core::time::GatewayDuration;

/// Copy this command and both builds of the filter into a directory, for an init container of an Envoy
///
/// The files are `limpet`, `limpet.wasm` and `liblimpet.so`. Each one appears as a whole, and takes the place of what
/// was there, so the command may run again.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct InstallArgs {
    /// The directory to write to, for example /etc/limpet. It is made if it is missing
    #[arg(long, value_name = "DIR")]
    pub(crate) to: PathBuf,
    /// The directory that has the filter
    #[arg(long, value_name = "DIR", default_value = "/usr/share/limpet")]
    pub(crate) from: PathBuf,
}

/// Drain the Envoy of this machine before it is ended, for a preStop hook
///
/// Envoy then reports itself as not ready, and asks its clients to connect anew with its next answers. It goes on to
/// accept connections, because others learn only after a while that it ends. The command waits until no request is
/// under way, no client is connected, and none has connected for 10 seconds; or until the time is over.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct DrainArgs {
    /// The port of Envoy's admin interface, on 127.0.0.1
    #[arg(long, value_name = "PORT", default_value_t = 19000)]
    pub(crate) admin_port: u16,
    /// How long to wait at most
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub(crate) time: GatewayDuration,
}
