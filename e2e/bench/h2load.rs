//! Closed-loop load by h2load of nghttp2.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::load::Get;

const CONNECTIONS: u64 = 8;

/// Identical requests.
#[derive(Debug)]
pub(crate) struct Load {
    connections: u64,
    url: String,
    headers: Vec<String>,
}

impl Load {
    pub(crate) fn new(address: SocketAddr, Get { path, cookie, .. }: &Get) -> Self {
        let cookie = (!cookie.is_empty()).then(|| format!("cookie: {cookie}"));
        Self {
            connections: CONNECTIONS,
            url: format!("http://{address}{path}"),
            headers: cookie
                .into_iter()
                .chain(["user-agent: bench".to_owned(), "accept: */*".to_owned()])
                .collect(),
        }
    }

    pub(crate) fn over(self, connections: u64) -> Self {
        Self { connections, ..self }
    }

    /// Sends `count` requests, all answered with 2xx.
    pub(crate) fn send(&self, count: usize) -> Result<()> {
        let mut command = Command::new("h2load");
        command.args(["--h1", "--threads=1"]);
        command.args([format!("--clients={}", self.connections), format!("--requests={count}")]);
        for header in &self.headers {
            command.args(["--header", header]);
        }
        let output = command
            .arg(&self.url)
            .output()
            .context("expected h2load (Debian: nghttp2-client)")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let good = format!("status codes: {count} 2xx");
        ensure!(said.contains(&good), "{}: expected {good}, found:\n{said}", self.url);
        Ok(())
    }
}

pub(crate) fn version() -> Result<String> {
    let output = Command::new("h2load").arg("--version").output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
