//! Ports of pods that speak TLS, and remember what reached them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use limpet_e2e::kube::Pod;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::certificates::Certificate;

pub(super) const TLS_PORT: u16 = 8443;

/// RFC 8446, section 5.1.
const HANDSHAKE: u8 = 22;

/// Ends TLS at a pod's address, in front of its backend. It takes plain text, too, so that such a request is seen.
#[derive(Debug)]
pub(super) struct Front {
    seen: Arc<Mutex<Seen>>,
    server: JoinHandle<()>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) plain: usize,
    /// Server name and protocol of connections.
    pub(super) tls: Vec<(Option<String>, Option<String>)>,
}

impl Front {
    pub(super) async fn start(pod: &Pod, certificate: &Certificate) -> Result<Self> {
        let backend = pod.address();
        let listener = TcpListener::bind(SocketAddr::new(backend.ip(), TLS_PORT)).await?;
        let acceptor = TlsAcceptor::from(Arc::new(config(certificate)?));
        let seen = Arc::new(Mutex::new(Seen::default()));
        let server = tokio::spawn(serve(listener, acceptor, backend, Arc::clone(&seen)));
        Ok(Self { seen, server })
    }

    pub(super) fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn config(certificate: &Certificate) -> Result<ServerConfig> {
    let chain = CertificateDer::pem_slice_iter(certificate.certificate.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>().context("no certificate")?;
    let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes()).context("no key")?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, backend: SocketAddr, seen: Arc<Mutex<Seen>>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        while connections.try_join_next().is_some() {}
        let (acceptor, seen) = (acceptor.clone(), Arc::clone(&seen));
        connections.spawn(async move {
            let _ = connection(stream, acceptor, backend, &seen).await;
        });
    }
}

async fn connection(
    mut stream: TcpStream,
    acceptor: TlsAcceptor,
    backend: SocketAddr,
    seen: &Mutex<Seen>,
) -> Result<()> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 {
        return Ok(());
    }
    if first != [HANDSHAKE] {
        lock(seen).plain += 1;
        let mut backend = TcpStream::connect(backend).await?;
        copy_bidirectional(&mut stream, &mut backend).await?;
        return Ok(());
    }
    let mut stream = acceptor.accept(stream).await?;
    let (_, session) = stream.get_ref();
    let name = session.server_name().map(str::to_owned);
    let protocol = session
        .alpn_protocol()
        .map(|name| String::from_utf8_lossy(name).into_owned());
    lock(seen).tls.push((name, protocol));
    let mut backend = TcpStream::connect(backend).await?;
    copy_bidirectional(&mut stream, &mut backend).await?;
    Ok(())
}
