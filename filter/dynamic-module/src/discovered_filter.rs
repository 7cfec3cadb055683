//! A keyring in a secret that Envoy discovers (SDS) and that may change.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use limpet_core::Filter;
use limpet_core::config::{ConfigError, KeyringDocument};
use zeroize::Zeroizing;

use crate::abi::SecretId;

/// The newest versions and keyrings to keep, because workers see a new secret at different times.
const KEPT: usize = 2;

#[derive(Debug)]
pub(crate) struct DiscoveredFilter {
    pub(crate) secret: SecretId,
    /// Newest first.
    versions: RwLock<Vec<FilterVersion>>,
}

struct FilterVersion {
    secret: Zeroizing<Vec<u8>>,
    /// `None` if the secret is not a keyring.
    filter: Option<Arc<Filter>>,
}

impl fmt::Debug for FilterVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Version")
            .field("filter", &self.filter)
            .finish_non_exhaustive()
    }
}

impl DiscoveredFilter {
    pub(crate) fn new(secret: SecretId) -> Self {
        Self {
            secret,
            versions: RwLock::default(),
        }
    }

    /// The filter with the keyring in this secret, else with the newest previous one; `None` before the first keyring.
    /// `keyless` is the filter without keys.
    ///
    /// # Errors
    /// If the secret is not a keyring and is new. The previous filter stays in use.
    pub(crate) fn filter(&self, secret: Option<&[u8]>, keyless: &Filter) -> Result<Option<Arc<Filter>>, ConfigError> {
        // A panic cannot leave the list half-changed.
        let versions = self.versions.read().unwrap_or_else(PoisonError::into_inner);
        // Before the first secret, Envoy has an empty one.
        let Some(secret) = secret.filter(|secret| !secret.is_empty()) else {
            return Ok(newest(&versions));
        };
        if let Some(known) = versions.iter().find(|version| *version.secret == *secret) {
            return Ok(known.filter.clone().or_else(|| newest(&versions)));
        }
        drop(versions);
        self.take(secret, keyless)
    }

    fn take(&self, secret: &[u8], keyless: &Filter) -> Result<Option<Arc<Filter>>, ConfigError> {
        let parsed = KeyringDocument::parse(secret).and_then(|document| document.keyring());
        let filter = parsed.map(|keyring| Arc::new(keyless.with_keys(keyring)));
        let mut versions = self.versions.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = versions.iter().find(|version| *version.secret == *secret) {
            // Another worker has added it meanwhile.
            return Ok(known.filter.clone().or_else(|| newest(&versions)));
        }
        let version = FilterVersion {
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

    pub(crate) fn newest(&self) -> Option<Arc<Filter>> {
        newest(&self.versions.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn newest(versions: &[FilterVersion]) -> Option<Arc<Filter>> {
    versions.iter().find_map(|version| version.filter.clone())
}

#[cfg(test)]
mod tests;
