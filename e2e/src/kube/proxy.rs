//! Envoys that a control plane configures.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::daemon::Daemon;
use crate::{Admin, poll, tools};

/// A stock Envoy, started with a bootstrap (YAML or JSON) that somebody else has written, with two worker threads. It ends with its value.
#[derive(Debug)]
pub struct Proxy {
    process: Daemon,
    admin: Admin,
    directory: TempDir,
}

impl Proxy {
    /// Starts it and waits until its admin interface answers, wherever the bootstrap has it. It may still wait for its configuration:
    /// see [`Proxy::until_ready`]. `environment` is added to this process's.
    ///
    /// # Errors
    /// When it does not come up; the message has the end of its log.
    pub async fn start(bootstrap: &str, environment: &[(&str, &str)]) -> Result<Self> {
        let directory = TempDir::with_prefix("limpet-e2e-")?;
        let address = directory.path().join("admin");
        let file = directory.path().join("envoy.yaml");
        std::fs::write(&file, bootstrap)?;
        let mut command = Command::new(tools::envoy()?);
        command
            .arg("-c")
            .arg(file)
            .arg("--admin-address-path")
            .arg(&address)
            .args(["--disable-hot-restart", "--concurrency", "2"])
            .args(["--file-flush-interval-msec", "50", "--drain-time-s", "2"])
            .envs(environment.iter().copied());
        let mut process = Daemon::start("envoy", &mut command, directory.path())?;
        let admin = process.until_ready(async || Admin::read(&address)).await?;
        Ok(Self {
            process,
            admin,
            directory,
        })
    }

    /// Waits until it has its configuration and serves.
    ///
    /// # Errors
    /// When that does not happen; the message has the end of its log.
    pub async fn until_ready(&mut self) -> Result<()> {
        let admin = self.admin;
        self.process
            .until_ready(async || admin.ready().await.then_some(()))
            .await
    }

    /// Waits until it has a listener of this name.
    ///
    /// # Errors
    /// When that does not happen.
    pub async fn listener(&self, name: &str) -> Result<SocketAddr> {
        let mut last = None;
        let found = poll::until(&format!("Envoy's listener {name}"), async || {
            last = self.admin.listeners().await.ok();
            last.as_ref()?.get(name).copied()
        })
        .await;
        found.with_context(|| format!("Envoy has {last:?}"))
    }

    /// Its admin interface.
    #[must_use]
    pub fn admin(&self) -> Admin {
        self.admin
    }

    /// The process, to be stopped for a while.
    #[must_use]
    pub fn process(&self) -> &Daemon {
        &self.process
    }

    /// The process's id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Everything it has logged.
    ///
    /// # Errors
    /// When the log can not be read.
    pub fn log(&self) -> Result<String> {
        self.process.log()
    }

    /// A directory of its own, gone with it.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}
