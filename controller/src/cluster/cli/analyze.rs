use clap::Args;

use super::explain::controller;
use super::{ClusterArgs, TargetKind};
use limpet_api::ObjectName;

/// Find what is wrong in a cluster or in files: errors first, then warnings
///
/// Each finding has a code, its object or file, one sentence, and the page that explains it. The command knows what
/// `limpet check` says of configurations, what `limpet render` reports of objects, and what the controller wrote into
/// statuses.
///
/// Without --filename, it reads the cluster with the rights of the kubeconfig, and writes nothing: it lists the kinds
/// that the controller reads, and gets its ConfigMaps and the keyring. A warning names each kind that it may not list.
/// Findings that depend on such a kind come from the controller's statuses. With --filename, it ignores a status in a
/// file: what the objects would become counts.
#[derive(Debug, Args)]
#[command(after_help = "\
  limpet analyze -A
  limpet analyze -n shop -o json
  limpet analyze -f manifests -f envoy.yaml")]
pub(crate) struct AnalyzeArgs {
    /// Files and directories (.yaml, .yml, .json), or `-` for standard input, in place of a cluster: objects of
    /// Kubernetes, configurations of the filter or of Envoy
    #[arg(short = 'f', long = "filename", value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    pub(crate) files: Vec<String>,
    /// Only objects of this namespace and those without a namespace [default: the kubeconfig's]
    #[arg(long, short, value_name = "NAMESPACE", conflicts_with = "files")]
    pub(crate) namespace: Option<String>,
    /// Objects of all namespaces, and the keyring
    #[arg(long, short = 'A', conflicts_with_all = ["namespace", "files"])]
    pub(crate) all_namespaces: bool,
    /// The configuration of the controller, in YAML or JSON [default: the ConfigMap of --controller; with --filename,
    /// its defaults]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// The namespace of the controller; behind a slash, the ConfigMap with its configuration, by default
    /// `limpet-controller`
    #[arg(long, value_name = "NAMESPACE[/NAME]", default_value = "limpet-system", value_parser = controller)]
    pub(crate) controller: ObjectName,
    /// What the controller configures
    #[arg(long, value_enum, default_value = "envoy")]
    pub(crate) target: TargetKind,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}
