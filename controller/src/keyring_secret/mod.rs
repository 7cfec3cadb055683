//! Where the controller has the keyring from, and how Envoys get it: sealed under a key-encryption key that both have.
//!
//! For now it is a keyring file (`docs/keyring.md`), a mounted Secret for example, which is read again when it changes.

use std::sync::Arc;
use std::time::Duration;

use limpet_core::config::KeyringDocument;
use limpet_core::config::schema::{KeyEncryptionKeyConfig, WrappedKeysConfig};
use limpet_core::keyring::{KeyId, wrapped};
use serde::Deserialize;
use tokio::sync::watch;
use zeroize::Zeroizing;

use crate::keys::source::{Unavailable, from_environment};
use crate::outputs::envoy::{FilterInputs, FilterKeys};

/// How often the file is looked at.
const INTERVAL: Duration = Duration::from_secs(2);

/// Where the keyring is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct KeyringConfig {
    /// The keyring file.
    pub(crate) file: String,
    /// What it is sealed under.
    #[serde(default)]
    pub(crate) key_encryption_key: KeyEncryptionKey,
}

/// A key-encryption key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct KeyEncryptionKey {
    /// Its id.
    pub(crate) id: u8,
    /// The environment variable of the controller that holds it.
    pub(crate) env: String,
}

impl Default for KeyEncryptionKey {
    fn default() -> Self {
        Self {
            id: 1,
            env: "LIMPET_KEY_ENCRYPTION_KEY".to_owned(),
        }
    }
}

/// The keyring as Envoys are to have it. `envoy_env` is the environment variable of theirs that holds the key-encryption key.
///
/// # Errors
/// What is wrong with it. Secrets are not repeated.
pub(crate) fn read(config: &KeyringConfig, envoy_env: &str) -> Result<FilterInputs, String> {
    let KeyringConfig {
        file,
        key_encryption_key,
    } = config;
    let text = std::fs::read(file).map_err(|error| format!("{file}: can not be read: {error}"))?;
    let document = KeyringDocument::parse(&Zeroizing::new(text)).map_err(|error| format!("{file}: {error}"))?;
    let KeyEncryptionKey { id, env } = key_encryption_key;
    let wrong = |reason: &str| Unavailable::Wrong(reason.to_owned());
    let secret = from_environment(env, wrong).map_err(|error| format!("keyEncryptionKey.env: {error}"))?;
    let text =
        wrapped::wrap(&document.entries(), KeyId(*id), &secret).map_err(|error| format!("{file}: keys: {error}"))?;
    Ok(FilterInputs::with_keys(FilterKeys::Wrapped(WrappedKeysConfig {
        text,
        key_encryption_keys: vec![KeyEncryptionKeyConfig {
            id: *id,
            env: envoy_env.to_owned(),
        }],
    })))
}

/// Reads it again and again, and tells what changed. What can not be read changes nothing.
pub(crate) async fn follow(config: KeyringConfig, envoy_env: String, inputs: watch::Sender<Arc<FilterInputs>>) {
    let mut wrong = String::new();
    while !inputs.is_closed() {
        tokio::time::sleep(INTERVAL).await;
        match read(&config, &envoy_env) {
            Ok(read) => {
                wrong.clear();
                inputs.send_if_modified(|known| {
                    let changes = **known != read;
                    if changes {
                        tracing::info!("the keyring changed");
                        *known = Arc::new(read);
                    }
                    changes
                });
            }
            Err(error) => {
                if wrong != error {
                    tracing::error!(error, "the keyring can not be read; the one before stays");
                    wrong = error;
                }
            }
        }
    }
}
