use clap::Args;

use super::sessions::ReachArgs;
use crate::cli::DrainEnvoyArgs;
use crate::exit::EXIT_CODES;
use limpet_core::time::GatewayDuration;

/// Drain a pod: it gets no new sessions, and keeps those that it has. Or drain the Envoy of this machine
///
/// An annotation of the pod says that it drains; --undo takes it away. The command needs the rights to get and patch
/// pods, and to list EndpointSlices. With --wait, it needs those of `limpet sessions` as well.
///
/// Without POD, it drains the Envoy of this machine before it is ended, for a preStop hook. Envoy then reports itself
/// as not ready, and asks its clients to connect anew with its next answers. It goes on to accept connections, because
/// others learn only after a while that it ends. The command waits until no request is under way, no client is
/// connected, and none has connected for 10 seconds; or until the time is over.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct DrainArgs {
    /// The pod, also like `pod/NAME` [default: drain the Envoy of this machine]
    #[arg(value_name = "POD", conflicts_with_all = ["admin_port", "time"])]
    pub(crate) pod: Option<String>,
    /// The namespace of the pod [default: that of the kubeconfig]
    #[arg(long, short, value_name = "NAMESPACE", requires = "pod")]
    pub(crate) namespace: Option<String>,
    /// Let the pod take new sessions again
    #[arg(long, requires = "pod")]
    pub(crate) undo: bool,
    /// Show the sessions and streams of the pod until there are none
    #[arg(long, requires = "pod", conflicts_with = "undo")]
    pub(crate) wait: bool,
    /// With --wait: how long to wait at most
    #[arg(long, value_name = "DURATION", default_value = "30m", requires = "wait")]
    pub(crate) timeout: GatewayDuration,
    /// With --wait: delete the pod when there are none
    #[arg(long, requires = "wait")]
    pub(crate) delete: bool,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
    #[command(flatten)]
    pub(crate) envoy: DrainEnvoyArgs,
}
