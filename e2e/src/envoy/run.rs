//! The files of one Envoy.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use tempfile::TempDir;

use crate::Config;
use crate::config::BOOTSTRAP;

/// The directory of Envoy's output.
const OUTPUT: &str = "output";

/// The files of one Envoy. They are removed when the value is dropped.
#[derive(Debug)]
pub(super) struct RunDirectory {
    directory: TempDir,
    keep: Vec<TempDir>,
}

impl RunDirectory {
    pub(super) fn new(config: &Config) -> Result<Self> {
        let run = Self {
            directory: TempDir::with_prefix("limpet-e2e-")?,
            keep: Vec::new(),
        };
        // A directory without watched files: otherwise Envoy would see its own log change, log that, and so on without
        // end.
        std::fs::create_dir(run.file(OUTPUT))?;
        run.write(config)?;
        Ok(run)
    }

    /// Writes all files of a configuration before Envoy starts.
    pub(super) fn write(&self, config: &Config) -> Result<()> {
        for (name, content) in config.files(self.path())? {
            std::fs::write(self.file(&name), content.to_string())?;
        }
        Ok(())
    }

    /// Replaces the files of a configuration that have changed. Envoy must watch each of them.
    pub(super) fn update(&self, config: &Config) -> Result<()> {
        let mut changed = config.files(self.path())?;
        changed.retain(|name, content| self.text(name).ok() != Some(content.to_string()));
        ensure!(!changed.is_empty(), "the change leaves all files as they are");
        ensure!(
            !changed.contains_key(BOOTSTRAP),
            "the change is in a file that Envoy does not watch"
        );
        for (name, content) in changed {
            // Envoy watches for moves, so it never sees half a file.
            let new = self.file("new");
            std::fs::write(&new, content.to_string())?;
            std::fs::rename(new, self.file(&name))?;
        }
        Ok(())
    }

    /// Keeps another directory as long as this one.
    pub(super) fn keep(&mut self, directory: TempDir) {
        self.keep.push(directory);
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// The path of the file of standard output or error.
    pub(super) fn output_file(&self, name: &str) -> PathBuf {
        self.file(OUTPUT).join(name)
    }

    pub(super) fn output(&self, name: &str) -> Result<String> {
        self.text(&format!("{OUTPUT}/{name}"))
    }

    pub(super) fn text(&self, file: &str) -> Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(self.file(file))?).into_owned())
    }

    /// The end of the log, without the lists of extensions at its beginning.
    pub(super) fn log_tail(&self) -> String {
        let log = self.output("stderr").unwrap_or_default();
        let mut lines: Vec<_> = log.lines().filter(|line| !line.contains("[info][main]")).collect();
        lines.drain(..lines.len().saturating_sub(30));
        lines.join("\n")
    }
}
