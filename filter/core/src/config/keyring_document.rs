//! A keyring by itself, as a document with its secrets: the file that `limpet keys` keeps. `docs/reference/keyring.md` describes it.

use serde::{Deserialize, Serialize};

use super::schema::KeyStateConfig;
use super::{ConfigError, Problem};
use crate::keyring::{Entry, KeyId, Keyring, Secret};

/// A keyring with its secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyringDocument {
    /// The keys. Exactly one signs.
    pub keys: Vec<KeyDocument>,
}

/// One key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyDocument {
    /// Names the key within tokens, 0 to 255.
    pub id: u8,
    /// Its phase in a rotation.
    pub state: KeyStateConfig,
    /// The key: 32 bytes in base64.
    #[serde(with = "base64")]
    pub secret: Secret,
    /// When it was made (RFC 3339). For whoever rotates; the filter does not read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// When it got its state (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

impl KeyringDocument {
    /// Reads a document in JSON. That it is a keyring is checked.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(json: &[u8]) -> Result<Self, ConfigError> {
        let document: Self = super::read_json(json, "keyring", |_| true)?;
        document.check()?;
        Ok(document)
    }

    /// That the keys make a keyring.
    ///
    /// # Errors
    /// Not exactly one signs, or two have one id.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.keyring().map(drop)
    }

    /// The keyring, ready for use.
    ///
    /// # Errors
    /// As [`KeyringDocument::check`].
    pub fn keyring(&self) -> Result<Keyring, ConfigError> {
        let keys = self.entries().iter().map(Into::into).collect();
        Keyring::new(keys).map_err(|error| ConfigError {
            problems: vec![Problem {
                field: "keys".to_owned(),
                message: error.to_string(),
            }],
        })
    }

    /// The keys.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let entry = |key: &KeyDocument| Entry {
            id: KeyId(key.id),
            state: key.state.into(),
            secret: key.secret.clone(),
        };
        self.keys.iter().map(entry).collect()
    }
}

/// Secrets in base64. Only where a document has them on purpose: `Secret` itself can not be serialized.
mod base64 {
    use std::borrow::Cow;

    use serde::{Deserialize as _, Deserializer, Serializer};
    use zeroize::Zeroizing;

    use crate::keyring::Secret;

    pub(super) fn serialize<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&secret.to_base64())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        let text = Zeroizing::new(Cow::<str>::deserialize(deserializer)?.into_owned());
        Secret::from_base64(&text).ok_or_else(|| serde::de::Error::custom("expected 32 bytes in base64"))
    }
}
