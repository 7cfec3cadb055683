//! The keys of a configuration, as far as this process can get them.

use zeroize::Zeroizing;

use limpet_core::config::schema::{FilterConfig, InlineKey, KeyConfig, KeyStateConfig, WrappedKeysConfig};
use limpet_core::keyring::wrapped::WrappedKeyring;
use limpet_core::keyring::{KeyEntry, KeyId, KeyState, Secret};

/// Why a key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeySourceError {
    /// Its environment variable is not set here.
    NotSet(String),
    /// What is there is no key.
    Wrong(String),
    /// It is revoked.
    Revoked,
}

impl std::fmt::Display for KeySourceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotSet(variable) => write!(f, "the environment variable {variable} is not set"),
            Self::Wrong(reason) => f.write_str(reason),
            Self::Revoked => f.write_str("it is revoked"),
        }
    }
}

/// The key of this id, or without an id the one that signs; `None` if there is no such key.
pub(crate) fn key(config: &FilterConfig, id: Option<KeyId>) -> Result<Option<KeyEntry>, KeySourceError> {
    let is_wanted = |key: KeyId, state: KeyState| match id {
        Some(id) => key == id,
        None => state == KeyState::Signing,
    };
    if let Some(wrapped) = &config.wrapped_keys {
        let entries = unwrap(wrapped)?;
        return Ok(entries.into_iter().find(|entry| is_wanted(entry.id, entry.state)));
    }
    not_in_secret(config)?;
    let mut keys = config.keys.iter().flatten();
    let found = keys.find(|key| is_wanted(KeyId(key.id), key.state.into()));
    found.map(entry).transpose()
}

/// The ids and states of all keys.
pub(crate) fn states(config: &FilterConfig) -> Result<Vec<(u8, KeyStateConfig)>, KeySourceError> {
    if let Some(wrapped) = &config.wrapped_keys {
        let entries = unwrap(wrapped)?;
        return Ok(entries.iter().map(|entry| (entry.id.0, entry.state.into())).collect());
    }
    not_in_secret(config)?;
    let keys = config.keys.iter().flatten();
    Ok(keys.map(|key| (key.id, key.state)).collect())
}

/// Fails for keys that only Envoy has, because it discovers them.
fn not_in_secret(config: &FilterConfig) -> Result<(), KeySourceError> {
    if config.sds_keys.is_none() {
        return Ok(());
    }
    let reason = "sdsKeys: the keyring is in a secret that Envoy discovers (--keys takes the keyring file itself)";
    Err(KeySourceError::Wrong(reason.to_owned()))
}

pub(super) fn entry(key: &KeyConfig) -> Result<KeyEntry, KeySourceError> {
    Ok(KeyEntry {
        id: KeyId(key.id),
        state: key.state.into(),
        secret: match key.state {
            KeyStateConfig::Revoked => None,
            _ => Some(secret(key)?),
        },
    })
}

/// The `keys` of a configuration, with this key only.
pub(crate) fn alone(entry: &KeyEntry) -> Vec<KeyConfig> {
    let secret = entry.secret.as_ref();
    vec![KeyConfig {
        id: entry.id.0,
        env: None,
        inline: secret.map(|secret| InlineKey(secret.to_base64().to_string())),
        state: KeyStateConfig::Signing,
    }]
}

/// Opens a wrapped keyring with the key-encryption key that it names, from the environment of this process.
fn unwrap(config: &WrappedKeysConfig) -> Result<Vec<KeyEntry>, KeySourceError> {
    let wrong =
        |field: &str, reason: &dyn std::fmt::Display| KeySourceError::Wrong(format!("wrappedKeys.{field}: {reason}"));
    let wrapped = WrappedKeyring::parse(&config.text).map_err(|error| wrong("text", &error))?;
    let id = wrapped.key_encryption_key();
    let mut list = config.key_encryption_keys.iter().enumerate();
    let Some((at, named)) = list.find(|(_, key)| key.id == id.0) else {
        let reason = format!("wrapped under key-encryption key {id}: expected one that keyEncryptionKeys lists");
        return Err(wrong("text", &reason));
    };
    let field = format!("keyEncryptionKeys[{at}].env");
    let secret = from_environment(&named.env, |reason| wrong(&field, &reason))?;
    wrapped.open(&secret).map_err(|error| wrong("text", &error))
}

/// The secret of a key, from the configuration or from the environment of this process.
fn secret(key: &KeyConfig) -> Result<Secret, KeySourceError> {
    let wrong = |field: &str, reason: &str| KeySourceError::Wrong(format!("key {}: {field}{reason}", key.id));
    match (&key.env, &key.inline) {
        (Some(name), None) => from_environment(name, |reason| wrong("env: ", reason)),
        (None, Some(inline)) => Secret::from_base64(&inline.0).ok_or_else(|| wrong("inline: ", NO_KEY)),
        _ => Err(wrong("", "expected exactly one of env and inline")),
    }
}

/// A secret in an environment variable of this process.
pub(crate) fn from_environment(name: &str, wrong: impl Fn(&str) -> KeySourceError) -> Result<Secret, KeySourceError> {
    if !is_variable(name) {
        return Err(wrong(NO_VARIABLE));
    }
    let Ok(text) = std::env::var(name) else {
        return Err(KeySourceError::NotSet(name.to_owned()));
    };
    let text = Zeroizing::new(text);
    Secret::from_base64(&text).ok_or_else(|| wrong(&format!("{name}: {NO_KEY}")))
}

const NO_KEY: &str = "expected 32 bytes in base64 (44 characters; `limpet keys generate` makes one)";

/// For an `env` with any other text. The text is not repeated, because it may be the key itself.
pub(crate) const NO_VARIABLE: &str =
    "expected the name of an environment variable: letters, digits and underscores, no digit first";

/// Whether `name` may be the name of an environment variable. A key in base64 never is: it ends with `=`.
pub(crate) fn is_variable(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_no_variable() {
        assert!(is_variable("LIMPET_KEY_1"));
        for name in ["", "1KEY", "bm90IGEgc2VjcmV0OiBldmVyeWJvZHkgcmVhZHMgaXQ=", "A-B"] {
            assert!(!is_variable(name), "{name:?}");
        }
    }
}
