//! Connections, and exchanges on them.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;

use anyhow::{Context, Result, bail};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::AbortHandle;

#[cfg(feature = "tls")]
use crate::Tls;
use crate::body::Body;
use crate::{Answer, Request, poll};

/// A connection for many requests: in turn over HTTP/1.1, in parallel over HTTP/2. Dropping it ends unfinished
/// exchanges.
#[derive(Debug)]
pub struct Connection {
    sender: Sender,
    task: AbortHandle,
    /// The `scheme` of requests over HTTP/2.
    scheme: &'static str,
}

#[derive(Debug)]
enum Sender {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

impl Connection {
    /// Connects over HTTP/1.1 or HTTP/2.
    ///
    /// # Errors
    /// If nothing listens there.
    pub async fn open(address: SocketAddr, http2: bool) -> Result<Self> {
        Self::open_from(None, address, http2).await
    }

    /// As [`Connection::open`], from this local address.
    ///
    /// # Errors
    /// If nothing listens there, or the address is not local.
    pub async fn open_from(from: Option<IpAddr>, to: SocketAddr, http2: bool) -> Result<Self> {
        let Some(from) = from else {
            return Self::over(connect(to).await?, http2, "http").await;
        };
        let socket = if to.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }?;
        socket.bind(SocketAddr::new(from, 0))?;
        let stream = socket.connect(to).await;
        Self::over(
            stream.with_context(|| format!("no connection from {from} to {to}"))?,
            http2,
            "http",
        )
        .await
    }

    /// As [`Connection::open`], with TLS.
    ///
    /// # Errors
    /// If nothing listens there, or the certificate is not trusted.
    #[cfg(feature = "tls")]
    pub async fn open_tls(address: SocketAddr, tls: &Tls, http2: bool) -> Result<Self> {
        let stream = tls.shake_hands(connect(address).await?, http2).await?;
        Self::over(stream, http2, "https").await
    }

    /// Uses a connected stream.
    ///
    /// # Errors
    /// If the server does not speak HTTP.
    pub async fn on(stream: TcpStream, http2: bool) -> Result<Self> {
        Self::over(stream, http2, "http").await
    }

    async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        http2: bool,
        scheme: &'static str,
    ) -> Result<Self> {
        let io = TokioIo::new(stream);
        let (sender, task) = if http2 {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
            (Sender::Http2(sender), tokio::spawn(connection).abort_handle())
        } else {
            let (sender, connection) = http1::Builder::new().title_case_headers(true).handshake(io).await?;
            (Sender::Http1(sender), tokio::spawn(connection).abort_handle())
        };
        Ok(Self { sender, task, scheme })
    }

    /// Whether the connection takes another request.
    pub async fn is_open(&mut self) -> bool {
        match &mut self.sender {
            Sender::Http1(sender) => sender.ready().await.is_ok(),
            Sender::Http2(sender) => sender.ready().await.is_ok(),
        }
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// If there is no HTTP answer.
    pub async fn send(&mut self, request: Request) -> Result<Answer> {
        self.exchange(request).await?.rest().await
    }

    /// Begins a request, which ends when the value is dropped.
    ///
    /// # Errors
    /// If the connection takes no more requests.
    pub async fn begin(&mut self, request: Request) -> Result<UnansweredRequest> {
        let answer: UnansweredRequest = match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await?;
                UnansweredRequest(Box::pin(sender.send_request(request.into_hyper(None)?)))
            }
            Sender::Http2(sender) => {
                sender.ready().await?;
                UnansweredRequest(Box::pin(sender.send_request(request.into_hyper(Some(self.scheme))?)))
            }
        };
        Ok(answer)
    }

    /// Sends a request and reads the answer's head.
    ///
    /// # Errors
    /// If there is no HTTP answer.
    pub async fn exchange(&mut self, request: Request) -> Result<Exchange> {
        let response = poll::patiently("the head of an answer", async {
            Ok(match &mut self.sender {
                Sender::Http1(sender) => {
                    sender.ready().await?;
                    sender.send_request(request.into_hyper(None)?).await?
                }
                Sender::Http2(sender) => {
                    sender.ready().await?;
                    sender.send_request(request.into_hyper(Some(self.scheme))?).await?
                }
            })
        })
        .await?;
        let (head, body) = response.into_parts();
        Ok(Exchange {
            head: Answer {
                status: head.status.as_u16(),
                headers: head.headers,
                body: Bytes::new(),
                trailers: HeaderMap::new(),
            },
            body,
            surplus: Bytes::new(),
            connection: None,
        })
    }
}

/// A request without interest in its answer.
pub struct UnansweredRequest(#[expect(dead_code, reason = "kept, not read")] PendingAnswer);

type PendingAnswer = Pin<Box<dyn Future<Output = hyper::Result<hyper::Response<Incoming>>> + Send>>;

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream> {
    TcpStream::connect(address)
        .await
        .with_context(|| format!("no connection to {address}"))
}

/// An unread answer. Dropping it early cancels an HTTP/2 stream or closes an HTTP/1.1 connection.
#[derive(Debug)]
pub struct Exchange {
    head: Answer,
    body: Incoming,
    /// Bytes of the body read but not asked for yet.
    surplus: Bytes,
    /// The exchange's own connection, which must stay open.
    connection: Option<Connection>,
}

impl Exchange {
    pub(super) fn with(mut self, connection: Connection) -> Self {
        self.connection = Some(connection);
        self
    }

    /// The answer's status and headers.
    #[must_use]
    pub fn head(&self) -> &Answer {
        &self.head
    }

    /// The next piece of the body; `None` at the end, with the trailers read.
    ///
    /// # Errors
    /// If the answer is cut off.
    pub async fn piece(&mut self) -> Result<Option<Bytes>> {
        if !self.surplus.is_empty() {
            return Ok(Some(std::mem::take(&mut self.surplus)));
        }
        loop {
            let frame = poll::patiently("the next piece of a body", async { Ok(self.body.frame().await) }).await?;
            let Some(frame) = frame else {
                return Ok(None);
            };
            match frame.context("the answer is cut off")?.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) => return Ok(Some(data)),
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        self.head.trailers = trailers;
                    }
                }
            }
        }
    }

    /// The next `count` bytes of the body.
    ///
    /// # Errors
    /// If the answer has fewer, or is cut off.
    pub async fn bytes(&mut self, count: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(count);
        while bytes.len() < count {
            let Some(mut piece) = self.piece().await? else {
                bail!("the answer ends after {} bytes of {count}", bytes.len());
            };
            self.surplus = piece.split_off(piece.len().min(count - bytes.len()));
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    /// Reads the rest of the body and returns the answer.
    ///
    /// # Errors
    /// If the answer is cut off.
    pub async fn rest(mut self) -> Result<Answer> {
        let mut body = Vec::new();
        while let Some(piece) = self.piece().await? {
            body.extend_from_slice(&piece);
        }
        self.head.body = body.into();
        Ok(self.head)
    }
}
