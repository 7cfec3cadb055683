//! The keyring from a keyring file (`docs/keyring.md`) in place of a Secret: somebody else keeps and rotates it, and it is read again when it changes.

use std::time::Duration;

use limpet_core::config::KeyringDocument;
use limpet_core::config::schema::{KeyEncryptionKeyConfig, WrappedKeysConfig};
use limpet_core::keyring::{KeyId, wrapped};
use tokio::sync::watch;
use zeroize::Zeroizing;

use crate::tools::keys::source;

use super::config::KeyEncryptionKey;
use super::reconciler::{Keys, figures};

/// How often the file is looked at.
const INTERVAL: Duration = Duration::from_secs(2);

/// Reads it. `envoy_env` is the environment variable of Envoy's that holds the key-encryption key.
///
/// # Errors
/// What is wrong with it. Secrets are not repeated.
pub(crate) fn read(file: &str, key: &KeyEncryptionKey, envoy_env: &str) -> Result<Keys, String> {
    let text = std::fs::read(file).map_err(|error| format!("{file}: can not be read: {error}"))?;
    let document = KeyringDocument::parse(&Zeroizing::new(text)).map_err(|error| format!("{file}: {error}"))?;
    let wrong = |reason: &str| source::Unavailable::Wrong(format!("keyEncryptionKey.env: {reason}"));
    let secret = source::from_environment(&key.env, wrong).map_err(|error| error.to_string())?;
    let text = wrapped::wrap(&document.entries(), KeyId(key.id), &secret);
    Ok(Keys {
        config: Some(WrappedKeysConfig {
            text: text.map_err(|error| format!("{file}: keys: {error}"))?,
            key_encryption_keys: vec![KeyEncryptionKeyConfig {
                id: key.id,
                env: envoy_env.to_owned(),
            }],
        }),
        figures: figures(&document),
        ..Keys::default()
    })
}

/// Reads it again and again, and tells what changed. What can not be read changes nothing.
pub(crate) async fn follow(file: String, key: KeyEncryptionKey, envoy_env: String, keys: watch::Sender<Keys>) {
    let mut wrong = String::new();
    while !keys.is_closed() {
        tokio::time::sleep(INTERVAL).await;
        match read(&file, &key, &envoy_env) {
            Ok(read) => {
                wrong.clear();
                keys.send_if_modified(|known| {
                    let changes = known.config != read.config;
                    if changes {
                        tracing::info!("the keyring changed");
                        *known = read;
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
