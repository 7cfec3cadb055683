use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use zeroize::Zeroizing;

use super::short_hash::hash;

/// A certificate chain and its private key, both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The chain, the server's own certificate first.
    pub chain: Arc<[u8]>,
    /// The private key.
    pub key: Arc<Zeroizing<Vec<u8>>>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").finish_non_exhaustive()
    }
}

/// Certificates of authorities, in PEM and nothing else. At least one.
#[derive(Clone, PartialEq, Eq)]
pub struct Authorities(Arc<str>);

impl Authorities {
    /// Those with this text.
    #[must_use]
    pub fn of_pem(pem: &str) -> Self {
        Self(Arc::from(pem))
    }

    /// All of them; `None` if there are none.
    pub(crate) fn joined(all: &[&Self]) -> Option<Self> {
        match all {
            [] => None,
            [one] => Some((*one).clone()),
            several => {
                let pem: String = several.iter().map(|one| one.pem()).collect();
                Some(Self::of_pem(&pem))
            }
        }
    }

    /// The text.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.0
    }

    /// A name that is made from the content: equal authorities are one.
    #[must_use]
    pub fn name(&self) -> String {
        hash(self.0.as_bytes(), 16)
    }
}

/// Only their name is written.
impl Serialize for Authorities {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Authorities").field(&self.name()).finish()
    }
}
