use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::exit::EXIT_CODES;

#[derive(Debug, Subcommand)]
pub(crate) enum MigrateCommand {
    Policies(MigratePoliciesArgs),
}

/// Write session policies so that their sessions survive an upgrade of the Gateway API to release 1.7
///
/// Release 1.7 has no `sessionName` and no `cookieConfig` in an XBackendTrafficPolicy, and the API server leaves them
/// out of every policy that has them. Run this before the upgrade: it keeps what they say in annotations. Run it again
/// after the upgrade: it writes the fields of the new release. Names, lifetimes and timeouts stay the same, so all
/// sessions go on. Without --write, it prints what it would change, and the exit code is 1 if there is anything.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct MigratePoliciesArgs {
    /// Change the policies
    #[arg(long)]
    pub(crate) write: bool,
    /// The namespace [default: all]
    #[arg(long, short, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// The kubeconfig file of the cluster
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}
