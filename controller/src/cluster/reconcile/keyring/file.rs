//! The keyring from a file (`docs/reference/keyring.md`), read again when it changes, and not rotated.

use std::time::Duration;

use tokio::sync::watch;
use zeroize::Zeroizing;

use super::config::KeyEncryptionKeyVariable;
use super::reconciler::{PublishedKeys, figures, seals};
use crate::tools::keys::source;
use limpet_core::config::KeyringDocument;
use limpet_core::config::schema::{KeyEncryptionKeyConfig, WrappedKeysConfig};
use limpet_core::keyring::{KeyId, wrapped};

const INTERVAL: Duration = Duration::from_secs(2);

/// Reads the file. `envoy_env`: Envoy's variable with the key-encryption key. Errors repeat no secret.
pub(crate) fn read(file: &str, key: &KeyEncryptionKeyVariable, envoy_env: &str) -> Result<PublishedKeys, String> {
    let text = std::fs::read(file).map_err(|error| format!("{file}: cannot be read: {error}"))?;
    let document = KeyringDocument::parse(&Zeroizing::new(text)).map_err(|error| format!("{file}: {error}"))?;
    let wrong = |reason: &str| source::KeySourceError::Wrong(format!("keyEncryptionKey.env: {reason}"));
    let secret = source::from_environment(&key.env, wrong).map_err(|error| error.to_string())?;
    let text = wrapped::wrap(&document.entries(), KeyId(key.id), &secret);
    Ok(PublishedKeys {
        config: Some(WrappedKeysConfig {
            text: text.map_err(|error| format!("{file}: keys: {error}"))?,
            key_encryption_keys: vec![KeyEncryptionKeyConfig {
                id: key.id,
                env: envoy_env.to_owned(),
            }],
        }),
        figures: figures(&document),
        seals: Some(seals(&document)),
        ..PublishedKeys::default()
    })
}

/// Sends the file's changes. A file that cannot be read changes nothing.
pub(crate) async fn follow(
    file: String,
    key: KeyEncryptionKeyVariable,
    envoy_env: String,
    keys: watch::Sender<PublishedKeys>,
) {
    let mut wrong = String::new();
    while !keys.is_closed() {
        tokio::time::sleep(INTERVAL).await;
        match read(&file, &key, &envoy_env) {
            Ok(read) => {
                wrong.clear();
                keys.send_if_modified(|known| {
                    let changes = known.config != read.config;
                    if changes {
                        tracing::info!("the keyring file changed");
                        *known = read;
                    }
                    changes
                });
            }
            Err(error) => {
                if wrong != error {
                    tracing::error!(
                        error,
                        "the keyring file cannot be read; the previous keyring stays in use"
                    );
                    wrong = error;
                }
            }
        }
    }
}
