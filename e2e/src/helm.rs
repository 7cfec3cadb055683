//! Helm, and the chart.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};

use crate::tools;

/// The chart.
#[must_use]
pub fn chart() -> PathBuf {
    tools::checkout().join("controller/deploy/chart")
}

/// Helm without the user's settings and plugins.
///
/// # Errors
/// If there is no Helm.
pub fn command(arguments: &[&str]) -> Result<Command> {
    Ok(command_of(&tools::helm()?, arguments))
}

fn command_of(helm: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(helm);
    command.args(arguments);
    let nowhere = std::env::temp_dir().join("limpet-helm");
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(variable, nowhere.join(variable));
    }
    command
}

/// Runs Helm and returns its output.
///
/// # Errors
/// If it fails.
pub fn run(arguments: &[&str]) -> Result<String> {
    run_with(&tools::helm()?, arguments)
}

/// As [`run`], with this Helm.
///
/// # Errors
/// If it fails.
pub fn run_with(helm: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = command_of(helm, arguments);
    let Output { status, stdout, stderr } = command.output().context("cannot run helm")?;
    let said = String::from_utf8_lossy(&stderr);
    ensure!(status.success(), "helm {}: {said}", arguments.join(" "));
    Ok(String::from_utf8(stdout)?)
}
