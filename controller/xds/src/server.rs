//! The server: its address, its clients, and its shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryServiceServer;
use envoy_types::pb::envoy::service::extension::v3::extension_config_discovery_service_server::ExtensionConfigDiscoveryServiceServer;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;

use super::accept::{Acceptor, WAITING};
use super::admission::{Admission, ConnectionAdmission};
use super::certificates::Certificates;
use super::intake::Intake;
use super::limits;
use super::log_rate::LogRate;
use super::permission::Permission;
use super::reports::{LoadReportService, ReportHandler, ReportService, SessionReportService};
use super::service::DiscoveryState;
use super::snapshots::Snapshots;
use super::tls::{CertificateSource, TlsError, TlsFiles, TlsInMemory};

/// How long a node may be silent before a ping.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long connections have to end at shutdown.
const GRACE: Duration = Duration::from_secs(5);
/// The largest request, in bytes: a node that reconnects names all resources that it has, at some hundred bytes each.
const REQUEST_LIMIT: usize = 8 << 20;
/// Streams of one connection: Envoy opens one for each kind of service, and a second one while it replaces the first.
const STREAMS: u32 = 8;
/// Bytes that may be sent before the server takes them in.
const CONNECTION_WINDOW: u32 = 256 << 10;
const STREAM_WINDOW: u32 = 64 << 10;
/// The largest headers of a stream, in bytes: an Envoy's have some hundred.
const HEADER_LIMIT: u32 = 16 << 10;

/// Options of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOptions {
    /// The address to listen on. Port 0 takes a free port.
    pub address: SocketAddr,
    /// The clients that may connect.
    pub security: ServerSecurity,
}

/// The clients that may connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerSecurity {
    /// Clients with a certificate of a known authority, over mutual TLS.
    MutualTls(TlsFiles),
    /// As [`Self::MutualTls`], with certificates that are handed over while the server runs.
    MutualTlsInMemory(TlsInMemory),
    /// All clients on this machine, in plain text, on a loopback address only.
    PlaintextOnLoopback,
    /// All clients, in plain text, where something else protects the network: resources may contain keys and
    /// certificates.
    PlaintextAnywhere,
}

impl ServerSecurity {
    /// Whether a server may listen on this address.
    #[must_use]
    pub fn permits(&self, address: SocketAddr) -> bool {
        !matches!(self, Self::PlaintextOnLoopback) || address.ip().to_canonical().is_loopback()
    }
}

/// Why a server cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Plain text on an address that other machines can reach, without [`ServerSecurity::PlaintextAnywhere`].
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
    tls: Option<Arc<CertificateSource>>,
    snapshots: Snapshots,
    permission: Permission,
    reports: Option<ReportHandler>,
}

