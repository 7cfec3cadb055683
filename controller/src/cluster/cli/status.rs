use clap::Args;

use super::{ReachArgs, TargetKind};

/// Show whether an installation works: controllers, Gateways, keys, and the worst findings, on one screen
///
/// The controllers are asked as `limpet sessions` does it, with the rights to list pods in their namespace and to get
/// `pods/proxy` there. Everything else is as `limpet analyze -A` reads it. What a right is missing for is a warning.
#[derive(Debug, Args)]
#[command(after_help = "\
  limpet status
  limpet status -n shop
  limpet status -o json")]
pub(crate) struct StatusArgs {
    /// Only Gateways and findings of this namespace [default: all]
    #[arg(long, short, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// What the controller configures
    #[arg(long, value_enum, default_value = "envoy")]
    pub(crate) target: TargetKind,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// Show the versions of this command, of the controllers, and of the Envoys that are connected to them
///
/// A cluster that does not answer within 2 seconds is no error.
#[derive(Debug, Args)]
#[command(after_help = "\
  limpet version
  limpet version --client
  limpet version -o json")]
pub(crate) struct VersionArgs {
    /// Only the version of this command, without a cluster
    #[arg(long)]
    pub(crate) client: bool,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}
