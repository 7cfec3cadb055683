use std::time::Duration;

use serde::Deserialize;

use limpet_core::time::GatewayDuration;

/// The keyring and its rotation. Durations are GEP-2257's.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct KeyringConfig {
    /// In the controller's own namespace.
    pub(crate) secret: String,
    /// In the same namespace. Envoy's Deployment mounts it as its environment.
    pub(crate) key_encryption_key_secret: String,
    /// The age at which a signing key is replaced; `0s`: only when the annotation asks for it.
    pub(crate) rotate_every: GatewayDuration,
    /// A rotation's minimum phase: longer than a disconnected Envoy takes to reconnect.
    pub(crate) phase_time: GatewayDuration,
    /// A keyring file in place of both Secrets, not rotated.
    pub(crate) file: Option<String>,
    /// The key that seals the keyring of the file.
    pub(crate) key_encryption_key: KeyEncryptionKeyVariable,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct KeyEncryptionKeyVariable {
    pub(crate) id: u8,
    /// The controller's environment variable with the key.
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
