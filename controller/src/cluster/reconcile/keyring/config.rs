use std::time::Duration;

use serde::Deserialize;

use limpet_core::time::GatewayDuration;

/// The keyring and its rotation. Durations as the Gateway API writes them (GEP-2257).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct KeyringConfig {
    /// The Secret with the keyring, in the controller's own namespace.
    pub(crate) secret: String,
    /// The Secret there with the key-encryption keys, which Envoy's Deployment mounts as its environment.
    pub(crate) key_encryption_key_secret: String,
    /// The age at which a signing key is replaced; `0s`: only when the annotation asks for it.
    pub(crate) rotate_every: GatewayDuration,
    /// The minimum time of a phase of a rotation. It must be longer than an Envoy that lost its connection takes to
    /// reconnect.
    pub(crate) phase_time: GatewayDuration,
    /// A keyring file instead of both Secrets. Limpet does not rotate it.
    pub(crate) file: Option<String>,
    /// The key that the keyring of the file is sealed under.
    pub(crate) key_encryption_key: KeyEncryptionKeyVariable,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct KeyEncryptionKeyVariable {
    pub(crate) id: u8,
    /// The environment variable of the controller that holds the key.
    pub(crate) env: String,
}

impl Default for KeyringConfig {
    fn default() -> Self {
        Self {
            secret: "limpet-keyring".to_owned(),
            key_encryption_key_secret: "limpet-key-encryption-key".to_owned(),
            rotate_every: Duration::from_secs(30 * 24 * 3600).into(),
            phase_time: Duration::from_secs(60).into(),
            file: None,
            key_encryption_key: KeyEncryptionKeyVariable::default(),
        }
    }
}

impl Default for KeyEncryptionKeyVariable {
    fn default() -> Self {
        Self {
            id: 1,
            env: "LIMPET_KEY_ENCRYPTION_KEY".to_owned(),
        }
    }
}
