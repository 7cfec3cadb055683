//! HTTP/1.1 byte for byte, for messages that an HTTP library refuses.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use crate::poll;

/// Names and values of header fields; received names are in lower case.
pub type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// An upstream that answers every request with the same fields, valid or not.
#[derive(Debug)]
pub struct RawUpstream {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct Shared {
    fields: Mutex<Fields>,
    seen: Mutex<Vec<u8>>,
}

impl RawUpstream {
    /// Starts an upstream on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// If no port is free.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::<Shared>::default();
        let serving = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&serving)));
            }
        });
        Ok(Self {
            address,
            shared,
            task: task.abort_handle(),
        })
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the fields of the answers from now on.
    pub fn answer(&self, fields: Fields) {
        *self.shared.fields.lock().unwrap_or_else(PoisonError::into_inner) = fields;
    }

    /// The values of this field in the last request, in order.
    ///
    /// # Errors
    /// If there was no HTTP request.
    pub fn seen(&self, name: &str) -> Result<Vec<Vec<u8>>> {
        let (_, fields) = parse(&self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner))?;
        let of_name = fields.into_iter().filter(|(present, _)| present == name.as_bytes());
        Ok(of_name.map(|(_, value)| value).collect())
    }
}

impl Drop for RawUpstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) -> Result<()> {
    loop {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut request).await? == 0 {
                return Ok(());
            }
        }
        let mut answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n".to_vec();
        for (name, value) in &*shared.fields.lock().unwrap_or_else(PoisonError::into_inner) {
            answer.extend([name, b": ".as_slice(), value, b"\r\n"].concat());
        }
        answer.extend(b"\r\n");
        *shared.seen.lock().unwrap_or_else(PoisonError::into_inner) = request;
        stream.write_all(&answer).await?;
    }
}

/// The head of an answer.
#[derive(Debug)]
pub struct RawAnswer {
    /// The status code.
    pub status: u16,
    /// The header fields, in order.
    pub fields: Fields,
}

impl RawAnswer {
    /// The values of this field, in order.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<&[u8]> {
        let of_name = self.fields.iter().filter(|(present, _)| present == name.as_bytes());
        of_name.map(|(_, value)| value.as_slice()).collect()
    }
}

/// Sends a GET request with these fields over a new connection.
///
/// # Errors
/// If the answer is not HTTP.
pub async fn raw_get(address: SocketAddr, path: &str, fields: &[(&str, &[u8])]) -> Result<RawAnswer> {
    let mut request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n").into_bytes();
    for (name, value) in fields {
        request.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    request.extend(b"\r\n");
    let answer = poll::patiently("an answer", async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(&request).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok(answer)
    });
    let (first_line, fields) = parse(&answer.await?)?;
    let status = first_line
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3)?.parse().ok());
    Ok(RawAnswer {
        status: status.with_context(|| format!("no status line: {first_line}"))?,
        fields,
    })
}

fn parse(message: &[u8]) -> Result<(String, Fields)> {
    let end = message.windows(4).position(|window| window == b"\r\n\r\n");
    let head = message.get(..end.context("the head has no end")?).unwrap_or_default();
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let first = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let field = |line: &[u8]| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at(colon);
        Some((name.to_vec(), value.get(1..)?.trim_ascii().to_vec()))
    };
    let fields = lines.map(|line| field(line).with_context(|| format!("not a header field: {line:?}")));
    Ok((first, fields.collect::<Result<_>>()?))
}
