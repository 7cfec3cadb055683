//! Keys, their states, and what is derived from them.

mod seals;
mod secret;
pub mod wrapped;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

pub use seals::Seals;
pub use secret::Secret;
pub(crate) use secret::{MADE, wipe_stack};

use crate::siv::HmacKey;

/// HKDF labels (RFC 5869 `info`). A change requires a new token version.
const MAC_LABEL: &[u8] = b"limpet token v1 mac";
const ENCIPHER_LABEL: &[u8] = b"limpet token v1 encipher";

/// The id of a key or key-encryption key: the second byte of tokens and wrapped keyrings.
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
    /// Verifies only, until every Envoy has the key.
    Verifying,
    /// Verifies only. Its tokens are renewed under the signing key.
    Retiring,
    /// Verifies nothing: others may know its secret. The id stays for the counters.
    Revoked,
}

impl KeyState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Signing, Self::Verifying, Self::Retiring, Self::Revoked];
}

/// A key as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEntry {
    /// The id, unique in a keyring.
    pub id: KeyId,
    /// The phase of the key.
    pub state: KeyState,
    /// The secret from which other keys are derived; `None` exactly if the key is revoked.
    pub secret: Option<Secret>,
}

/// A key ready for use, not revoked.
pub struct Key {
    pub(crate) id: KeyId,
    pub(crate) state: KeyState,
    /// Boxed, because a key that moves would leave a copy behind.
    pub(crate) mac: Box<HmacKey>,
    /// Shared by all scopes, so that it stays in the CPU's caches.
    pub(crate) encipher: Arc<HmacKey>,
}

impl Key {
    /// Derives the keys for tokens from `secret`.
    #[must_use]
    pub fn new(id: KeyId, state: KeyState, secret: &Secret) -> Self {
        Self {
            id,
            state,
            mac: secret.subkey(MAC_LABEL),
            encipher: secret.subkey(ENCIPHER_LABEL),
        }
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
    /// By id.
    others: Vec<Key>,
    revoked: Arc<BTreeSet<KeyId>>,
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
    /// A key that is not revoked has no secret.
    #[error("expected the secret of key {0}, found none")]
    NoSecret(KeyId),
    /// A revoked key has a secret.
    #[error("expected no secret of key {0}, which is revoked")]
    SecretOfRevoked(KeyId),
}

impl Keyring {
    /// A keyring of these keys.
    ///
    /// # Errors
    /// If not exactly one key signs, two keys have the same id, or one is revoked.
    pub fn new(keys: Vec<Key>) -> Result<Self, KeyringError> {
        check(keys.iter().map(|key| (key.id, key.state, true)))?;
        Self::checked(keys, BTreeSet::new())
    }

    /// A keyring of these entries.
    ///
    /// # Errors
    /// If they do not form a keyring.
    pub fn from_entries(entries: &[KeyEntry]) -> Result<Self, KeyringError> {
        check_entries(entries)?;
        let key = |entry: &KeyEntry| Some(Key::new(entry.id, entry.state, entry.secret.as_ref()?));
        let revoked = entries.iter().filter(|entry| entry.state == KeyState::Revoked);
        Self::checked(
            entries.iter().filter_map(key).collect(),
            revoked.map(|entry| entry.id).collect(),
        )
    }

    fn checked(keys: Vec<Key>, revoked: BTreeSet<KeyId>) -> Result<Self, KeyringError> {
        let (mut signing, mut others): (Vec<Key>, Vec<Key>) =
            keys.into_iter().partition(|key| key.state == KeyState::Signing);
        let signing = signing.pop().ok_or(KeyringError::NoSigningKey)?;
        others.sort_by_key(|key| key.id);
        Ok(Self {
            signing,
            others,
            revoked: Arc::new(revoked),
        })
    }

    /// The key that signs.
    #[must_use]
    pub fn signing(&self) -> &Key {
        &self.signing
    }

    /// The keys that only verify, by id.
    #[must_use]
    pub fn others(&self) -> &[Key] {
        &self.others
    }

    /// The ids of all keys, and whether each is revoked.
    pub(crate) fn ids(&self) -> impl Iterator<Item = (KeyId, bool)> {
        let keys = std::iter::once(&self.signing).chain(&self.others);
        let revoked = self.revoked.iter().map(|id| (*id, true));
        keys.map(|key| (key.id, false)).chain(revoked)
    }

    /// The ids of revoked keys.
    #[must_use]
    pub fn revoked(&self) -> &Arc<BTreeSet<KeyId>> {
        &self.revoked
    }
}

fn check_entries(entries: &[KeyEntry]) -> Result<(), KeyringError> {
    check(
        entries
            .iter()
            .map(|entry| (entry.id, entry.state, entry.secret.is_some())),
    )
}

/// Checks that keys form a keyring. `bool`: whether there is a secret.
fn check(keys: impl Iterator<Item = (KeyId, KeyState, bool)>) -> Result<(), KeyringError> {
    let mut ids = BTreeSet::new();
    let mut signing = 0;
    for (id, state, has_secret) in keys {
        if !ids.insert(id) {
            return Err(KeyringError::DuplicateId(id));
        }
        match (state, has_secret) {
            (KeyState::Revoked, true) => return Err(KeyringError::SecretOfRevoked(id)),
            (KeyState::Revoked, false) | (_, true) => {}
            (_, false) => return Err(KeyringError::NoSecret(id)),
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
    fn a_revoked_key_has_no_secret_and_every_other_has_one() {
        let entry = |id, state, has_secret: bool| KeyEntry {
            id: KeyId(id),
            state,
            secret: has_secret.then(|| Secret::new([id; 32])),
        };
        let signing = entry(1, KeyState::Signing, true);
        let ring = Keyring::from_entries(&[entry(3, KeyState::Revoked, false), signing.clone()]).unwrap();
        assert!(ring.others().is_empty() && ring.revoked().contains(&KeyId(3)));
        let with = |entry| Keyring::from_entries(&[signing.clone(), entry]).unwrap_err();
        assert_eq!(
            with(entry(3, KeyState::Revoked, true)),
            KeyringError::SecretOfRevoked(KeyId(3))
        );
        assert_eq!(
            with(entry(3, KeyState::Retiring, false)),
            KeyringError::NoSecret(KeyId(3))
        );
        let revoked = key(3, KeyState::Revoked);
        assert_eq!(
            Keyring::new(vec![key(1, KeyState::Signing), revoked]).unwrap_err(),
            KeyringError::SecretOfRevoked(KeyId(3)),
            "it would verify"
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
