//! Load: prepared requests over a few connections. The CPU time of the load itself is not measured.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const CONNECTIONS: usize = 8;

/// Requests that are sent in turn.
pub(crate) struct Load {
    address: SocketAddr,
    requests: Arc<Vec<Vec<u8>>>,
}

/// A GET request.
pub(crate) struct Get {
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) cookie: String,
}

impl Load {
    pub(crate) fn new(address: SocketAddr, requests: &[Get]) -> Self {
        let bytes = |Get { host, path, cookie }: &Get| {
            format!(
                "GET {path} HTTP/1.1\r\nhost: {host}\r\nuser-agent: bench\r\naccept: */*\r\ncookie: {cookie}\r\n\r\n"
            )
            .into_bytes()
        };
        Self {
            address,
            requests: Arc::new(requests.iter().map(bytes).collect()),
        }
    }

    /// Sends this many requests. Each must be answered with 200.
    pub(crate) async fn send(&self, count: usize) -> Result<()> {
        let mut connections = JoinSet::new();
        for first in 0..CONNECTIONS {
            connections.spawn(send_every(self.address, Arc::clone(&self.requests), first, count));
        }
        while let Some(ended) = connections.join_next().await {
            ended??;
        }
        Ok(())
    }
}

async fn send_every(address: SocketAddr, requests: Arc<Vec<Vec<u8>>>, first: usize, count: usize) -> Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut answer = Vec::with_capacity(4096);
    for number in (first..count).step_by(CONNECTIONS) {
        let request = requests.get(number % requests.len()).context("no requests")?;
        stream.write_all(request).await?;
        answer.clear();
        while !is_whole(&answer)? {
            ensure!(stream.read_buf(&mut answer).await? > 0, "Envoy closed the connection");
        }
    }
    Ok(())
}

/// Whether this is a complete answer, with its body.
fn is_whole(answer: &[u8]) -> Result<bool> {
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(false);
    };
    let head = std::str::from_utf8(answer.get(..end).unwrap_or_default())?;
    if !head.starts_with("HTTP/1.1 200 ") {
        bail!("expected status 200, found: {head}");
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.context("the answer has no length")?.parse()?;
    Ok(answer.len() >= end + 4 + length)
}
