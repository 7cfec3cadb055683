//! The files of a container.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::tools;

/// A container's own files, such as certificates and `/etc/hosts`; it shares all others with this machine.
#[derive(Debug)]
pub(super) struct Root(TempDir);

impl Root {
    pub(super) fn new() -> Result<Self> {
        Ok(Self(TempDir::with_prefix("limpet-e2e-")?))
    }

    /// Writes a file at a path that begins with `/`.
    pub(super) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> Result<()> {
        let file = self.path(path);
        let directory = file.parent().context("the path has no parent directory")?;
        std::fs::create_dir_all(directory)?;
        std::fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Makes an empty directory, which hides this machine's.
    pub(super) fn directory(&self, path: &str) -> Result<()> {
        Ok(std::fs::create_dir_all(self.path(path))?)
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    /// A command in the container, whose process is the program's own.
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
