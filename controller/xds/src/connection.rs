//! A client's connection.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::WatchStream;
use tonic::transport::server::Connected;

use super::admission::ConnectionPermit;
use super::peer::Peer;

/// How long a connection may be open before its first stream begins.
const FIRST_STREAM: Duration = Duration::from_secs(10);
/// How long the ends of its streams have to reach the client before the connection ends.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// What the streams of a connection share.
#[derive(Debug, Clone)]
pub(super) struct ClientConnection(Arc<ConnectionState>);

#[derive(Debug)]
struct ConnectionState {
    peer: Peer,
    place: Arc<ConnectionPermit>,
    has_streamed: AtomicBool,
    end: watch::Sender<ConnectionEnd>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum ConnectionEnd {
    #[default]
    Open,
    OfStreams,
    OfConnection,
}

impl ClientConnection {
    pub(super) fn new(peer: Peer, place: Arc<ConnectionPermit>) -> Self {
        Self(Arc::new(ConnectionState {
            peer,
            place,
            has_streamed: AtomicBool::new(false),
            end: watch::Sender::default(),
        }))
    }

    pub(super) fn peer(&self) -> &Peer {
        &self.0.peer
    }

    pub(super) fn place(&self) -> &Arc<ConnectionPermit> {
        &self.0.place
    }

    pub(super) fn streams(&self) {
        self.0.has_streamed.store(true, Ordering::Relaxed);
    }

    /// Ends the connection: its streams first, so that the client learns why.
    pub(super) async fn end(&self) {
        self.0.end.send_replace(ConnectionEnd::OfStreams);
        sleep(LAST_WORDS).await;
        self.0.end.send_replace(ConnectionEnd::OfConnection);
    }

    pub(super) async fn ending(&self) {
        // `self` holds the sender, so the channel is open.
        let _ = self
            .0
            .end
            .subscribe()
            .wait_for(|end| *end >= ConnectionEnd::OfStreams)
            .await;
    }

    pub(super) fn is_ending(&self) -> bool {
        *self.0.end.borrow() >= ConnectionEnd::OfStreams
    }

    pub(super) async fn gone(&self) {
        self.0.end.closed().await;
    }

    fn has_streamed(&self) -> bool {
        self.0.has_streamed.load(Ordering::Relaxed)
    }
}

/// A connection that ends by itself if no stream begins.
#[derive(Debug)]
pub(super) struct ExpiringConnection {
    socket: Socket,
    client: ClientConnection,
    deadline: Option<Pin<Box<Sleep>>>,
    end: WatchStream<ConnectionEnd>,
}

#[derive(Debug)]
pub(super) enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl ExpiringConnection {
    pub(super) fn new(socket: Socket, client: ClientConnection) -> Self {
        Self {
            socket,
            end: WatchStream::new(client.0.end.subscribe()),
            client,
            deadline: Some(Box::pin(sleep(FIRST_STREAM))),
        }
    }

    /// Whether the server ends the connection. If not, the task is woken when it does.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        while let Poll::Ready(Some(end)) = Pin::new(&mut self.end).poll_next(cx) {
            if end == ConnectionEnd::OfConnection {
                return true;
            }
        }
        false
    }
}

impl Connected for ExpiringConnection {
    type ConnectInfo = ClientConnection;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.client.clone()
    }
}

impl AsyncRead for ExpiringConnection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(deadline) = &mut this.deadline {
            if this.client.has_streamed() {
                this.deadline = None;
            } else if deadline.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        if this.is_over(cx) {
            // As if the client had ended it: what is left to write is written.
            return Poll::Ready(Ok(()));
        }
        match &mut this.socket {
            Socket::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Socket::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for ExpiringConnection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().socket {
            Socket::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Socket::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            Socket::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Socket::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            Socket::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