impl Server {
    /// Listens on the address of `options`. Clients wait until [`Server::serve`].
    ///
    /// # Errors
    /// If plain text is not permitted on the address, the certificates cannot be used, or listening fails.
    pub async fn bind(options: ServerOptions, snapshots: Snapshots) -> Result<Self, ServerError> {
        let ServerOptions { address, security } = options;
        if !security.permits(address) {
            return Err(ServerError::Plaintext(address));
        }
        let tls = match security {
            ServerSecurity::MutualTls(files) => Some(Arc::new(CertificateSource::load(files)?)),
            ServerSecurity::MutualTlsInMemory(in_memory) => Some(Arc::new(CertificateSource::InMemory(in_memory))),
            ServerSecurity::PlaintextAnywhere | ServerSecurity::PlaintextOnLoopback => None,
        };
        let failed = |error| ServerError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self {
            listener,
            address,
            tls,
            snapshots,
            permission: Permission::default(),
            reports: None,
        })
    }

    /// Takes nodes' reports of traffic. Without it, load reports are not asked for.
    #[must_use]
    pub fn with_reports(self, reports: ReportHandler) -> Self {
        Self {
            reports: Some(reports),
            ..self
        }
    }

    /// Asks this before a node gets anything. Without it, every node that may connect gets its group's resources.
    #[must_use]
    pub fn with_permission(self, permission: Permission) -> Self {
        Self { permission, ..self }
    }

    /// The address that the server listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificates that the server uses and that its clients have.
    #[must_use]
    pub fn certificates(&self) -> Certificates {
        Certificates::new(self.tls.clone(), self.snapshots.clone())
    }

    /// Serves until `shutdown` is ready. Then all streams end, so that nodes connect elsewhere; they keep what they
    /// have.
    ///
    /// # Errors
    /// If the server ends by itself.
    pub async fn serve(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), ServerError> {
        let (end, ending) = watch::channel(false);
        let logs = Arc::new(LogRate::default());
        let taking = ReportService::new(self.reports, self.permission.clone(), ending.clone());
        let (loads, sessions) = (LoadReportService(taking.clone()), SessionReportService(taking));
        let discovery = DiscoveryState::new(
            self.snapshots.clone(),
            self.permission,
            Arc::clone(&logs),
            ending.clone(),
        );
        let aggregated =
            AggregatedDiscoveryServiceServer::new(discovery.clone()).max_decoding_message_size(REQUEST_LIMIT);
        let extension = ExtensionConfigDiscoveryServiceServer::new(discovery).max_decoding_message_size(REQUEST_LIMIT);
        let (ready, incoming) = mpsc::channel(WAITING);
        let acceptor = Acceptor {
            tls: self.tls,
            ready,
            handshakes: Admission::of_handshakes(),
            connections: ConnectionAdmission::default(),
            snapshots: self.snapshots,
            logs,
        };
        let accepting = acceptor.run(self.listener);
        let ended = async |mut ending: watch::Receiver<bool>| {
            // Without a sender no stream is left, which is fine.
            let _ = ending.wait_for(|ending| *ending).await;
        };
        tracing::info!(address = %self.address, "the xDS server listens");
        let serving = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
            .http2_max_header_list_size(Some(HEADER_LIMIT))
            .max_concurrent_streams(Some(STREAMS))
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_stream_window_size(STREAM_WINDOW)
            .add_service(Intake::new(aggregated))
            .add_service(Intake::new(extension))
            .add_service(Intake::new(loads).at_most(limits::LARGE_LOADS))
            .add_service(Intake::new(sessions).at_most(limits::REPORTS))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn plain_text_is_for_loopback_addresses_unless_asked_for() {
        let bind = async |address: &str, security| {
            let address = address.parse().unwrap();
            Server::bind(ServerOptions { address, security }, Snapshots::new()).await
        };
        for address in ["0.0.0.0:0", "[::]:0", "10.66.0.2:0", "[::ffff:10.66.0.2]:0"] {
            let error = bind(address, ServerSecurity::PlaintextOnLoopback).await.unwrap_err();
            assert!(matches!(error, ServerError::Plaintext(_)), "{address}: {error}");
            assert!(error.to_string().contains("is not a loopback address"), "{error}");
        }
        assert!(bind("127.0.0.1:0", ServerSecurity::PlaintextOnLoopback).await.is_ok());
        assert!(bind("127.1.2.3:0", ServerSecurity::PlaintextOnLoopback).await.is_ok());
        assert!(bind("0.0.0.0:0", ServerSecurity::PlaintextAnywhere).await.is_ok());
    }

    #[tokio::test]
    async fn a_server_without_certificates_does_not_start() {
        let missing = std::path::PathBuf::from("does/not/exist");
        let files = TlsFiles {
            certificate: missing.clone(),
            key: missing.clone(),
            client_ca: missing,
        };
        let options = ServerOptions {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            security: ServerSecurity::MutualTls(files),
        };
        let error = Server::bind(options, Snapshots::new()).await.unwrap_err();
        assert!(matches!(error, ServerError::Tls(TlsError::Read { .. })), "{error}");
        assert!(error.to_string().starts_with("does/not/exist: "), "{error}");
    }
}
