//! The archives of images, read only with tar.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use limpet_e2e::tools;
use serde_json::Value;
use tempfile::TempDir;

/// An OCI image layout of an image, or of an index with one for each architecture.
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

    /// The manifest of each architecture, or the only one.
    pub(crate) fn manifests(&self) -> Result<Vec<Value>> {
        let index: Value = serde_json::from_slice(&fs::read(self.folder().join("index.json"))?)?;
        ensure!(index["manifests"].as_array().map(Vec::len) == Some(1), "{index}");
        let top = self.json(&index["manifests"][0])?;
        match top["manifests"].as_array() {
            Some(images) => images.iter().map(|image| self.json(image)).collect(),
            None => Ok(vec![top]),
        }
    }

    pub(crate) fn manifest(&self) -> Result<Value> {
        self.manifests()?.into_iter().next().context("no manifest")
    }

    /// The only layer of an image in tar's words: mode, owner, size and path of each entry.
    pub(crate) fn listed(&self, manifest: &Value) -> Result<Vec<String>> {
        ensure!(manifest["layers"].as_array().map(Vec::len) == Some(1), "{manifest}");
        let listed = run(Command::new("tar")
            .args(["--numeric-owner", "-tvzf"])
            .arg(self.blob(&manifest["layers"][0])?))?;
        Ok(listed.lines().map(str::to_owned).collect())
    }
}

/// The architectures of the release: both, unless ARCHES named one.
pub(crate) fn arches() -> Result<Vec<&'static str>> {
    let release = tools::release()?;
    let archive = |arch: &str| release.join(format!("limpet-{}-linux-{arch}.tar.gz", env!("CARGO_PKG_VERSION")));
    let mut arches = vec!["x86_64", "aarch64"];
    arches.retain(|arch| archive(arch).is_file());
    ensure!(!arches.is_empty(), "{} has no command", release.display());
    Ok(arches)
}

pub(crate) fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {error}");
    Ok(String::from_utf8(output.stdout)?)
}
