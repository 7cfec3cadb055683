//! A running HAProxy, for comparison with Limpet.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::{Request, poll, tools};

/// HAProxy answers this path itself once it serves.
const READY: &str = "/haproxy-ready";

/// An HAProxy for one test, on a free port.
#[derive(Debug)]
pub struct Haproxy {
    process: Child,
    directory: TempDir,
    address: SocketAddr,
}

impl Haproxy {
    /// Starts an HAProxy and waits until it serves. `config` continues a `frontend` section after its address.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start(config: &str) -> Result<Self> {
        let directory = TempDir::with_prefix("limpet-e2e-")?;
        let file = directory.path().join("haproxy.cfg");
        std::fs::write(&file, complete(config))?;
        // The socket comes as standard input, so that no other process takes the port.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let log = File::create(directory.path().join("log"))?;
        // setpriv ends HAProxy even if the test is killed.
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(tools::haproxy()?)
            .arg("-db")
            .arg("-f")
            .arg(file)
            .stdin(OwnedFd::from(listener))
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start HAProxy by setpriv (of util-linux)")?;
        let mut haproxy = Self {
            process,
            directory,
            address,
        };
        haproxy.wait_until_ready().await?;
        Ok(haproxy)
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let (process, address) = (&mut self.process, self.address);
        let ready = poll::until("HAProxy to start", async || {
            if let Ok(Some(status)) = process.try_wait() {
                return Some(Err(anyhow::anyhow!("HAProxy ended ({status})")));
            }
            let ready = Request::get(address, READY).send().await.ok()?;
            (ready.status == 200).then_some(Ok(()))
        })
        .await;
        ready
            .and_then(|answer| answer)
            .with_context(|| format!("HAProxy says:\n{}", self.log()))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("--- HAProxy's log ---\n{}", self.log());
        }
    }
}

fn complete(config: &str) -> String {
    format!(
        "defaults
  mode http
  timeout connect 1s
  timeout client 30s
  timeout server 30s
  retries 0
frontend web
  bind fd@0
  monitor-uri {READY}
{config}
"
    )
}
