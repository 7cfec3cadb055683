//! The only node is cordoned and drained, so evicted pods return only after `kubectl uncordon`. The Deployments'
//! budgets decide how many pods go.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use limpet_e2e::chaos::Role;
use limpet_e2e::tools;

use super::Stage;
use crate::site::Site;

const NODE: &str = "node";
/// Without an end, it would wait for another node.
const TIME: &str = "--timeout=40s";
/// `CoreDNS` has one pod here, and no budget.
const PODS: &str = "--pod-selector=k8s-app!=kube-dns";

pub(super) async fn node(stage: &Stage) -> Result<()> {
    let drained = kubectl(
        &stage.site,
        &[
            "drain",
            NODE,
            "--ignore-daemonsets",
            "--delete-emptydir-data",
            TIME,
            PODS,
        ],
    )
    .await?;
    let said = String::from_utf8_lossy(&drained.stderr).into_owned();
    let uncordoned = kubectl(&stage.site, &["uncordon", NODE]).await?;
    ensure!(
        uncordoned.status.success(),
        "{}",
        String::from_utf8_lossy(&uncordoned.stderr)
    );
    ensure!(
        !drained.status.success() && said.contains("disruption budget"),
        "no budget kept any pod: {said}"
    );
    for (role, count) in [(Role::Controller, 2), (Role::Envoy, 3), (Role::Application, 2)] {
        stage.until_ready(role, count).await?;
    }
    Ok(())
}

/// In the background, because clients continue.
async fn kubectl(site: &Site, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(tools::helm()?.with_file_name("kubectl"));
    command
        .args(arguments)
        .arg("--kubeconfig")
        .arg(site.node.server().admin_kubeconfig()?);
    tokio::task::spawn_blocking(move || command.output())
        .await?
        .context("cannot run kubectl")
}
