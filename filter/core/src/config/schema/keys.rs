//! Where the keyring comes from.

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

#[cfg(feature = "schema")]
use super::constraints::exactly_one;

/// One key of the keyring. Its 32 bytes come from `env` or from `inline`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("oneOf" = exactly_one(&["env", "inline"]))))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyConfig {
    /// Names the key within tokens, 0 to 255.
    pub id: u8,
    /// The environment variable of Envoy's process that holds the key, 32 bytes in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// The key itself, 32 bytes in base64. For development: Envoy shows it in `/config_dump`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<InlineKey>,
    /// Its phase in a rotation.
    #[serde(default)]
    pub state: KeyStateConfig,
}

/// A key written into the configuration. Not shown by `Debug`, wiped when dropped.
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

/// A key's phase in a rotation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum KeyStateConfig {
    /// Signs new tokens and verifies.
    #[default]
    Signing,
    /// Verifies only: it will sign once every Envoy has it.
    Verifying,
    /// Verifies only: its tokens are renewed under the signing key.
    Retiring,
}

/// A sealed keyring. Envoy shows it in `/config_dump` as it is here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WrappedKeysConfig {
    /// The sealed keyring, as `limpet keys wrap` prints it. It names its key-encryption key.
    #[cfg_attr(
        feature = "schema",
        schemars(length(min = 70, max = 11630), regex(pattern = "^g[A-Za-z0-9_-]*$"))
    )]
    pub text: String,
    /// The key-encryption keys that it may be sealed under; the others of them need not be there.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub key_encryption_keys: Vec<KeyEncryptionKeyConfig>,
}

/// A key-encryption key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyEncryptionKeyConfig {
    /// Names it within the sealed keyring, 0 to 255.
    pub id: u8,
    /// The environment variable of Envoy's process that holds it, 32 bytes in base64.
    pub env: String,
}

/// A keyring in a generic secret of Envoy's (SDS).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SdsKeysConfig {
    /// The secret's name. It holds a keyring file, as `limpet keys generate FILE` makes one.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub name: String,
    /// Where Envoy gets the secret from: its `ConfigSource`, as `sds_config` has it elsewhere. Without it, the secret
    /// is one of Envoy's bootstrap configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sds_config: Option<serde_json::Map<String, serde_json::Value>>,
}

impl SdsKeysConfig {
    /// `sdsConfig` as text, as Envoy wants it from a module; empty where there is none.
    #[must_use]
    pub fn source(&self) -> String {
        let source = self.sds_config.clone().map(serde_json::Value::Object);
        source.map(|source| source.to_string()).unwrap_or_default()
    }
}
