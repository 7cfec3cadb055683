//! The sources of the keyring.

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use super::word;

#[cfg(feature = "schema")]
use super::constraints::a_source_unless_revoked;

/// A key of the keyring. Its 32 bytes come from `env` or `inline`; a revoked key has neither.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("oneOf" = a_source_unless_revoked())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyConfig {
    /// Identifies the key in tokens, 0 to 255.
    pub id: u8,
    /// The environment variable of Envoy's process that holds the key, 32 bytes in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// The key, 32 bytes in base64. Use it for development only: Envoy shows it in `/config_dump`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<InlineKey>,
    /// The phase of the key in a rotation.
    #[serde(default, deserialize_with = "word")]
    pub state: KeyStateConfig,
}

/// A key in the configuration. `Debug` does not show it, and it is wiped when dropped.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct InlineKey(
    #[cfg_attr(
        feature = "schema",
        schemars(regex(pattern = "^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$"))
    )]
    pub String,
);

impl fmt::Debug for InlineKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InlineKey(..)")
    }
}

impl Drop for InlineKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// The phase of a key in a rotation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum KeyStateConfig {
    /// Signs new tokens and verifies its own.
    #[default]
    Signing,
    /// Verifies only, until every Envoy has the key and it can sign.
    Verifying,
    /// Verifies only. Its tokens are renewed under the signing key.
    Retiring,
    /// Verifies nothing, because others may know the key. Its id stays, so that its tokens are counted.
    Revoked,
}

/// A sealed keyring. Envoy shows it in `/config_dump`, still sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WrappedKeysConfig {
    /// The sealed keyring, as `limpet keys wrap` prints it. It contains the id of its key-encryption key.
    #[cfg_attr(
        feature = "schema",
        schemars(length(min = 70, max = 11630), regex(pattern = "^g[A-Za-z0-9_-]*$"))
    )]
    pub text: String,
    /// The key-encryption keys that the keyring may be sealed under. Only the one in use must be available.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub key_encryption_keys: Vec<KeyEncryptionKeyConfig>,
}

/// A key-encryption key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyEncryptionKeyConfig {
    /// Identifies the key in the sealed keyring, 0 to 255.
    pub id: u8,
    /// The environment variable of Envoy's process that holds the key, 32 bytes in base64.
    pub env: String,
}

/// A keyring in a generic secret of Envoy (SDS).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SdsKeysConfig {
    /// The name of the secret. It holds a keyring file, as `limpet keys generate --write FILE` writes it.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub name: String,
    /// Where Envoy gets the secret from: its `ConfigSource`, as `sds_config` has it elsewhere. Without it, the secret
    /// is one of Envoy's bootstrap configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sds_config: Option<serde_json::Map<String, serde_json::Value>>,
}

impl SdsKeysConfig {
    /// `sdsConfig` as JSON text for Envoy; empty if it is not set.
    #[must_use]
    pub fn source(&self) -> String {
        let source = self.sds_config.clone().map(serde_json::Value::Object);
        source.map(|source| source.to_string()).unwrap_or_default()
    }
}
