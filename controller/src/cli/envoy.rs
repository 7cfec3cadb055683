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

// How an Envoy is drained. No doc comment: clap would take it for the command's.
#[derive(Debug, Args)]
pub(crate) struct DrainEnvoyArgs {
    /// For an Envoy: the port of its admin interface, on 127.0.0.1
    #[arg(long, value_name = "PORT", default_value_t = 19000)]
    pub(crate) admin_port: u16,
    /// For an Envoy: how long to wait at most
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub(crate) time: GatewayDuration,
}
