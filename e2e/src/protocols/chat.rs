//! A WebSocket service and its client.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use futures_util::{SinkExt, StreamExt};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use hyper::upgrade::Upgraded;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::Session;
use crate::{Body, BoxError, Protocol, Reply, Tasks, poll};

/// The service: it sends its name and echoes messages. `close` closes the WebSocket, `vanish` the connection; the path
/// `/refuse` opens none.
#[derive(Debug)]
pub struct Chat;

impl Protocol for Chat {
    fn speaks(&self, request: &hyper::Request<Incoming>) -> bool {
        request.headers().get(UPGRADE).is_some_and(|to| to == "websocket")
    }

    fn answer(&self, backend: &str, mut request: hyper::Request<Incoming>, tasks: &Tasks) -> Reply {
        let backend = backend.to_owned();
        let upgrade = hyper::upgrade::on(&mut request);
        let refuse = request.uri().path() == "/refuse";
        if !refuse {
            tasks.spawn(async move {
                if let Ok(connection) = upgrade.await {
                    // An error means that the client has gone.
                    let _ = converse(&backend, connection).await;
                }
            });
        }
        Box::pin(async move {
            let response = Response::builder();
            if refuse {
                return Ok(response.status(StatusCode::FORBIDDEN).body(empty())?);
            }
            let key = request.headers().get(SEC_WEBSOCKET_KEY).context("no key")?;
            Ok(response
                .status(StatusCode::SWITCHING_PROTOCOLS)
                .header(CONNECTION, "upgrade")
                .header(UPGRADE, "websocket")
                .header(SEC_WEBSOCKET_ACCEPT, derive_accept_key(key.as_bytes()))
                .body(empty())?)
        })
    }
}

fn empty() -> Body {
    http_body_util::Empty::new().map_err(BoxError::from).boxed_unsync()
}

async fn converse(backend: &str, connection: Upgraded) -> Result<(), Error> {
    let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(connection), Role::Server, None).await;
    socket.send(backend.into()).await?;
    while let Some(message) = socket.next().await {
        match message? {
            Message::Text(text) if text == "vanish" => return Ok(()),
            Message::Text(text) if text == "close" => socket.close(None).await?,
            message @ (Message::Text(_) | Message::Binary(_)) => socket.send(message).await?,
            // The library answers pings and close messages.
            _ => {}
        }
    }
    Ok(())
}

/// The client's end of a WebSocket.
#[derive(Debug)]
pub struct Socket<S = TcpStream>(WebSocketStream<S>);

impl Socket {
    /// Opens a WebSocket, which the session's backend must greet.
    ///
    /// # Errors
    /// If it does not.
    pub async fn open(address: SocketAddr, session: &mut Session) -> Result<Self> {
        let (socket, headers) = Self::handshake(address, session).await?;
        session.answered(&headers)?;
        socket.greeted_by(session).await
    }

    /// Opens a WebSocket at any backend. Also returns the answer's headers.
    ///
    /// # Errors
    /// If the answer opens none.
    pub async fn handshake(address: SocketAddr, session: &Session) -> Result<(Self, hyper::HeaderMap)> {
        Self::handshake_at(address, "/chat", session).await
    }

    /// As [`Socket::handshake`], at this path.
    ///
    /// # Errors
    /// As [`Socket::handshake`].
    pub async fn handshake_at(address: SocketAddr, path: &str, session: &Session) -> Result<(Self, hyper::HeaderMap)> {
        let stream = TcpStream::connect(address).await?;
        Self::handshake_on(stream, &format!("{address}{path}"), session.field()).await
    }

    /// As [`Socket::handshake`], on this connection, with a header field.
    ///
    /// # Errors
    /// As [`Socket::handshake`].
    pub async fn handshake_on(
        stream: TcpStream,
        place: &str,
        field: Option<(&'static str, String)>,
    ) -> Result<(Self, hyper::HeaderMap)> {
        let mut request = format!("ws://{place}").into_client_request()?;
        if let Some((name, value)) = field {
            let name = HeaderName::from_static(name);
            request.headers_mut().insert(name, value.parse()?);
        }
        let (socket, response) = poll::patiently("a WebSocket", async {
            Ok(tokio_tungstenite::client_async(request, stream).await?)
        })
        .await?;
        Ok((Self(socket), response.into_parts().0.headers))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// A WebSocket on an open stream.
    pub async fn over(stream: S) -> Self {
        Self(WebSocketStream::from_raw_socket(stream, Role::Client, None).await)
    }

    /// Waits for the greeting of the session's backend.
    ///
    /// # Errors
    /// If it does not.
    pub async fn greeted_by(mut self, session: &Session) -> Result<Self> {
        let greeting = self.receive().await?;
        if greeting.to_text()? != session.backend() {
            bail!("{greeting} answered a session of {}", session.backend());
        }
        Ok(self)
    }

    /// Sends a message, which must come back.
    ///
    /// # Errors
    /// If it does not.
    pub async fn echo(&mut self, message: impl Into<Message>) -> Result<()> {
        let message = message.into();
        self.send(message.clone()).await?;
        let back = self.receive().await?;
        if back != message {
            bail!("{} bytes came back as {} other bytes", message.len(), back.len());
        }
        Ok(())
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If the WebSocket is closed.
    pub async fn send(&mut self, message: impl Into<Message>) -> Result<()> {
        Ok(self.0.send(message.into()).await?)
    }

    /// The next message.
    ///
    /// # Errors
    /// If none comes.
    pub async fn receive(&mut self) -> Result<Message> {
        let message = poll::patiently("a message", async { Ok(self.0.next().await) }).await?;
        Ok(message.context("the WebSocket is closed")??)
    }

    /// Closes the WebSocket, and waits until the backend has, too.
    ///
    /// # Errors
    /// If the backend does not.
    pub async fn close(mut self) -> Result<()> {
        self.0.close(None).await?;
        match self.receive().await? {
            Message::Close(_) => Ok(()),
            other => bail!("{other} came instead of the end"),
        }
    }
}
