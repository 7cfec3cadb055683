//! A genuine registry.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Result;
use limpet_e2e::{poll, tools};
use tempfile::TempDir;

use crate::layout::{Layout, run};

/// CNCF's registry at an address of this namespace, over plain HTTP.
#[derive(Debug)]
pub(crate) struct Registry {
    process: Child,
    address: SocketAddrV4,
    storage: TempDir,
}

impl Registry {
    /// Starts one. Each test has an address of its own.
    pub(crate) async fn start(address: Ipv4Addr) -> Result<Self> {
        let storage = TempDir::new()?;
        let address = SocketAddrV4::new(address, 5000);
        let config = storage.path().join("config.yaml");
        let text = format!(
            "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\nhttp: {{addr: '{address}'}}\n\
            storage: {{filesystem: {{rootdirectory: '{}'}}}}\n",
            storage.path().display()
        );
        std::fs::write(&config, text)?;
        // It logs as an error what a client asks for before it pushes.
        let process = Command::new(tools::registry("registry")?)
            .arg("serve")
            .arg(config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let registry = Self {
            process,
            address,
            storage,
        };
        poll::until("the registry", async || {
            tokio::net::TcpStream::connect(address).await.ok()
        })
        .await?;
        Ok(registry)
    }

    /// A folder that is removed with the registry.
    pub(crate) fn folder(&self) -> &Path {
        self.storage.path()
    }

    /// Pushes an image that `make images` wrote. Returns what it is called by here.
    pub(crate) fn push(&self, name: &str) -> Result<String> {
        let image = Layout::shipped(name)?;
        let reference = format!("{}/{name}:test", self.address);
        run(Command::new(tools::registry("crane")?)
            .args(["push", "--insecure"])
            .arg(image.folder())
            .arg(&reference))?;
        Ok(reference)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
