//! Keys, their states, and what is derived from them.

mod secret;
pub mod wrapped;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

pub use secret::Secret;

use crate::siv::HmacSha256;

/// The HKDF labels (RFC 5869 `info`). Changing one requires a new token version.
const MAC_LABEL: &[u8] = b"limpet token v1 mac";
const ENCIPHER_LABEL: &[u8] = b"limpet token v1 encipher";

/// Identifies a key in a keyring, or a key-encryption key. The second byte of every token and of every wrapped keyring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u8);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The phase of a key in a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// Signs new tokens and verifies its own.
    Signing,
    /// Verifies only, until every Envoy has the key and it can sign.
    Verifying,
    /// Verifies only. Its tokens are renewed under the signing key.
    Retiring,
}

impl KeyState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Signing, Self::Verifying, Self::Retiring];
}

/// A key with its secret, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The id, which is unique in a keyring.
    pub id: KeyId,
    /// The phase of the key.
    pub state: KeyState,
    /// The secret from which the other keys are derived.
    pub secret: Secret,
}

/// A key, ready for use.
pub struct Key {
    pub(crate) id: KeyId,
    pub(crate) state: KeyState,
    /// Behind a pointer, because a key that moves would leave a copy behind.
    pub(crate) mac: Box<HmacSha256>,
    /// Shared by all scopes, so that it stays in the CPU's caches however many there are.
    pub(crate) encipher: Arc<HmacSha256>,
}

impl Key {
    /// Derives the keys for tokens from `secret`.
    #[must_use]
    pub fn new(id: KeyId, state: KeyState, secret: &Secret) -> Self {
        Self {
            id,
            state,
            mac: Box::new(secret.subkey(MAC_LABEL)),
            encipher: Arc::new(secret.subkey(ENCIPHER_LABEL)),
        }
    }
}

impl From<&Entry> for Key {
    fn from(entry: &Entry) -> Self {
        Self::new(entry.id, entry.state, &entry.secret)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("id", &self.id)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// Keys with different ids, exactly one of which signs.
#[derive(Debug)]
pub struct Keyring {
    signing: Key,
    others: Vec<Key>,
}

/// Why keys do not form a keyring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// No key signs.
    #[error("expected one key with state signing, found none")]
    NoSigningKey,
    /// More than one key signs.
    #[error("expected one key with state signing, found several")]
    SeveralSigningKeys,
    /// Two keys have the same id.
    #[error("expected distinct key ids, found {0} twice")]
    DuplicateId(KeyId),
}

impl Keyring {
    /// A keyring of these keys, in any order.
    ///
    /// # Errors
    /// If not exactly one key signs, or two keys have the same id.
    pub fn new(keys: Vec<Key>) -> Result<Self, KeyringError> {
        check(keys.iter().map(|key| (key.id, key.state)))?;
        let (mut signing, others): (Vec<Key>, Vec<Key>) =
            keys.into_iter().partition(|key| key.state == KeyState::Signing);
        let signing = signing.pop().ok_or(KeyringError::NoSigningKey)?;
        Ok(Self { signing, others })
    }

    /// The key that signs.
    #[must_use]
    pub fn signing(&self) -> &Key {
        &self.signing
    }

    /// The keys that only verify.
    #[must_use]
    pub fn others(&self) -> &[Key] {
        &self.others
    }
}

/// Checks that keys with these ids and states form a keyring.
fn check(keys: impl Iterator<Item = (KeyId, KeyState)>) -> Result<(), KeyringError> {
    let mut ids = BTreeSet::new();
    let mut signing = 0;
    for (id, state) in keys {
        if !ids.insert(id) {
            return Err(KeyringError::DuplicateId(id));
        }
        signing += usize::from(state == KeyState::Signing);
    }
    match signing {
        0 => Err(KeyringError::NoSigningKey),
        1 => Ok(()),
        _ => Err(KeyringError::SeveralSigningKeys),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: u8, state: KeyState) -> Key {
        Key::new(KeyId(id), state, &Secret::new([id; 32]))
    }

    #[test]
    fn debug_shows_no_secret() {
        let secret = Secret::new([0xAB; 32]);
        let key = Key::new(KeyId(7), KeyState::Signing, &secret);
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert_eq!(format!("{key:?}"), "Key { id: KeyId(7), state: Signing, .. }");
        let ring = format!("{:?}", Keyring::new(vec![key]).unwrap());
        assert!(!ring.to_lowercase().contains("ab") && !ring.contains("171"), "{ring}");
    }

    #[test]
    fn exactly_one_key_signs() {
        use KeyState::{Retiring, Signing, Verifying};
        assert!(Keyring::new(vec![key(1, Retiring), key(2, Signing), key(3, Verifying)]).is_ok());
        assert_eq!(
            Keyring::new(vec![key(1, Verifying)]).unwrap_err(),
            KeyringError::NoSigningKey
        );
        assert_eq!(
            Keyring::new(vec![key(1, Signing), key(2, Signing)]).unwrap_err(),
            KeyringError::SeveralSigningKeys
        );
    }

    #[test]
    fn ids_are_distinct() {
        assert_eq!(
            Keyring::new(vec![key(1, KeyState::Signing), key(1, KeyState::Retiring)]).unwrap_err(),
            KeyringError::DuplicateId(KeyId(1))
        );
    }
}
