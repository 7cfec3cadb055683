//! The certificates that are in use.

use std::sync::Arc;

use super::snapshots::Snapshots;
use super::tls::CertificateSource;
use super::validity::{CertificateRole, CertificateUse};

/// Looks up the certificates that a server uses and that its clients have.
#[derive(Debug, Clone)]
pub struct Certificates {
    tls: Option<Arc<CertificateSource>>,
    snapshots: Snapshots,
}

impl Certificates {
    pub(super) fn new(tls: Option<Arc<CertificateSource>>, snapshots: Snapshots) -> Self {
        Self { tls, snapshots }
    }

    /// The certificate of each role that ends first. Without TLS there are none; clients count while connected.
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
