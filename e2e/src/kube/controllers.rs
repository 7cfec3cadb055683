//! Kubernetes' own controllers of `EndpointSlices`, `ReplicaSet`s and deleted namespaces, and its garbage collector.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::daemon::Daemon;
use crate::tools;

pub(super) fn start(kubeconfig: &Path, directory: &Path) -> Result<Daemon> {
    let mut command = Command::new(tools::kube("kube-controllers")?);
    Daemon::start("kube-controllers", command.arg(kubeconfig), directory)
}
