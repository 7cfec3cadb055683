//! From a TCP connection to a client that may open streams.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::admission::{Admission, AdmissionPermit, ConnectionAdmission, DisplacementSignal};
use super::connection::{ClientConnection, ExpiringConnection, Socket};
use super::counters::RejectionReason;
use super::log_rate::LogRate;
use super::peer::{CertificateIdentity, Peer};
use super::renewal;
use super::snapshots::Snapshots;
use super::tls::CertificateSource;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// How often certificate files are read while no client connects, so that broken ones are reported.
const INTERVAL: Duration = Duration::from_secs(10);
/// Connections that wait for the HTTP server to take them.
pub(super) const WAITING: usize = 64;

/// Accepts connections for ever. It never waits for a client.
pub(super) struct Acceptor {
    pub(super) tls: Option<Arc<CertificateSource>>,
    pub(super) ready: mpsc::Sender<io::Result<ExpiringConnection>>,
    pub(super) handshakes: Admission,
    pub(super) connections: ConnectionAdmission,
    pub(super) snapshots: Snapshots,
    pub(super) logs: Arc<LogRate>,
}

impl Acceptor {
    pub(super) async fn run(self, listener: TcpListener) {
        let this = Arc::new(self);
        let mut looks = interval(INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, address)) => this.begin(stream, address),
                    Err(error) => {
                        // The client is gone, or there are too many open files: both pass.
                        if let Some(left_out) = this.logs.permit() {
                            tracing::warn!(%error, left_out, "cannot accept a connection");
                        }
                        sleep(Duration::from_millis(100)).await;
                    }
                },
                _ = looks.tick() => {
                    if let Some(tls) = &this.tls {
                        tls.current();
                    }
                    if let Some(left_out) = this.logs.rest() {
                        tracing::warn!(left_out, "more connections were turned away");
                    }
                }
            }
        }
    }

    fn begin(self: &Arc<Self>, stream: TcpStream, address: SocketAddr) {
        // Sends small messages at once: an optimisation, so an error is ignored.
        let _ = stream.set_nodelay(true);
        let this = Arc::clone(self);
        // Before the task runs: it is the order of places.
        let handshake = self.tls.is_some().then(|| self.handshakes.begin(address.into()));
        tokio::spawn(async move {
            if let Err((why, error)) = this.serve(stream, address, handshake).await {
                this.snapshots.shared().counters.turned_away(why);
                if let Some(left_out) = this.logs.permit() {
                    tracing::warn!(peer = %address, error, left_out, "a connection was turned away");
                }
            }
        });
    }

    async fn serve(
        self: &Arc<Self>,
        stream: TcpStream,
        address: SocketAddr,
        handshake: Option<AdmissionPermit>,
    ) -> Result<(), (RejectionReason, String)> {
        let (socket, identity, shown) = match (&self.tls, handshake) {
            (Some(tls), Some(handshake)) => {
                let (stream, identity, shown) = authenticate(tls, stream, handshake).await?;
                (Socket::Tls(stream), Some(identity), shown)
            }
            (None, _) => (Socket::Plain(stream), None, Vec::new()),
            (Some(_), None) => return Err((RejectionReason::Handshake, "the handshake has no place".to_owned())),
        };
        let peer = Peer { address, identity };
        let (place, displaced) = self.connections.enter(&peer).ok_or_else(|| {
            let words = "too many connections are open, of this address or of all, and none has more than this one's";
            (RejectionReason::Connections, words.to_owned())
        })?;
        let client = ClientConnection::new(peer, place);
        let connection = ExpiringConnection::new(socket, client.clone());
        // Not in this task, which is as large as a handshake.
        tokio::spawn(Arc::clone(self).end(client, shown, displaced));
        // A closed channel means that the server ends.
        let _ = self.ready.send(Ok(connection)).await;
        Ok(())
    }

    /// Ends the connection when another one has its place, or its client may have renewed its certificates, or has to.
    async fn end(
        self: Arc<Self>,
        client: ClientConnection,
        shown: Vec<CertificateDer<'static>>,
        displaced: DisplacementSignal,
    ) {
        let Peer { address, identity } = client.peer();
        let certificate = async {
            match (&self.tls, identity) {
                (Some(tls), Some(identity)) => tokio::select! {
                    () = renewal::wait(tls, &shown, identity.validity) => "its certificate may have been renewed",
                    () = renewal::distrusted(tls, &shown, identity.validity) => "its authority is not trusted any more",
                },
                _ => std::future::pending().await,
            }
        };
        let subject = identity.as_ref().map(|identity| &identity.subject);
        tokio::select! {
            () = client.gone() => return,
            why = certificate => tracing::info!(peer = %address, subject, why, "a connection ends"),
            // The sender sends nothing; it is dropped.
            _ = displaced => {
                self.snapshots.shared().counters.turned_away(RejectionReason::Connections);
                if let Some(left_out) = self.logs.permit() {
                    let words = "a connection gave way: its certificate, or its address, has most of all";
                    tracing::warn!(peer = %address, subject, left_out, "{words}");
                }
            }
        }
        client.end().await;
    }
}

type TlsStream = Box<tokio_rustls::server::TlsStream<TcpStream>>;

async fn authenticate(
    tls: &CertificateSource,
    stream: TcpStream,
    mut handshake: AdmissionPermit,
) -> Result<(TlsStream, CertificateIdentity, Vec<CertificateDer<'static>>), (RejectionReason, String)> {
    let config = tls.current().ok_or_else(|| {
        let words = "the server has no certificate yet".to_owned();
        (RejectionReason::Handshake, words)
    })?;
    let acceptor = TlsAcceptor::from(config);
    let stream = tokio::select! {
        result = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)) => match result {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err((RejectionReason::Handshake, format!("the handshake failed: {error}"))),
            Err(_) => return Err((RejectionReason::Handshake, "the handshake took too long".to_owned())),
        },
        () = handshake.displaced() => {
            return Err((RejectionReason::Handshake, "the handshake gave way to newer ones".to_owned()));
        }
    };
    let shown = stream.get_ref().1.peer_certificates();
    let shown = shown.map(<[_]>::to_vec).unwrap_or_default();
    let identity = shown.first().and_then(CertificateIdentity::of);
    let identity = identity.ok_or_else(|| {
        let words = "the client's certificate cannot be read".to_owned();
        (RejectionReason::Handshake, words)
    })?;
    handshake.succeeded();
    Ok((Box::new(stream), identity, shown))
}
