//! Mutual TLS with certificate files that may change while the server runs.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::WebPkiClientVerifier;
use zeroize::Zeroizing;

use super::snapshots::lock;
use super::validity::{CertificateRole, CertificateUse, Validity};

/// The files of mutual TLS, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by its chain.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// The authorities that sign client certificates.
    pub client_ca: PathBuf,
}

/// Why the certificate files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file is not PEM, or lacks what it should contain.
    #[error("{}: {error}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Why.
        error: pem::Error,
    },
    /// A file contains no certificate.
    #[error("{}: no certificate is in it", .0.display())]
    NoCertificate(PathBuf),
    /// The certificates or the key are invalid, or do not belong together.
    #[error("the certificate, the key and the clients' authorities cannot be used: {0}")]
    Unusable(String),
}

/// The TLS configuration of new connections.
#[derive(Debug)]
pub(super) struct Tls {
    files: TlsFiles,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    read: Read,
    seen: Stamps,
}

/// What the files say.
#[derive(Debug)]
struct Read {
    config: Arc<ServerConfig>,
    uses: Vec<CertificateUse>,
}

/// What shows that a file changed: its inode, its modification time, and its length.
type Stamps = [Option<(u64, SystemTime, u64)>; 3];

impl Tls {
    pub(super) fn load(files: TlsFiles) -> Result<Self, TlsError> {
        // Take the stamps before reading: a change in between is then read again.
        let seen = files.stamps();
        let read = files.read()?;
        Ok(Self {
            files,
            state: Mutex::new(State { read, seen }),
        })
    }

    /// The TLS configuration for a new connection. Changed files are read again. While they are invalid, the last good
    /// ones stay in use.
    pub(super) fn current(&self) -> Arc<ServerConfig> {
        let mut state = lock(&self.state);
        let stamps = self.files.stamps();
        if stamps != state.seen {
            state.seen = stamps;
            match self.files.read() {
                Ok(read) => {
                    state.read = read;
                    tracing::info!(files = ?self.files, "the xDS server's certificates changed");
                }
                Err(error) => tracing::error!(%error, "the xDS server keeps its last good certificates"),
            }
        }
        Arc::clone(&state.read.config)
    }

    /// The certificates that are in use.
    pub(super) fn uses(&self) -> Vec<CertificateUse> {
        lock(&self.state).read.uses.clone()
    }
}

impl TlsFiles {
    fn stamps(&self) -> Stamps {
        [&self.certificate, &self.key, &self.client_ca].map(|path| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.ino(), metadata.modified().ok()?, metadata.len()))
        })
    }

    fn read(&self) -> Result<Read, TlsError> {
        let unusable = |error: rustls::Error| TlsError::Unusable(error.to_string());
        let provider = Arc::new(ring::default_provider());
        let mut authorities = RootCertStore::empty();
        let known = certificates(&self.client_ca)?;
        for authority in &known {
            authorities.add(authority.clone()).map_err(unusable)?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), Arc::clone(&provider));
        let verifier = verifier
            .build()
            .map_err(|error| TlsError::Unusable(error.to_string()))?;
        let key = Zeroizing::new(bytes(&self.key)?);
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| TlsError::Pem {
            path: self.key.clone(),
            error,
        })?;
        let own = certificates(&self.certificate)?;
        let read = |role, path: &Path, certificates: &[_]| {
            let whose = path.display().to_string();
            Validity::first(certificates).map(|validity| CertificateUse { role, whose, validity })
        };
        let uses = [
            read(CertificateRole::Server, &self.certificate, &own),
            read(CertificateRole::Authority, &self.client_ca, &known),
        ];
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(own, key)
            .map_err(unusable)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Read {
            config: Arc::new(config),
            uses: uses.into_iter().flatten().collect(),
        })
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|error| TlsError::Read {
        path: path.to_owned(),
        error,
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = bytes(path)?;
    let certificates = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| TlsError::Pem {
        path: path.to_owned(),
        error,
    })?;
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate(path.to_owned()));
    }
    Ok(certificates)
}
