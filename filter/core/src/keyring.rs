//! Keys: which there are, which one signs, and what is derived from each.

use std::fmt;

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit};
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// HMAC-SHA256 (RFC 2104) with its key already absorbed: a clone costs no compression.
pub(crate) type HmacSha256 = Hmac<Sha256>;

/// The HKDF labels (RFC 5869 `info`). A change of either is a new token version.
const MAC_LABEL: &[u8] = b"limpet token v1 mac";
const ENCIPHER_LABEL: &[u8] = b"limpet token v1 encipher";

/// 32 secret bytes. Not shown by `Debug`, wiped when dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret([u8; Secret::LEN]);

impl Secret {
    /// The length of a secret in bytes.
    pub const LEN: usize = 32;

    /// Takes the bytes over.
    #[must_use]
    pub fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// A subkey for one purpose: HKDF-SHA256, no salt, `label` as info.
    fn subkey(&self, label: &[u8]) -> HmacSha256 {
        let mut okm = [0; Self::LEN];
        // 32 bytes are far below HKDF's limit of 255 hashes, and HMAC takes a key of any length: neither can fail.
        let _ = Hkdf::<Sha256>::new(None, &self.0).expand(label, &mut okm);
        let mac = <HmacSha256 as KeyInit>::new(&hmac_key(&okm));
        okm.zeroize();
        mac
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// An HMAC key as RFC 2104 pads it to SHA-256's block of 64 bytes.
fn hmac_key(okm: &[u8; Secret::LEN]) -> hmac::digest::Key<HmacSha256> {
    let mut block = hmac::digest::Key::<HmacSha256>::default();
    for (to, from) in block.iter_mut().zip(okm) {
        *to = *from;
    }
    block
}

/// Names a key within a keyring; the second byte of every token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u8);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A key's phase in a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// Signs new tokens, verifies its own.
    Signing,
    /// Verifies only: a key that will sign once every Envoy has it.
    Verifying,
    /// Verifies only, and what it signed is renewed under the signing key.
    Retiring,
}

/// One key, ready for use.
pub struct Key {
    pub(crate) id: KeyId,
    pub(crate) state: KeyState,
    pub(crate) mac: HmacSha256,
    pub(crate) encipher: HmacSha256,
}

impl Key {
    /// Derives what tokens need from `secret`.
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

/// Keys with distinct ids, exactly one of which signs.
#[derive(Debug)]
pub struct Keyring {
    signing: Key,
    others: Vec<Key>,
}

/// Why keys make no keyring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// No key signs.
    #[error("expected one key with state signing, found none")]
    NoSigningKey,
    /// More than one key signs.
    #[error("expected one key with state signing, found several")]
    SeveralSigningKeys,
    /// Two keys have one id.
    #[error("expected distinct key ids, found {0} twice")]
    DuplicateId(KeyId),
}

impl Keyring {
    /// Checks and takes `keys`, in any order.
    ///
    /// # Errors
    /// [`KeyringError`] where not exactly one key signs or two have one id.
    pub fn new(keys: Vec<Key>) -> Result<Self, KeyringError> {
        let mut signing = None;
        let mut others: Vec<Key> = Vec::new();
        for key in keys {
            let known = others.iter().chain(&signing).any(|other| other.id == key.id);
            if known {
                return Err(KeyringError::DuplicateId(key.id));
            }
            if key.state != KeyState::Signing {
                others.push(key);
            } else if signing.replace(key).is_some() {
                return Err(KeyringError::SeveralSigningKeys);
            }
        }
        match signing {
            Some(signing) => Ok(Self { signing, others }),
            None => Err(KeyringError::NoSigningKey),
        }
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
