use std::path::PathBuf;

use clap::Args;

use crate::run::LogFormat;

/// Watches a Kubernetes cluster's Gateway API objects and session policies, and serves Envoys what they mean.
///
/// The cluster is that of --kubeconfig, else that of KUBECONFIG, else the one that this runs in.
#[derive(Debug, Args)]
pub(crate) struct ControllerArgs {
    /// The controller's configuration, in YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// How the cluster is reached
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The form of the log, on stderr. Its level is that of `RUST_LOG`, or `info`
    #[arg(long, value_enum, default_value = "text", value_name = "FORM")]
    pub(crate) log_format: LogFormat,
}
