//! A running HAProxy, for the tests that compare it with Limpet.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::{Request, poll, tools};

/// Answered by HAProxy itself, once it serves.
const READY: &str = "/haproxy-ready";

/// An HAProxy of a test's own, on a port of its own. It ends with its value.
#[derive(Debug)]
pub struct Haproxy {
    process: Child,
    directory: TempDir,
    address: SocketAddr,
}

impl Haproxy {
    /// Starts an HAProxy and waits until it serves. `config` is the rest of a `frontend` section that has its address already, and the
    /// sections that follow.
    ///
    /// # Errors
    /// When it does not come up; the message has its log.
    pub async fn start(config: &str) -> Result<Self> {
        let directory = TempDir::with_prefix("limpet-e2e-")?;
        let file = directory.path().join("haproxy.cfg");
        std::fs::write(&file, complete(config))?;
        // HAProxy gets its socket as standard input: nobody can take the port in between.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let log = File::create(directory.path().join("log"))?;
        // HAProxy would outlive a test that is killed; setpriv lets it end with the thread that started it.
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
            .context("can not start HAProxy by setpriv (of util-linux)")?;
        let mut haproxy = Self {
            process,
            directory,
            address,
        };
        haproxy.wait_until_ready().await?;
        Ok(haproxy)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let (process, address) = (&mut self.process, self.address);
        let ready = poll::until("HAProxy to come up", async || {
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
        // A helpless Drop: where killing fails, the process is gone already.
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
