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

/// Wait until this pod has no session and no stream left, for a preStop hook
///
/// The command asks the controller, which knows the pod by its address, so it needs no rights and no kubeconfig. It
/// ends when the controller has known for 15 seconds that nothing is left, or when the time is over, with exit code 1.
/// Give the pod a `terminationGracePeriodSeconds` that is longer. `limpet install` copies the command into a volume.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct DrainedArgs {
    /// The pod that this command runs in
    #[arg(long = "self", required = true)]
    pub(crate) own: bool,
    /// `host:port` of the controller's pages
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "limpet-controller.limpet-system:18080",
        value_parser = host_and_port
    )]
    pub(crate) controller: String,
    /// The pod's namespace, in which its Services are: the one of its service account by default, where its token is
    /// mounted
    #[arg(long, short, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// How long to wait at most
    #[arg(long, value_name = "DURATION", default_value = "30m")]
    pub(crate) timeout: GatewayDuration,
}

fn host_and_port(text: &str) -> Result<String, String> {
    let is_address = |(host, port): (&str, &str)| {
        let is_host = !host.is_empty() && (host.starts_with('[') && host.ends_with(']') || !host.contains([':', '/']));
        is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    if text.rsplit_once(':').is_some_and(is_address) {
        Ok(text.to_owned())
    } else {
        Err("expected host:port, such as limpet-controller.limpet-system:18080".to_owned())
    }
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
