use std::process::Command;

use anyhow::{Result, ensure};
use limpet_e2e::tools;

fn promtool(arguments: &[&str]) -> Result<()> {
    let output = Command::new(tools::prometheus("promtool")?)
        .args(arguments)
        .current_dir(tools::checkout())
        .output()?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    Ok(())
}

#[test]
fn prometheus_takes_the_rules_without_a_warning() -> Result<()> {
    promtool(&[
        "check",
        "rules",
        "--lint=all",
        "--lint-fatal",
        "controller/deploy/monitoring/limpet.rules.yaml",
    ])
}

#[test]
fn each_alert_fires_for_its_reason_alone() -> Result<()> {
    promtool(&["test", "rules", "e2e/tests/kube/monitoring/alerts.yaml"])
}
