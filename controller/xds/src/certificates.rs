//! The certificates of xDS, and when they end.

use std::sync::Arc;

use super::peer::Validity;
use super::snapshots::Snapshots;
use super::tls::Tls;

/// Looks up the certificates that a server uses and that its clients have.
#[derive(Debug, Clone)]
pub struct Certificates {
    tls: Option<Arc<Tls>>,
    snapshots: Snapshots,
}

/// A certificate that is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateUse {
    /// What the certificate is for.
    pub role: CertificateRole,
    /// Its file, or the node that has it.
    pub whose: String,
    /// When it is valid.
    pub validity: Validity,
}

/// What a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CertificateRole {
    /// The server shows it.
    Server,
    /// Those of clients are signed by it.
    Authority,
    /// A connected node shows it.
    Client,
}

impl CertificateRole {
    /// The role in one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Authority => "authority",
            Self::Client => "client",
        }
    }
}

impl Certificates {
    pub(super) fn new(tls: Option<Arc<Tls>>, snapshots: Snapshots) -> Self {
        Self { tls, snapshots }
    }

    /// The certificate of each role that ends first. Without TLS there are none, and no client without a connection.
    #[must_use]
    pub fn in_use(&self) -> Vec<CertificateUse> {
        let mut uses = self.tls.as_ref().map(|tls| tls.uses()).unwrap_or_default();
        let cells = self.snapshots.shared().cells();
        let clients = cells.iter().flat_map(|cell| {
            let streams = cell.streams().into_iter();
            streams.filter_map(|stream| Some((stream.validity?, format!("the node {} of {}", stream.node, cell.name))))
        });
        let client = clients.min().map(|(validity, whose)| CertificateUse {
            role: CertificateRole::Client,
            whose,
            validity,
        });
        uses.extend(client);
        uses
    }
}
