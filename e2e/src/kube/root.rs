//! The files of a container.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::tools;

/// A container's own files: certificates, mounted volumes, `/etc/hosts`. The container shares all other files with this
/// machine. They are removed when the value is dropped.
#[derive(Debug)]
pub(super) struct Root(TempDir);

impl Root {
    pub(super) fn new() -> Result<Self> {
        Ok(Self(TempDir::with_prefix("limpet-e2e-")?))
    }

    /// Writes a file. Its path begins with `/`.
    pub(super) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> Result<()> {
        let file = self.path(path);
        let directory = file.parent().context("the path has no parent directory")?;
        std::fs::create_dir_all(directory)?;
        std::fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Makes an empty directory, which hides a directory of the same name on this machine.
    pub(super) fn directory(&self, path: &str) -> Result<()> {
        Ok(std::fs::create_dir_all(self.path(path))?)
    }

    /// The path on this machine of a path in the container.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    /// A command that runs in the container. The process started is the program's own.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(tools::checkout().join("e2e/tools/in-root.sh"));
        command.arg(self.0.path()).arg(program);
        command
    }
}

impl AsRef<Path> for Root {
    fn as_ref(&self) -> &Path {
        self.0.path()
    }
}
