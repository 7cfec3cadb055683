use std::path::PathBuf;

use clap::Args;

use crate::exit::EXIT_CODES;

/// Show where sessions live: for each pod its sessions, its streams, and when it was used last
///
/// The controller is asked through the API server, with the rights of the kubeconfig: to list pods in the controller's
/// namespace, and to get `pods/proxy` there. A session counts until its idle bound is over. Requests are those since
/// the controllers started, or since the pod got sessions after a time without any.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct SessionsArgs {
    /// A Service or a pod, also like `service/NAME` or `pod/NAME` [default: all]
    #[arg(value_name = "SERVICE|POD")]
    pub(crate) name: Option<String>,
    /// The namespace [default: that of the kubeconfig]
    #[arg(long, short, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Show all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Go on, with a line for each change
    #[arg(long, short)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

// How controllers are reached. No doc comment: clap would take it for the command's.
#[derive(Debug, Args)]
pub(crate) struct ReachArgs {
    /// The namespace of the controller
    #[arg(long, value_name = "NAMESPACE", default_value = "limpet-system")]
    pub(crate) controller_namespace: String,
    /// The kubeconfig file of the cluster
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}
