//! Envoys that are restarted.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tokio::net::TcpSocket;

use super::Envoy;
use super::process::Process;
use super::run::RunDirectory;
use crate::{Config, poll, tools};

/// What the processes of an Envoy have in common that replaces itself.
#[derive(Debug)]
pub(super) struct HotRestarts {
    base_id: u64,
    epoch: u32,
}

impl Drop for HotRestarts {
    fn drop(&mut self) {
        // Envoy leaves its shared memory behind. A helpless Drop: it may be gone.
        let _ = std::fs::remove_file(Path::new("/dev/shm").join(format!("envoy_shared_memory_{}", self.base_id * 10)));
    }
}

impl Envoy {
    /// Kills the process, and starts another one at the same address. All connections break, and for a moment nobody listens.
    ///
    /// # Errors
    /// When it does not come up; the message has the end of its log.
    pub async fn restart(&mut self) -> Result<()> {
        ensure!(self.hot_restarts.is_none(), "this Envoy is to be restarted hot");
        // Bound by us as well, though nobody listens there by it, the port is not given to somebody else meanwhile.
        let port = TcpSocket::new_v4()?;
        port.set_reuseport(true)?;
        port.bind(self.address()).context("the port can not be kept")?;
        let mut command = self.successor()?;
        command.arg("--disable-hot-restart");
        self.process.end();
        self.process = Process::start(command, &self.config, &self.run)?;
        self.wait_until_ready().await
    }

    /// Starts an Envoy that can replace itself: see [`Envoy::hot_restart`].
    ///
    /// # Errors
    /// When it does not come up; the message has the end of its log.
    pub async fn start_for_hot_restarts(config: Config) -> Result<Self> {
        let run = RunDirectory::new(&config)?;
        let mut command = Command::new(tools::envoy()?);
        command
            .arg("--use-dynamic-base-id")
            .arg("--base-id-path")
            .arg(run.file("base-id"));
        let mut envoy = Self::serve(command, config, run).await?;
        let base_id = envoy.run.text("base-id")?.trim().parse()?;
        envoy.hot_restarts = Some(HotRestarts { base_id, epoch: 0 });
        Ok(envoy)
    }

    /// Envoy's own hot restart: a new process takes over the listening sockets of the running one, which finishes what it has and ends.
    ///
    /// # Errors
    /// When the new one does not come up, or the old one does not end.
    pub async fn hot_restart(&mut self) -> Result<()> {
        let mut command = self.successor()?;
        let hot = self.hot_restarts.as_mut();
        let hot = hot.context("this Envoy was not started for hot restarts")?;
        hot.epoch += 1;
        command
            .args(["--base-id", &hot.base_id.to_string()])
            .args(["--restart-epoch", &hot.epoch.to_string()]);
        let new = Process::start(command, &self.config, &self.run)?;
        let mut old = std::mem::replace(&mut self.process, new);
        self.wait_until_ready().await?;
        let status = poll::until("the old process to end", async || old.has_ended()).await?;
        ensure!(status.success(), "the old process ended: {status}");
        Ok(())
    }

    /// A command for a process that listens where this one does, and puts its admin interface's address in the place of this one's.
    fn successor(&mut self) -> Result<Command> {
        self.config = self.config.clone().port(self.address().port());
        self.run.write(&self.config)?;
        std::fs::remove_file(self.run.file("admin"))?;
        Ok(Command::new(tools::envoy()?))
    }
}
