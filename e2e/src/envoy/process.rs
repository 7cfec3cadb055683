//! The process of an Envoy.

use std::fs::{File, OpenOptions};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};

use super::run::RunDirectory;
use crate::Config;

/// A process killed with its last copy.
#[derive(Debug, Clone)]
pub(super) struct Process {
    id: u32,
    child: Arc<Mutex<Killed>>,
}

#[derive(Debug)]
struct Killed(Child);

impl Process {
    /// Starts `command`: Envoy, or a program that passes on its arguments.
    pub(super) fn start(mut command: Command, config: &Config, run: &RunDirectory) -> Result<Self> {
        let child = command
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
        Ok(Self {
            id: child.id(),
            child: Arc::new(Mutex::new(Killed(child))),
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn has_ended(&self) -> Option<ExitStatus> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.0.try_wait().ok().flatten()
    }

    pub(super) fn end(&self) {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).end();
    }
}

impl Killed {
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.end();
    }
}

fn appended(run: &RunDirectory, name: &str) -> Result<File> {
    Ok(OpenOptions::new()
        .create(true)
        .append(true)
        .open(run.output_file(name))?)
}
