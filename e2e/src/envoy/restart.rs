//! Restarts of an Envoy.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tokio::net::TcpSocket;

use super::Envoy;
use super::process::Process;
use super::run::RunDirectory;
use crate::{Config, poll};

#[derive(Debug)]
pub(super) struct HotRestarts {
    base_id: u64,
    epoch: u32,
}

impl Drop for HotRestarts {
    fn drop(&mut self) {
        // Envoy does not remove its shared memory.
        let _ = std::fs::remove_file(Path::new("/dev/shm").join(format!("envoy_shared_memory_{}", self.base_id * 10)));
    }
}

impl Envoy {
    /// Kills the process and starts another at the same address; for a moment nothing listens.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn restart(&mut self) -> Result<()> {
        ensure!(self.hot_restarts.is_none(), "this Envoy was started for hot restarts");
        ensure!(
            self.lease.is_none(),
            "an Envoy of the pool is not restarted: `Config::alone` asks for one"
        );
        // While this process also has the port bound, no other gets it.
        let port = TcpSocket::new_v4()?;
        port.set_reuseport(true)?;
        port.bind(self.address()).context("the port cannot be kept")?;
        let mut command = self.successor()?;
        command.arg("--disable-hot-restart");
        self.process.end();
        self.process = Process::start(command, &self.config, &self.run)?;
        self.wait_until_ready().await
    }

    /// Starts an Envoy for [`Envoy::hot_restart`].
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start_for_hot_restarts(config: Config) -> Result<Self> {
        let run = RunDirectory::new(&config)?;
        let mut command = super::command()?;
        command
            .arg("--use-dynamic-base-id")
            .arg("--base-id-path")
            .arg(run.file("base-id"));
        let mut envoy = Self::run(command, config, run).await?;
        let base_id = envoy.run.text("base-id")?.trim().parse()?;
        envoy.hot_restarts = Some(HotRestarts { base_id, epoch: 0 });
        Ok(envoy)
    }

    /// Replaces the process by Envoy's hot restart, and waits for the old one's end.
    ///
    /// # Errors
    /// If the new process does not start, or the old one does not end.
    pub async fn hot_restart(&mut self) -> Result<()> {
        let mut command = self.successor()?;
        let hot = self.hot_restarts.as_mut();
        let hot = hot.context("this Envoy was not started for hot restarts")?;
        hot.epoch += 1;
        command
            .args(["--base-id", &hot.base_id.to_string()])
            .args(["--restart-epoch", &hot.epoch.to_string()]);
        let new = Process::start(command, &self.config, &self.run)?;
        let old = std::mem::replace(&mut self.process, new);
        self.wait_until_ready().await?;
        let status = poll::until("the old process to end", async || old.has_ended()).await?;
        ensure!(status.success(), "the old process ended: {status}");
        Ok(())
    }

    /// A command with the same address and admin file.
    fn successor(&mut self) -> Result<Command> {
        self.config = self.config.clone().port(self.address().port());
        self.run.write(&self.config)?;
        std::fs::remove_file(self.run.file("admin"))?;
        super::command()
    }
}
