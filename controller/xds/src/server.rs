//! The server: its address, its clients, and its shutdown.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryServiceServer;
use envoy_types::pb::envoy::service::extension::v3::extension_config_discovery_service_server::ExtensionConfigDiscoveryServiceServer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

use super::service::Discovery;
use super::snapshots::Snapshots;
use super::tls::{Tls, TlsError, TlsFiles};

/// How long a node may be silent before the server pings it.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// How long a node has to answer a ping.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The limit of handshakes that are under way or wait to be served.
const HANDSHAKES: usize = 64;
/// How often the certificate files are checked while nobody connects, so that broken ones are reported.
const CERTIFICATES_INTERVAL: Duration = Duration::from_secs(10);
/// How long connections have to end at shutdown.
const GRACE: Duration = Duration::from_secs(5);
/// The largest request. A node that reconnects names all resources that it has, at some hundred bytes each.
const REQUEST_LIMIT: usize = 64 << 20;

/// Options of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The address to listen on. Port 0 takes a free port.
    pub address: SocketAddr,
    /// Which clients may connect.
    pub security: Security,
}

/// Which clients may connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Security {
    /// Clients with a certificate of a known authority, over mutual TLS.
    MutualTls(TlsFiles),
    /// All clients on this machine, in plain text. Permitted on a loopback address only.
    PlaintextOnLoopback,
    /// All clients, in plain text. Resources may contain keys and certificates, so use this only where something else
    /// protects the network.
    PlaintextAnywhere,
}

impl Security {
    /// Whether a server may listen on this address.
    #[must_use]
    pub fn permits(&self, address: SocketAddr) -> bool {
        !matches!(self, Self::PlaintextOnLoopback) || address.ip().to_canonical().is_loopback()
    }
}

/// Why a server cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Plain text on an address that other machines can reach, without [`Security::PlaintextAnywhere`].
    #[error(
        "{0} is not a loopback address, and secrets are served: plain text there must be asked for, or TLS configured"
    )]
    Plaintext(SocketAddr),
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The server ended by itself.
    #[error("the xDS server ended: {0}")]
    Serve(#[from] tonic::transport::Error),
}

/// A server that listens and does not serve yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<Tls>>,
    snapshots: Snapshots,
}

impl Server {
    /// Listens on the address of `options`. Clients wait until [`Server::serve`].
    ///
    /// # Errors
    /// If plain text is not permitted on the address, the certificates cannot be used, or the address cannot be
    /// listened on.
    pub async fn bind(options: Options, snapshots: Snapshots) -> Result<Self, ServerError> {
        let Options { address, security } = options;
        if !security.permits(address) {
            return Err(ServerError::Plaintext(address));
        }
        let tls = match security {
            Security::MutualTls(files) => Some(Arc::new(Tls::load(files)?)),
            Security::PlaintextAnywhere | Security::PlaintextOnLoopback => None,
        };
        let failed = |error| ServerError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self {
            listener,
            address,
            tls,
            snapshots,
        })
    }

    /// The address that the server listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` is ready. Then all streams end, so that nodes connect elsewhere. Nodes keep what they
    /// have.
    ///
    /// # Errors
    /// If the server ends by itself.
    pub async fn serve(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), ServerError> {
        let (end, ending) = watch::channel(false);
        let discovery = Discovery::new(self.snapshots, ending.clone());
        let aggregated =
            AggregatedDiscoveryServiceServer::new(discovery.clone()).max_decoding_message_size(REQUEST_LIMIT);
        let extension = ExtensionConfigDiscoveryServiceServer::new(discovery).max_decoding_message_size(REQUEST_LIMIT);
        let (connections, incoming) = mpsc::channel(HANDSHAKES);
        let accepting = accept(self.listener, self.tls, connections);
        let ended = async |mut ending: watch::Receiver<bool>| {
            // A failed send means that no stream is left, which is fine.
            let _ = ending.wait_for(|ending| *ending).await;
        };
        tracing::info!(address = %self.address, "the xDS server listens");
        let serving = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
            .add_service(aggregated)
            .add_service(extension)
            .serve_with_incoming_shutdown(ReceiverStream::new(incoming), ended(ending));
        tokio::pin!(serving);
        tokio::select! {
            result = &mut serving => return Ok(result?),
            () = accepting => {}
            () = shutdown => {}
        }
        end.send_replace(true);
        if let Ok(result) = timeout(GRACE, serving).await {
            return Ok(result?);
        }
        tracing::warn!("connections of nodes are cut off");
        Ok(())
    }
}

/// Accepts connections for ever. Handshakes run in parallel.
async fn accept(listener: TcpListener, tls: Option<Arc<Tls>>, connections: mpsc::Sender<io::Result<Connection>>) {
    let mut looks = tokio::time::interval(CERTIFICATES_INTERVAL);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = looks.tick() => {
                if let Some(tls) = &tls {
                    tls.current();
                }
                continue;
            }
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // The client is gone, or there are too many open files: both pass.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // Send small messages at once. It is an optimisation only, so an error is ignored.
        let _ = stream.set_nodelay(true);
        // A permit is free again when a handshake ends or times out.
        let Ok(place) = connections.clone().reserve_owned().await else {
            return;
        };
        let Some(tls) = &tls else {
            place.send(Ok(Connection::Plain(stream)));
            continue;
        };
        let acceptor = TlsAcceptor::from(tls.current());
        tokio::spawn(async move {
            let peer = stream.peer_addr().map(|peer| peer.to_string()).unwrap_or_default();
            match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => drop(place.send(Ok(Connection::Tls(Box::new(stream))))),
                Ok(Err(error)) => tracing::warn!(peer, %error, "a handshake failed"),
                Err(_) => tracing::warn!(peer, "a handshake took too long"),
            }
        });
    }
}

/// A client connection.
#[derive(Debug)]
enum Connection {
    Plain(TcpStream),
    Tls(Box<tokio_rustls::server::TlsStream<TcpStream>>),
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) -> Self::ConnectInfo {}
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn plain_text_is_for_loopback_addresses_unless_asked_for() {
        let bind = async |address: &str, security| {
            let address = address.parse().unwrap();
            Server::bind(Options { address, security }, Snapshots::new()).await
        };
        for address in ["0.0.0.0:0", "[::]:0", "10.66.0.2:0", "[::ffff:10.66.0.2]:0"] {
            let error = bind(address, Security::PlaintextOnLoopback).await.unwrap_err();
            assert!(matches!(error, ServerError::Plaintext(_)), "{address}: {error}");
            assert!(error.to_string().contains("is not a loopback address"), "{error}");
        }
        assert!(bind("127.0.0.1:0", Security::PlaintextOnLoopback).await.is_ok());
        assert!(bind("127.1.2.3:0", Security::PlaintextOnLoopback).await.is_ok());
        assert!(bind("0.0.0.0:0", Security::PlaintextAnywhere).await.is_ok());
    }

    #[tokio::test]
    async fn a_server_without_certificates_does_not_start() {
        let missing = std::path::PathBuf::from("does/not/exist");
        let files = TlsFiles {
            certificate: missing.clone(),
            key: missing.clone(),
            client_ca: missing,
        };
        let options = Options {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            security: Security::MutualTls(files),
        };
        let error = Server::bind(options, Snapshots::new()).await.unwrap_err();
        assert!(matches!(error, ServerError::Tls(TlsError::Read { .. })), "{error}");
        assert!(error.to_string().starts_with("does/not/exist: "), "{error}");
    }
}
