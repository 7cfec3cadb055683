//! Mutual TLS with certificates that may change while the server runs: from files, or handed over.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use zeroize::Zeroizing;

use super::snapshots::lock;
use super::validity::{CertificateRole, CertificateUse, Validity};

/// The files of mutual TLS, as PEM. Changed files are read again for the next connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by its chain.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// The authorities that sign client certificates.
    pub client_ca: PathBuf,
}

/// What [`TlsInMemory::hand_over`] takes, as PEM.
#[derive(Clone, Copy)]
pub struct TlsPem<'a> {
    /// The server's certificate, followed by its chain.
    pub certificate: &'a [u8],
    /// The certificate's private key.
    pub key: &'a [u8],
    /// The authorities that sign client certificates.
    pub client_ca: &'a [u8],
    /// Where these authorities are kept, for people.
    pub kept_in: &'a str,
}

impl fmt::Debug for TlsPem<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TlsPem").finish_non_exhaustive()
    }
}

/// Certificates of mutual TLS that a program hands over. Until it has, handshakes fail.
#[derive(Debug, Clone, Default)]
pub struct TlsInMemory(Arc<Mutex<Option<LoadedCertificates>>>);

impl TlsInMemory {
    /// Takes these certificates for new connections. Open ones continue while their authority is trusted.
    ///
    /// # Errors
    /// If they cannot be used. Former ones stay in use then.
    pub fn hand_over(&self, pem: &TlsPem<'_>) -> Result<(), TlsError> {
        let read = read(
            &Pem::of("memory", pem.certificate),
            &Pem::of("memory", pem.key),
            &Pem::of(pem.kept_in, pem.client_ca),
        )?;
        *lock(&self.0) = Some(read);
        Ok(())
    }
}

/// Only handles of the same certificates are equal, whatever is in them.
impl PartialEq for TlsInMemory {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TlsInMemory {}

/// Why certificates cannot be used.
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

#[derive(Debug)]
pub(super) enum CertificateSource {
    Files(Box<FollowedFiles>),
    InMemory(TlsInMemory),
}

#[derive(Debug)]
pub(super) struct FollowedFiles {
    files: TlsFiles,
    state: Mutex<FollowedState>,
}

#[derive(Debug)]
struct FollowedState {
    read: LoadedCertificates,
    stamps: FileStamps,
}

#[derive(Debug)]
struct LoadedCertificates {
    config: Arc<ServerConfig>,
    clients: Arc<dyn ClientCertVerifier>,
    uses: Vec<CertificateUse>,
}

/// The inode, modification time and length of each file.
type FileStamps = [Option<(u64, SystemTime, u64)>; 3];

impl CertificateSource {
    pub(super) fn load(files: TlsFiles) -> Result<Self, TlsError> {
        // Take the stamps before reading: a change in between is then read again.
        let seen = files.stamps();
        let read = files.read()?;
        let state = Mutex::new(FollowedState { read, stamps: seen });
        Ok(Self::Files(Box::new(FollowedFiles { files, state })))
    }

    /// The configuration for a new connection. Changed files are read again; while they are invalid, the last good ones
    /// stay in use. `None`: nothing was handed over yet.
    pub(super) fn current(&self) -> Option<Arc<ServerConfig>> {
        match self {
            Self::Files(followed) => Some(followed.current()),
            Self::InMemory(TlsInMemory(read)) => lock(read).as_ref().map(|read| Arc::clone(&read.config)),
        }
    }

