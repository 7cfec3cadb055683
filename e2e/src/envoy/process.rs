//! The process of an Envoy.

use std::fs::{File, OpenOptions};
use std::process::{Child, Command, ExitStatus};

use anyhow::{Context, Result};

use super::run::RunDirectory;
use crate::Config;

/// A process that is killed when the value is dropped.
#[derive(Debug)]
pub(super) struct Process(Child);

impl Process {
    /// Starts `command`: Envoy with further arguments, or a program that passes its arguments on to Envoy.
    pub(super) fn start(mut command: Command, config: &Config, run: &RunDirectory) -> Result<Self> {
        // Envoy ends with the thread that started it, so no Envoy outlives a test, however the test ends.
        let process = command
            .arg("-c")
            .arg(run.file("envoy.json"))
            .arg("--admin-address-path")
            .arg(run.file("admin"))
            .args(["--concurrency", &config.worker_count().to_string()])
            .args(["--file-flush-interval-msec", "50", "-l", config.log_verbosity()])
            // A replaced listener or process ends soon.
            .args(["--drain-time-s", "2", "--parent-shutdown-time-s", "3"])
            .envs(config.environment()?)
            .current_dir(config.folder())
            .stdout(appended(run, "stdout")?)
            .stderr(appended(run, "stderr")?)
            .spawn()
            .context("cannot start Envoy")?;
        Ok(Self(process))
    }

    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    /// The exit status, if the process has ended.
    pub(super) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }

    /// Kills the process.
    pub(super) fn end(&mut self) {
        // If killing fails, the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Opens a file that several processes of one Envoy append to.
fn appended(run: &RunDirectory, name: &str) -> Result<File> {
    Ok(OpenOptions::new()
        .create(true)
        .append(true)
        .open(run.output_file(name))?)
}
