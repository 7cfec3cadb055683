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

/// A stock Envoy, started with a bootstrap (YAML or JSON) that somebody else has written, with two worker threads. It ends with its value.
#[derive(Debug)]
pub struct Proxy {
    process: Daemon,
    admin: Admin,
    directory: TempDir,
    _root: Option<Root>,
}

impl Proxy {
    /// Starts it and waits until its admin interface answers, wherever the bootstrap has it. It may still wait for its configuration:
    /// see [`Proxy::until_ready`]. `environment` is added to this process's.
    ///
    /// # Errors
    /// When it does not come up; the message has the end of its log.
    pub async fn start(bootstrap: &str, environment: &[(&str, &str)]) -> Result<Self> {
        let mut command = Command::new(tools::envoy()?);
        command.envs(environment.iter().copied());
        Self::launch(command, bootstrap, None).await
    }

    /// Starts it as a container with these files, with the arguments that somebody has written for it; the bootstrap is in `--config-yaml`.
    /// Ports of its own that others on this machine could have are free ones.
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
        Self::launch(command, &bootstrap.to_string(), Some(root)).await
    }

    async fn launch(mut command: Command, bootstrap: &str, root: Option<Root>) -> Result<Self> {
        let directory = TempDir::with_prefix("limpet-e2e-")?;
        let address = directory.path().join("admin");
        let file = directory.path().join("envoy.yaml");
        std::fs::write(&file, bootstrap)?;
        command
            .arg("-c")
            .arg(file)
            .arg("--admin-address-path")
            .arg(&address)
            .args(["--disable-hot-restart", "--concurrency", "2"])
            .args(["--file-flush-interval-msec", "50", "--drain-time-s", "2"]);
        let mut process = Daemon::start("envoy", &mut command, directory.path())?;
        let admin = process.until_ready(async || Admin::read(&address)).await?;
        Ok(Self {
            process,
            admin,
            directory,
            _root: root,
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
