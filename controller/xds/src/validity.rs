//! When certificates end.

use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};

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
    /// It signs clients' certificates.
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

/// When a certificate is valid. Of two, the one that ends first is less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Validity {
    /// The last second.
    pub ends: SystemTime,
    /// The first second.
    pub begins: SystemTime,
}

impl Validity {
    pub(super) fn of(certificate: &X509Certificate<'_>) -> Self {
        let time = |seconds: i64| {
            // Nothing before 1970 is in use, and what is beyond the system's times never ends.
            let since = Duration::from_secs(seconds.try_into().unwrap_or(0));
            let never = SystemTime::UNIX_EPOCH + Duration::from_secs(u32::MAX.into());
            SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(never)
        };
        let validity = certificate.validity();
        Self {
            ends: time(validity.not_after.timestamp()),
            begins: time(validity.not_before.timestamp()),
        }
    }

    pub(super) fn first(certificates: &[CertificateDer<'_>]) -> Option<Self> {
        let validity = |certificate: &CertificateDer<'_>| {
            let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
            Some(Self::of(&certificate))
        };
        certificates.iter().filter_map(validity).min()
    }
}
