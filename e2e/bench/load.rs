//! Load of many different requests, which h2load lacks: each connection sends the next one after an answer.

use std::iter::StepBy;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use limpet_e2e::is_whole;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const CONNECTIONS: usize = 8;

/// Numbers of requests, which start over behind the last.
type Numbers = StepBy<Range<usize>>;

pub(crate) struct Load {
    address: SocketAddr,
    requests: Arc<Vec<Vec<u8>>>,
    /// The number of sent requests, so that a short slice does not repeat the same few.
    sent: AtomicUsize,
}

/// A GET request; an empty cookie is none.
pub(crate) struct Get {
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) cookie: String,
}

impl Get {
    pub(crate) fn plain(host: &str, path: &str, cookie: &str) -> Self {
        Self {
            host: host.to_owned(),
            path: path.to_owned(),
            cookie: cookie.to_owned(),
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let Self { host, path, cookie } = self;
        let cookie = if cookie.is_empty() {
            String::new()
        } else {
            format!("cookie: {cookie}\r\n")
        };
        format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nuser-agent: bench\r\naccept: */*\r\n{cookie}\r\n").into_bytes()
    }
}

impl Load {
    pub(crate) fn new(address: SocketAddr, requests: &[Get]) -> Self {
        Self {
            address,
            requests: Arc::new(requests.iter().map(Get::bytes).collect()),
            sent: AtomicUsize::new(0),
        }
    }

    /// Sends `count` requests from where the last call ended, all answered with 200.
    pub(crate) async fn send(&self, count: usize) -> Result<()> {
        let sent = self.sent.fetch_add(count, Ordering::Relaxed);
        let every = |first| (sent + first..sent + count).step_by(CONNECTIONS);
        self.send_over(CONNECTIONS, every).await
    }

    pub(crate) async fn send_all(&self, connections: usize) -> Result<()> {
        self.send_over(connections, |_| (0..self.requests.len()).step_by(1))
            .await
    }

    async fn send_over(&self, connections: usize, numbers: impl Fn(usize) -> Numbers) -> Result<()> {
        let mut sending = JoinSet::new();
        for connection in 0..connections {
            sending.spawn(send_each(self.address, Arc::clone(&self.requests), numbers(connection)));
        }
        while let Some(ended) = sending.join_next().await {
            ended??;
        }
        Ok(())
    }
}

async fn send_each(address: SocketAddr, requests: Arc<Vec<Vec<u8>>>, numbers: Numbers) -> Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut answer = Vec::with_capacity(4096);
    for number in numbers {
        let request = requests.get(number % requests.len()).context("no requests")?;
        stream.write_all(request).await?;
        answer.clear();
        while !is_whole(&answer)? {
            ensure!(stream.read_buf(&mut answer).await? > 0, "Envoy closed the connection");
        }
    }
    Ok(())
}
