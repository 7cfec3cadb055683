//! Envoys that a control plane configures.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::daemon::Daemon;
use super::root::Root;
use crate::{Admin, poll, tools};

const WORKERS: u8 = 2;

/// A stock Envoy with a control plane's bootstrap (YAML or JSON), until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    process: Daemon,
    admin: Admin,
    directory: TempDir,
    _root: Option<Root>,
}

impl Proxy {
    /// Starts an Envoy with two workers and waits for its admin interface; see also [`Proxy::until_ready`].
    /// `environment` is added to this process's.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start(bootstrap: &str, environment: &[(&str, &str)]) -> Result<Self> {
        Self::start_with_workers(bootstrap, environment, WORKERS).await
    }

    /// As [`Proxy::start`], with so many worker threads.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start_with_workers(bootstrap: &str, environment: &[(&str, &str)], workers: u8) -> Result<Self> {
        let mut command = Command::new(tools::envoy()?);
        command.envs(environment.iter().copied());
        // Every answer of a replaced listener asks its client to reconnect; by default only some do, and Envoy cuts the
        // others at the end.
        command.args(["--drain-strategy", "immediate"]);
        Self::launch(command, bootstrap, workers, None).await
    }

    /// Starts an Envoy in a container's file system, with the bootstrap in `--config-yaml`. Free ports replace fixed
    /// ones.
    pub(super) async fn start_in(
        root: Root,
        arguments: &[String],
        environment: &BTreeMap<String, String>,
    ) -> Result<Self> {
        let value = |name: &str| {
            let mut found = arguments.iter().skip_while(|argument| *argument != name);
            found.nth(1).with_context(|| format!("no {name} in {arguments:?}"))
        };
        let mut bootstrap: Value = serde_saphyr::from_str(value("--config-yaml")?)?;
        for listener in [
            "/admin/address/socket_address",
            "/static_resources/listeners/0/address/socket_address",
        ] {
            if let Some(address) = bootstrap.pointer_mut(listener) {
                address["port_value"] = json!(0);
            }
        }
        let mut command = root.command(tools::envoy()?);
        for name in ["--service-cluster", "--service-node", "--log-level", "--drain-strategy"] {
            command.args([name, value(name)?]);
        }
        command.envs(environment);
        Self::launch(command, &bootstrap.to_string(), WORKERS, Some(root)).await
    }

    async fn launch(mut command: Command, bootstrap: &str, workers: u8, root: Option<Root>) -> Result<Self> {
        let directory = TempDir::with_prefix("limpet-e2e-")?;
        let address = directory.path().join("admin");
        let file = directory.path().join("envoy.yaml");
        std::fs::write(&file, bootstrap)?;
        command
            .arg("-c")
            .arg(file)
            .arg("--admin-address-path")
            .arg(&address)
            .args(["--disable-hot-restart", "--concurrency", &workers.to_string()])
            // After the drain time, Envoy cuts off replaced listeners. On a busy machine a worker that starts the wasm
            // filter is silent for seconds.
            .args(["--file-flush-interval-msec", "50", "--drain-time-s", "30"]);
        let mut process = Daemon::start("envoy", &mut command, directory.path())?;
        let admin = process.until_ready(async || Admin::read(&address)).await?;
        Ok(Self {
            process,
            admin,
            directory,
            _root: root,
        })
    }

    /// Waits until Envoy has its configuration and is ready.
    ///
    /// # Errors
    /// If that does not happen.
    pub async fn until_ready(&mut self) -> Result<()> {
        let admin = self.admin;
        self.process
            .until_ready(async || admin.ready().await.then_some(()))
            .await
    }

    /// Waits until Envoy has a listener of this name, and returns its address.
    ///
    /// # Errors
    /// If it does not.
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

    /// Envoy's process.
    #[must_use]
    pub fn process(&self) -> &Daemon {
        &self.process
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Envoy's log.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn log(&self) -> Result<String> {
        self.process.log()
    }

    /// A directory for Envoy's files, kept as long as the value.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}
