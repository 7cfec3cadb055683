//! A keyring in a secret that Envoy discovers (SDS), and what comes of it when it changes.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use limpet_core::Filter;
use limpet_core::config::{ConfigError, KeyringDocument};
use zeroize::Zeroizing;

use crate::abi::SecretId;

/// Each worker sees a new secret in its own time, so for a moment some have the one before. Those are kept: the newest
/// two, and the newest two that are keyrings.
const KEPT: usize = 2;

/// The filter for each version of a secret.
#[derive(Debug)]
pub(crate) struct Discovered {
    pub(crate) secret: SecretId,
    /// The newest first.
    versions: RwLock<Vec<Version>>,
}

/// What came of one version.
struct Version {
    secret: Zeroizing<Vec<u8>>,
    /// `None`: it is no keyring.
    filter: Option<Arc<Filter>>,
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Version")
            .field("filter", &self.filter)
            .finish_non_exhaustive()
    }
}

impl Discovered {
    pub(crate) fn new(secret: SecretId) -> Self {
        Self {
            secret,
            versions: RwLock::default(),
        }
    }

    /// The filter with the keyring in this secret. Where that is none, with the newest that was; `None` where there was
    /// none yet. `keyless` is the same filter without keys.
    ///
    /// # Errors
    /// Why the secret is no keyring, once for each secret; the filter stays what it was.
    pub(crate) fn filter(&self, secret: Option<&[u8]>, keyless: &Filter) -> Result<Option<Arc<Filter>>, ConfigError> {
        // A panic can not leave the list half-changed, so a poisoned lock is as good as another.
        let versions = self.versions.read().unwrap_or_else(PoisonError::into_inner);
        // Envoy has an empty one before the first.
        let Some(secret) = secret.filter(|secret| !secret.is_empty()) else {
            return Ok(newest(&versions));
        };
        if let Some(known) = versions.iter().find(|version| *version.secret == *secret) {
            return Ok(known.filter.clone().or_else(|| newest(&versions)));
        }
        drop(versions);
        self.take(secret, keyless)
    }

    /// Takes a secret that is new.
    fn take(&self, secret: &[u8], keyless: &Filter) -> Result<Option<Arc<Filter>>, ConfigError> {
        let parsed = KeyringDocument::parse(secret).and_then(|document| document.keyring());
        let filter = parsed.map(|keyring| Arc::new(keyless.with_keys(keyring)));
        let mut versions = self.versions.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = versions.iter().find(|version| *version.secret == *secret) {
            // Another worker was faster.
            return Ok(known.filter.clone().or_else(|| newest(&versions)));
        }
        let version = Version {
            secret: Zeroizing::new(secret.to_vec()),
            filter: filter.as_ref().ok().map(Arc::clone),
        };
        versions.insert(0, version);
        let (mut index, mut keyrings) = (0, 0);
        versions.retain(|version| {
            let is_keyring = version.filter.is_some();
            let keep = index < KEPT || (is_keyring && keyrings < KEPT);
            index += 1;
            keyrings += usize::from(is_keyring);
            keep
        });
        filter.map(Some)
    }

    /// The filter with the newest keyring.
    pub(crate) fn newest(&self) -> Option<Arc<Filter>> {
        newest(&self.versions.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn newest(versions: &[Version]) -> Option<Arc<Filter>> {
    versions.iter().find_map(|version| version.filter.clone())
}

#[cfg(test)]
mod tests;
