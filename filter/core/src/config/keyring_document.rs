//! A keyring as a JSON document, maintained by `limpet keys` and described in `docs/reference/keyring.md`.

use serde::{Deserialize, Serialize};

use super::schema::KeyStateConfig;
use super::{ConfigError, Problem};
use crate::keyring::{KeyEntry, KeyId, Keyring, KeyringError, Secret};

/// A keyring with its secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyringDocument {
    /// The keys, exactly one of which signs.
    pub keys: Vec<KeyDocument>,
}

/// A key with its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyDocument {
    /// The key's id in tokens, 0 to 255.
    pub id: u8,
    /// The phase of the key in a rotation.
    pub state: KeyStateConfig,
    /// 32 bytes in base64, unless the key is revoked.
    #[serde(default, with = "base64", skip_serializing_if = "Option::is_none")]
    pub secret: Option<Secret>,
    /// When the key was made (RFC 3339), for rotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// When the key got its state (RFC 3339), for rotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

impl KeyringDocument {
    /// Reads and checks a document.
    ///
    /// # Errors
    /// If the text is not such a document, or [`KeyringDocument::check`] fails.
    pub fn parse(json: &[u8]) -> Result<Self, ConfigError> {
        let document: Self = super::read::read_json(json, "keyring", |_| true).map_err(ConfigError::from)?;
        document.check()?;
        Ok(document)
    }

    /// Checks that the keys form a keyring.
    ///
    /// # Errors
    /// If not exactly one key signs, two keys have the same id, or one lacks its secret or should have none.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.keyring().map(drop)
    }

    /// The keyring, ready for use.
    ///
    /// # Errors
    /// If [`KeyringDocument::check`] fails.
    pub fn keyring(&self) -> Result<Keyring, ConfigError> {
        Keyring::from_entries(&self.entries()).map_err(|error| ConfigError {
            problems: vec![Problem {
                field: self.field_of(error),
                message: error.to_string(),
            }],
        })
    }

    fn field_of(&self, error: KeyringError) -> String {
        let (KeyringError::NoSecret(id) | KeyringError::SecretOfRevoked(id)) = error else {
            return "keys".to_owned();
        };
        let at = self.keys.iter().position(|key| key.id == id.0).unwrap_or(0);
        format!("keys[{at}].secret")
    }

    /// The keys, in the order of the document.
    #[must_use]
    pub fn entries(&self) -> Vec<KeyEntry> {
        let entry = |key: &KeyDocument| KeyEntry {
            id: KeyId(key.id),
            state: key.state.into(),
            secret: key.secret.clone(),
        };
        self.keys.iter().map(entry).collect()
    }
}

/// `Secret` itself cannot be serialized, so that only documents meant for secrets contain any.
mod base64 {
    use std::borrow::Cow;

    use serde::{Deserialize as _, Deserializer, Serializer};
    use zeroize::Zeroizing;

    use crate::keyring::Secret;

    #[expect(clippy::ref_option, reason = "as serde calls it")]
    pub(super) fn serialize<S: Serializer>(secret: &Option<Secret>, serializer: S) -> Result<S::Ok, S::Error> {
        match secret {
            Some(secret) => serializer.serialize_str(&secret.to_base64()),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
        let text = Zeroizing::new(Cow::<str>::deserialize(deserializer)?.into_owned());
        let secret = Secret::from_base64(&text);
        let error = || serde::de::Error::custom("expected 32 bytes in base64");
        secret.ok_or_else(error).map(Some)
    }
}
