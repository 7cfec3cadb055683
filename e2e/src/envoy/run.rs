//! The files of one Envoy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, ensure};
use tempfile::TempDir;

use crate::Config;
use crate::config::BOOTSTRAP;

const OUTPUT: &str = "output";

#[derive(Debug, Clone)]
pub(super) struct RunDirectory {
    directory: Arc<TempDir>,
    keep: Vec<Arc<TempDir>>,
}

impl RunDirectory {
    pub(super) fn new(config: &Config) -> Result<Self> {
        Self::within(TempDir::with_prefix("limpet-e2e-")?, config)
    }

    /// A directory for an Envoy that leaves its files at the program's end. Removes the files of ended programs.
    pub(super) fn of_this_program(config: &Config) -> Result<Self> {
        let all = std::env::temp_dir().join("limpet-e2e-pools");
        let own = all.join(std::process::id().to_string());
        std::fs::create_dir_all(&own)?;
        for other in std::fs::read_dir(&all)? {
            let other = other?;
            if !Path::new("/proc").join(other.file_name()).exists() {
                // Another program may do the same now.
                let _ = std::fs::remove_dir_all(other.path());
            }
        }
        Self::within(TempDir::new_in(own)?, config)
    }

    fn within(directory: TempDir, config: &Config) -> Result<Self> {
        let run = Self {
            directory: Arc::new(directory),
            keep: Vec::new(),
        };
        // No watched files here: otherwise Envoy would log changes of its own log without end.
        std::fs::create_dir(run.file(OUTPUT))?;
        run.write(config)?;
        Ok(run)
    }

    pub(super) fn write(&self, config: &Config) -> Result<()> {
        for (name, content) in config.files(self.path())? {
            std::fs::write(self.file(&name), content.to_string())?;
        }
        Ok(())
    }

    /// Replaces changed files, all of which Envoy must watch.
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

    pub(super) fn keep(&mut self, directory: TempDir) {
        self.keep.push(Arc::new(directory));
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(super) fn output_file(&self, name: &str) -> PathBuf {
        self.file(OUTPUT).join(name)
    }

    pub(super) fn output(&self, name: &str) -> Result<String> {
        self.text(&format!("{OUTPUT}/{name}"))
    }

    pub(super) fn text(&self, file: &str) -> Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(self.file(file))?).into_owned())
    }

    /// The end of the log, without lists of extensions and clusters.
    pub(super) fn log_tail(&self) -> String {
        let log = self.output("stderr").unwrap_or_default();
        let mut lines: Vec<_> = log
            .lines()
            .filter(|line| !line.contains("[info][main]") && !line.contains("[info][upstream]"))
            .collect();
        lines.drain(..lines.len().saturating_sub(30));
        lines.join("\n")
    }
}
