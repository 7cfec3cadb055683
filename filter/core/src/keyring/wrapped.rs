//! Wrapped keyrings: every key with its secret, sealed under a key-encryption key. `docs/reference/keyring.md`
//! specifies the format.
//!
//! ```text
//! text  = base64url( version (1) | id of the key-encryption key (1) | tag (16) | entries ), unpadded, canonical
//! entry = key id (1) | state (1) | secret (32), in the order of the ids; the secret of a revoked key is zeros
//! ```
//!
//! Without randomness: an unchanged keyring has the same text and is not sent again.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::Mac as _;
use zeroize::Zeroizing;

use super::{KeyEntry, KeyId, KeyState, KeyringError, Secret, check_entries};
use crate::siv::{self, HmacKey, HmacSha256, TAG_LEN};

/// HKDF labels (RFC 5869 `info`). A change requires a new version.
const MAC_LABEL: &[u8] = b"limpet keyring v1 mac";
const ENCIPHER_LABEL: &[u8] = b"limpet keyring v1 encipher";

/// Byte 0. No token begins with it, so a token in place of a keyring, or the reverse, is malformed.
const VERSION: u8 = 0x81;
const HEAD_LEN: usize = 2 + TAG_LEN;
const ENTRY_LEN: usize = 2 + Secret::LEN;
/// In place of a revoked key's secret.
const NO_SECRET: [u8; Secret::LEN] = [0; Secret::LEN];
/// Ids are single bytes, so there are at most 256 keys.
const MAX_LEN: usize = HEAD_LEN + 256 * ENTRY_LEN;
/// Characters of the longest wrapped keyring.
pub const MAX_TEXT_LEN: usize = (MAX_LEN * 4).div_ceil(3);

/// Why a wrapped keyring cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum UnwrapError {
    /// The text is not exactly a wrapped keyring of this version.
    #[error("malformed: expected the text that `limpet keys wrap` prints, whole")]
    Malformed,
    /// The text was changed, or sealed under another key.
    #[error("bad signature: changed, or wrapped under another key-encryption key of the same id")]
    BadSignature,
    /// Sealed under this key, but by a later version of the format.
    #[error("unknown entries: wrapped by a later version")]
    UnknownEntries,
}

/// A wrapped keyring that is not opened yet.
#[derive(Debug, Clone)]
pub struct WrappedKeyring(Vec<u8>);

impl WrappedKeyring {
    /// Decodes the text.
    ///
    /// # Errors
    /// If the text is malformed.
    pub fn parse(text: &str) -> Result<Self, UnwrapError> {
        if text.len() > MAX_TEXT_LEN {
            return Err(UnwrapError::Malformed);
        }
        // No other text decodes to the same bytes: padding and non-zero trailing bits are refused.
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| UnwrapError::Malformed)?;
        let entries = bytes.len().saturating_sub(HEAD_LEN);
        if bytes.first() != Some(&VERSION) || entries == 0 || entries % ENTRY_LEN != 0 {
            return Err(UnwrapError::Malformed);
        }
        Ok(Self(bytes))
    }

    /// The key-encryption key's id, not verified.
    #[must_use]
    pub fn key_encryption_key(&self) -> KeyId {
        KeyId(self.0.get(1).copied().unwrap_or_default())
    }

    /// Opens the keyring.
    ///
    /// # Errors
    /// If the text was changed or sealed under another key, or a later version wrote it.
    pub fn open(&self, key_encryption_key: &Secret) -> Result<Vec<KeyEntry>, UnwrapError> {
        let tag = self.0.get(2..HEAD_LEN).unwrap_or_default();
        let mut payload = Zeroizing::new(self.0.get(HEAD_LEN..).unwrap_or_default().to_vec());
        siv::apply_key_stream(&key_encryption_key.subkey::<HmacKey>(ENCIPHER_LABEL), tag, &mut payload);
        if !siv::verifies(&bound(key_encryption_key, self.key_encryption_key()), &payload, tag) {
            return Err(UnwrapError::BadSignature);
        }
        let entries: Option<Vec<KeyEntry>> = payload.chunks(ENTRY_LEN).map(decode).collect();
        let entries = entries.ok_or(UnwrapError::UnknownEntries)?;
        // Only what `wrap` writes opens.
        if !entries.is_sorted_by(|a, b| a.id < b.id) {
            return Err(UnwrapError::UnknownEntries);
        }
        Ok(entries)
    }
}

/// Seals a keyring.
///
/// # Errors
/// If the entries do not form a keyring.
pub fn wrap(entries: &[KeyEntry], id: KeyId, key_encryption_key: &Secret) -> Result<String, KeyringError> {
    check_entries(entries)?;
    let mut sorted: Vec<&KeyEntry> = entries.iter().collect();
    sorted.sort_by_key(|entry| entry.id);
    let mut payload = Zeroizing::new(Vec::with_capacity(sorted.len() * ENTRY_LEN));
    for entry in sorted {
        payload.extend_from_slice(&[entry.id.0, state_byte(entry.state)]);
        let secret = entry.secret.as_ref();
        payload.extend_from_slice(secret.map_or(&NO_SECRET, |secret| secret.bytes()));
    }
    let tag = siv::tag(&bound(key_encryption_key, id), &payload);
    siv::apply_key_stream(
        &key_encryption_key.subkey::<HmacKey>(ENCIPHER_LABEL),
        &tag,
        &mut payload,
    );
    let mut bytes = Vec::with_capacity(HEAD_LEN + payload.len());
    bytes.extend_from_slice(&[VERSION, id.0]);
    bytes.extend_from_slice(&tag);
    bytes.extend_from_slice(&payload);
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn bound(key_encryption_key: &Secret, id: KeyId) -> HmacSha256 {
    key_encryption_key
        .subkey::<HmacKey>(MAC_LABEL)
        .begin()
        .chain_update([VERSION, id.0])
}

fn state_byte(state: KeyState) -> u8 {
    match state {
        KeyState::Signing => 0,
        KeyState::Verifying => 1,
        KeyState::Retiring => 2,
        KeyState::Revoked => 3,
    }
}

fn decode(entry: &[u8]) -> Option<KeyEntry> {
    let ([id, state], secret) = entry.split_first_chunk()?;
    let state = KeyState::ALL.into_iter().find(|known| state_byte(*known) == *state)?;
    let secret = match state {
        KeyState::Revoked if *secret == NO_SECRET => None,
        KeyState::Revoked => return None,
        KeyState::Signing | KeyState::Verifying | KeyState::Retiring => Some(Secret::from_slice(secret)?),
    };
    let id = KeyId(*id);
    Some(KeyEntry { id, state, secret })
}
