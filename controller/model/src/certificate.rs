use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

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
