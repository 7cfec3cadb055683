//! A genuine registry.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::{poll, tools};

/// CNCF's registry at its own address, over plain HTTP.
#[derive(Debug)]
pub struct Registry {
    process: Mutex<Option<Child>>,
    address: SocketAddr,
    storage: TempDir,
}

impl Registry {
    /// Starts a registry.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start(address: impl Into<IpAddr>) -> Result<Self> {
        let storage = TempDir::new()?;
        let address = SocketAddr::new(address.into(), 5000);
        let config = storage.path().join("config.yaml");
        let text = format!(
            "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\nhttp: {{addr: '{address}'}}\n\
            storage: {{filesystem: {{rootdirectory: '{}'}}}}\n",
            storage.path().display()
        );
        std::fs::write(&config, text)?;
        let registry = Self {
            process: Mutex::default(),
            address,
            storage,
        };
        registry.launch().await?;
        Ok(registry)
    }

    /// Starts the registry again after [`Registry::stop`], with its content.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn launch(&self) -> Result<()> {
        // It logs requests before a push as errors.
        let process = Command::new(tools::registry("registry")?)
            .arg("serve")
            .arg(self.storage.path().join("config.yaml"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        *self.process.lock().unwrap_or_else(PoisonError::into_inner) = Some(process);
        let answers = async || tokio::net::TcpStream::connect(self.address).await.ok().map(drop);
        poll::until("the registry", answers).await
    }

    /// Stops the registry.
    pub fn stop(&self) {
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut process) = process {
            drop(process.kill());
            drop(process.wait());
        }
    }

    /// A folder kept as long as the registry.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.storage.path()
    }

    /// Pushes an image of `make images`, and returns its name here.
    ///
    /// # Errors
    /// If there is no such image, or the registry refuses it.
    pub fn push(&self, name: &str) -> Result<String> {
        let layout = TempDir::new()?;
        let archive = tools::images()?.join(format!("{name}.tar"));
        run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(layout.path()))?;
        let reference = format!("{}/{name}:test", self.address);
        run(Command::new(tools::registry("crane")?)
            .args(["push", "--insecure"])
            .arg(layout.path())
            .arg(&reference))?;
        Ok(reference)
    }

    /// Pushes the release with `publish.sh`, and returns its output: a line for each image and the chart.
    ///
    /// # Errors
    /// If the release lacks a file, or the registry refuses one.
    #[cfg(feature = "images")]
    pub fn publish(&self) -> Result<String> {
        let output = Command::new(tools::checkout().join("e2e/tools/publish.sh"))
            .arg(self.address.to_string())
            .env("INSECURE", "1")
            .env("RELEASE", tools::release()?)
            .output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "publish.sh: {error}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The registry's part of an image's name.
    #[must_use]
    pub fn name(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {error}");
    Ok(())
}
