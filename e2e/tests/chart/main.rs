//! The Helm chart, and the manifests for kustomize that it makes. No cluster is needed. `make manifests` writes what
//! these tests compare.
#![allow(clippy::indexing_slicing, reason = "a failed index is a failed test")]

mod golden;
mod kustomize;
mod refusals;
mod values;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use limpet_e2e::{helm, tools};

/// `arguments`: a release's name, its namespace, and values.
fn template(arguments: &[&str]) -> Result<String> {
    let chart = helm::chart();
    let mut all = vec!["template", chart.to_str().context("a path")?];
    all.extend(arguments);
    helm::run(&all)
}

fn checkout(path: &str) -> PathBuf {
    tools::checkout().join(path)
}

/// Compares a file, or writes it if `UPDATE_GOLDEN` is set.
fn compare(file: &Path, expected: &str) -> Result<()> {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return fs::write(file, expected).with_context(|| format!("cannot write {}", file.display()));
    }
    let found = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let pairs = found.lines().zip(expected.lines()).enumerate();
    if let Some((line, (found, expected))) = pairs.clone().find(|(_, (found, expected))| found != expected) {
        let line = line + 1;
        bail!(
            "{}:{line}: is\n{found}\nThe chart makes\n{expected}\n`make manifests` writes it.",
            file.display()
        );
    }
    if found != expected {
        bail!(
            "{} ends otherwise than the chart makes it. `make manifests` writes it.",
            file.display()
        );
    }
    Ok(())
}
