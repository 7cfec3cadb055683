use std::time::Duration;

use limpet_core::time::GatewayDuration;
use serde::Deserialize;

/// The keyring and its rotation. Durations as the Gateway API writes them (GEP-2257).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct KeyringConfig {
    /// The namespace of both Secrets; that of the service account or the kubeconfig where there is none.
    pub(crate) namespace: Option<String>,
    /// The Secret with the keyring.
    pub(crate) name: String,
    /// The Secret with the key-encryption keys, which Envoy's Deployment mounts.
    pub(crate) key_encryption_key: String,
    /// A key that has signed for so long is replaced; `0s`: only when the annotation asks for it.
    pub(crate) rotate_every: GatewayDuration,
    /// A phase of a rotation lasts so long at least. Longer than an Envoy that lost its connection takes to come back.
    pub(crate) phase_time: GatewayDuration,
}

impl Default for KeyringConfig {
    fn default() -> Self {
        Self {
            namespace: None,
            name: "limpet-keyring".to_owned(),
            key_encryption_key: "limpet-key-encryption-key".to_owned(),
            rotate_every: Duration::from_secs(30 * 24 * 3600).into(),
            phase_time: Duration::from_secs(60).into(),
        }
    }
}
