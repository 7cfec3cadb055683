use std::path::PathBuf;

use clap::{Args, Subcommand};

use limpet_core::time::GatewayDuration;

/// Copy this command and both builds of the filter into a directory, for an init container of an Envoy
///
/// The files are `limpet`, `limpet.wasm` and `liblimpet.so`. Each one appears as a whole and replaces the present one,
/// so the command may run again. If one of them cannot be read, nothing is written. Envoy's image needs no shell.
#[derive(Debug, Args)]
#[command(after_help = "limpet install --to /etc/limpet")]
pub(crate) struct InstallArgs {
    /// The directory to copy to. It is made if it is missing
    #[arg(long, value_name = "DIR")]
    pub(crate) to: PathBuf,
    /// The directory that has the filter, as in the image
    #[arg(long, value_name = "DIR", default_value = "/usr/share/limpet")]
    pub(crate) from: PathBuf,
}

/// Wait until this pod has no session and no stream left, for a preStop hook
///
/// The command asks the controller, which knows the pod by its address, so it needs no rights and no kubeconfig. It
/// ends when the controller has known for 15 seconds that nothing is left, or when the time is over. If the controller
/// does not answer or its counts are not complete, the command says why and asks again.
///
/// Give the pod a `terminationGracePeriodSeconds` that is longer than the timeout. `limpet install` copies the command
/// into a volume.
#[derive(Debug, Args)]
#[command(after_help = "\
  limpet wait-drained --timeout 30m
  limpet wait-drained --controller limpet-controller.limpet-system:18080 -n shop")]
pub(crate) struct WaitDrainedArgs {
    /// The address of the controller's pages
    #[arg(
        long,
        value_name = "HOST:PORT",
        default_value = "limpet-controller.limpet-system:18080",
        value_parser = host_and_port
    )]
    pub(crate) controller: String,
    /// The pod's namespace; Services of other namespaces do not count [default: the namespace of its service account,
    /// if its token is mounted, or else all]
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

#[derive(Debug, Subcommand)]
pub(crate) enum EnvoyCommand {
    Drain(DrainEnvoyArgs),
}

/// Drain the Envoy of this machine before it is ended, for a preStop hook
///
/// Envoy reports itself as not ready, and asks its clients to reconnect with its next answers. It still accepts
/// connections, because Services and load balancers learn only after a while that it ends. The command waits until no
/// request is under way, no client is connected, and none has connected for 10 seconds; or until the time is over.
#[derive(Debug, Args)]
#[command(after_help = "limpet envoy drain --admin-port 19000 --timeout 30s")]
pub(crate) struct DrainEnvoyArgs {
    /// The port of Envoy's admin interface, on 127.0.0.1
    #[arg(long, value_name = "PORT", default_value_t = 19000)]
    pub(crate) admin_port: u16,
    /// How long to wait at most. The pod's `terminationGracePeriodSeconds` must be longer
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub(crate) timeout: GatewayDuration,
}