    pub(super) fn admits(&self, shown: &[CertificateDer<'_>], at: SystemTime) -> bool {
        match self {
            Self::Files(followed) => lock(&followed.state).read.admits(shown, at),
            Self::InMemory(TlsInMemory(read)) => lock(read).as_ref().is_some_and(|read| read.admits(shown, at)),
        }
    }

    pub(super) fn verifier(&self) -> Option<Arc<dyn ClientCertVerifier>> {
        match self {
            Self::Files(followed) => Some(Arc::clone(&lock(&followed.state).read.clients)),
            Self::InMemory(TlsInMemory(read)) => lock(read).as_ref().map(|read| Arc::clone(&read.clients)),
        }
    }

    pub(super) fn uses(&self) -> Vec<CertificateUse> {
        match self {
            Self::Files(followed) => lock(&followed.state).read.uses.clone(),
            Self::InMemory(TlsInMemory(read)) => lock(read).as_ref().map(|read| read.uses.clone()).unwrap_or_default(),
        }
    }
}

impl LoadedCertificates {
    fn admits(&self, shown: &[CertificateDer<'_>], at: SystemTime) -> bool {
        let mut own = self.uses.iter().filter(|one| one.role == CertificateRole::Server);
        own.all(|one| one.validity.ends > at) && verifies(&*self.clients, shown, at)
    }
}

pub(super) fn verifies(by: &dyn ClientCertVerifier, shown: &[CertificateDer<'_>], at: SystemTime) -> bool {
    let (Some((first, chain)), Ok(since)) = (shown.split_first(), at.duration_since(UNIX_EPOCH)) else {
        return false;
    };
    let now = UnixTime::since_unix_epoch(since);
    by.verify_client_cert(first, chain, now).is_ok()
}

impl FollowedFiles {
    fn current(&self) -> Arc<ServerConfig> {
        let mut state = lock(&self.state);
        let stamps = self.files.stamps();
        if stamps != state.stamps {
            state.stamps = stamps;
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
}

impl TlsFiles {
    fn stamps(&self) -> FileStamps {
        [&self.certificate, &self.key, &self.client_ca].map(|path| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.ino(), metadata.modified().ok()?, metadata.len()))
        })
    }

    fn read(&self) -> Result<LoadedCertificates, TlsError> {
        read(
            &Pem::read(&self.certificate)?,
            &Pem::read(&self.key)?,
            &Pem::read(&self.client_ca)?,
        )
    }
}

/// A text in PEM, which may be a key, and where it comes from.
struct Pem {
    from: PathBuf,
    text: Zeroizing<Vec<u8>>,
}

impl Pem {
    fn of(from: &str, text: &[u8]) -> Self {
        Self {
            from: from.into(),
            text: Zeroizing::new(text.to_vec()),
        }
    }

    fn read(path: &Path) -> Result<Self, TlsError> {
        let text = fs::read(path).map_err(|error| TlsError::Read {
            path: path.to_owned(),
            error,
        })?;
        Ok(Self {
            from: path.to_owned(),
            text: Zeroizing::new(text),
        })
    }

    fn invalid(&self, error: pem::Error) -> TlsError {
        TlsError::Pem {
            path: self.from.clone(),
            error,
        }
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let certificates = CertificateDer::pem_slice_iter(&self.text).collect::<Result<Vec<_>, _>>();
        let certificates = certificates.map_err(|error| self.invalid(error))?;
        if certificates.is_empty() {
            return Err(TlsError::NoCertificate(self.from.clone()));
        }
        Ok(certificates)
    }
}

fn read(certificate: &Pem, key: &Pem, client_ca: &Pem) -> Result<LoadedCertificates, TlsError> {
    let unusable = |error: rustls::Error| TlsError::Unusable(error.to_string());
    let provider = Arc::new(ring::default_provider());
    let mut authorities = RootCertStore::empty();
    let known = client_ca.certificates()?;
    for authority in &known {
        authorities.add(authority.clone()).map_err(unusable)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), Arc::clone(&provider));
    let clients = verifier
        .build()
        .map_err(|error| TlsError::Unusable(error.to_string()))?;
    let private = PrivateKeyDer::from_pem_slice(&key.text).map_err(|error| key.invalid(error))?;
    let own = certificate.certificates()?;
    let read = |role, of: &Pem, certificates: &[_]| {
        let whose = of.from.display().to_string();
        Validity::first(certificates).map(|validity| CertificateUse { role, whose, validity })
    };
    let uses = [
        read(CertificateRole::Server, certificate, &own),
        read(CertificateRole::Authority, client_ca, &known),
    ];
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_client_cert_verifier(Arc::clone(&clients))
        .with_single_cert(own, private)
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(LoadedCertificates {
        config: Arc::new(config),
        clients,
        uses: uses.into_iter().flatten().collect(),
    })
}
