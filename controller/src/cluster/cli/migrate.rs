use clap::{Args, Subcommand};

use super::ClusterArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum MigrateCommand {
    Policies(MigratePoliciesArgs),
}

/// Write session policies so that their sessions survive an upgrade of the Gateway API to release 1.7
///
/// Release 1.7 has no `sessionName` and no `cookieConfig` in an XBackendTrafficPolicy, and the API server leaves them
/// out of every policy that has them. Run this before the upgrade: it keeps their values in annotations. Run it again
/// after the upgrade: it writes the fields of the new release. Names, lifetimes and timeouts stay the same, so all
/// sessions survive.
///
/// Without --write, it prints what it would change. It needs the rights to list and patch the policies. If a policy
/// changes at the same moment, the API server refuses the change: run the command again.
#[derive(Debug, Args)]
#[command(after_help = "\
  limpet migrate policies -A
  limpet migrate policies -A --write
  limpet migrate policies -n shop --write")]
pub(crate) struct MigratePoliciesArgs {
    /// Change the policies in the cluster
    #[arg(long)]
    pub(crate) write: bool,
    /// The namespace [default: the kubeconfig's]
    #[arg(long, short, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// The policies of all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}
