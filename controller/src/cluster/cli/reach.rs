use std::path::PathBuf;

use clap::Args;

// How a cluster is reached. No doc comment: clap would take it for the command's.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// The kubeconfig file of the cluster [default: KUBECONFIG, else ~/.kube/config, else the cluster that the command
    /// runs in]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

// How controllers are reached. No doc comment: clap would take it for the command's.
#[derive(Debug, Args)]
pub(crate) struct ReachArgs {
    /// The namespace of the controller
    #[arg(long, value_name = "NAMESPACE", default_value = "limpet-system")]
    pub(crate) controller: String,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}
