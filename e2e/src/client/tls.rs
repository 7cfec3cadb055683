//! TLS for clients.

use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A client's trusted certificate authorities, and the server name that it asks for.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    server: ServerName<'static>,
}

impl Tls {
    /// Trusts the certificate authorities in `roots` (PEM) for this server name or address.
    ///
    /// # Errors
    /// If `roots` is not PEM, or `server` is not a valid name.
    pub fn new(roots: &str, server: &str) -> Result<Self> {
        let mut store = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(roots.as_bytes()) {
            store.add(root.context("not a certificate in PEM")?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(store)
            .with_no_client_auth();
        Ok(Self {
            config: Arc::new(config),
            server: ServerName::try_from(server.to_owned())?,
        })
    }

    pub(super) async fn shake_hands(&self, stream: TcpStream, http2: bool) -> Result<TlsStream<TcpStream>> {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![if http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
        let connected = TlsConnector::from(Arc::new(config)).connect(self.server.clone(), stream);
        connected.await.context("no TLS")
    }
}
