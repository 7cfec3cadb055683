//! Kubernetes' own controllers.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::daemon::Daemon;
use crate::tools;

/// Starts the controllers that make `EndpointSlices`, keep the pods of `ReplicaSet`s, empty deleted namespaces, and
/// delete objects whose owners are gone.
pub(super) fn start(kubeconfig: &Path, directory: &Path) -> Result<Daemon> {
    let mut command = Command::new(tools::kube("kube-controllers")?);
    Daemon::start("kube-controllers", command.arg(kubeconfig), directory)
}
