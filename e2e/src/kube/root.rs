//! Files as a container has them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::tools;

/// What a container has of files of its own: certificates, mounted volumes, a file of hosts. Everything else it has of this machine. Gone
/// with its value.
#[derive(Debug)]
pub(super) struct Root(TempDir);

impl Root {
    pub(super) fn new() -> Result<Self> {
        Ok(Self(TempDir::with_prefix("limpet-e2e-")?))
    }

    /// Writes a file, whose path begins with `/`.
    pub(super) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> Result<()> {
        let file = self.path(path);
        let directory = file.parent().context("a file in no directory")?;
        std::fs::create_dir_all(directory)?;
        std::fs::write(&file, content).with_context(|| format!("can not write {}", file.display()))
    }

    /// Makes a directory that is empty even where this machine has one of that name.
    pub(super) fn directory(&self, path: &str) -> Result<()> {
        Ok(std::fs::create_dir_all(self.path(path))?)
    }

    /// Where a path of the container's is for everybody else.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    /// A command in the container. Its first process is that of the program.
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
