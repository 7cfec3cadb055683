//! The archives of images, read only with tar.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use limpet_e2e::tools;
use serde_json::Value;
use tempfile::TempDir;

/// An OCI image layout with one manifest.
#[derive(Debug)]
pub(crate) struct Layout {
    folder: TempDir,
}

impl Layout {
    /// Written by `make images`.
    pub(crate) fn shipped(name: &str) -> Result<Self> {
        let folder = TempDir::new()?;
        let archive = tools::images()?.join(format!("{name}.tar"));
        run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(folder.path()))?;
        Ok(Self { folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file has the digest that the descriptor says.
    pub(crate) fn blob(&self, descriptor: &Value) -> Result<PathBuf> {
        let digest = descriptor["digest"].as_str().context("no digest")?;
        let (_, hash) = digest.split_once("sha256:").context("not SHA-256")?;
        let file = self.folder().join("blobs/sha256").join(hash);
        let summed = run(Command::new("sha256sum").arg(&file))?;
        ensure!(summed.starts_with(hash), "{digest} is {summed}");
        ensure!(descriptor["size"] == fs::metadata(&file)?.len(), "{descriptor}");
        Ok(file)
    }

    pub(crate) fn json(&self, descriptor: &Value) -> Result<Value> {
        Ok(serde_json::from_slice(&fs::read(self.blob(descriptor)?)?)?)
    }

    pub(crate) fn manifest(&self) -> Result<Value> {
        let index: Value = serde_json::from_slice(&fs::read(self.folder().join("index.json"))?)?;
        self.json(&index["manifests"][0])
    }

    /// The only layer in tar's words: mode, owner, size and path of each entry.
    pub(crate) fn listed(&self) -> Result<Vec<String>> {
        let manifest = self.manifest()?;
        ensure!(manifest["layers"].as_array().map(Vec::len) == Some(1), "{manifest}");
        let listed = run(Command::new("tar")
            .args(["--numeric-owner", "-tvzf"])
            .arg(self.blob(&manifest["layers"][0])?))?;
        Ok(listed.lines().map(str::to_owned).collect())
    }
}

pub(crate) fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {error}");
    Ok(String::from_utf8(output.stdout)?)
}
