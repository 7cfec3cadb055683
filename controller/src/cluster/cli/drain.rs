use clap::Args;

use super::ReachArgs;
use limpet_core::time::GatewayDuration;

/// Drain a pod: it gets no new sessions, and keeps those that it has
///
/// The command writes an annotation of the pod, which controllers read; --undo removes it. It needs the rights to get
/// and patch pods, and to list EndpointSlices.
///
/// With --wait, it shows the sessions that are left, in all Services of the pod, until it was known for 15 seconds that
/// there are none. It needs the rights of `limpet sessions` as well, and changes nothing if no controller answers.
///
/// `limpet envoy drain` drains the Envoy of this machine.
#[derive(Debug, Args)]
#[command(after_help = "\
  limpet drain shop-1
  limpet drain shop-1 -n shop --wait --timeout 1h --delete
  limpet drain shop-1 --undo")]
pub(crate) struct DrainArgs {
    /// The pod: `shop-1` or `pod/shop-1`
    #[arg(value_name = "POD")]
    pub(crate) pod: String,
    /// The namespace of the pod [default: the kubeconfig's]
    #[arg(long, short, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Let the pod take new sessions again
    #[arg(long)]
    pub(crate) undo: bool,
    /// Show the sessions and streams of the pod until there are none
    #[arg(long, conflicts_with = "undo")]
    pub(crate) wait: bool,
    /// With --wait: how long to wait at most
    #[arg(long, value_name = "DURATION", default_value = "30m", requires = "wait")]
    pub(crate) timeout: GatewayDuration,
    /// With --wait: delete the pod when there are none. If it is gone by then, nothing is deleted, nor another pod that
    /// has its name
    #[arg(long, requires = "wait")]
    pub(crate) delete: bool,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}
