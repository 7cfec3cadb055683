//! Secrets and the keys that are derived from them.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hkdf::Hkdf;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::siv::{HmacKey, HmacSha256};

/// 32 secret bytes: wiped when dropped, compared in constant time, hidden from `Debug`. They stay in place: a move
/// would leave copies behind.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret(Box<[u8; Secret::LEN]>);

impl Secret {
    /// Bytes of a secret.
    pub const LEN: usize = 32;

    /// A secret with these bytes.
    #[must_use]
    pub fn new(mut bytes: [u8; Self::LEN]) -> Self {
        let mut secret = Self::zero();
        secret.0.copy_from_slice(&bytes);
        bytes.zeroize();
        secret
    }

    fn zero() -> Self {
        Self(Box::new([0; Self::LEN]))
    }

    /// Reads a secret in canonical standard base64 (RFC 4648 section 4), 44 characters, ignoring white space around.
    #[must_use]
    pub fn from_base64(text: &str) -> Option<Self> {
        let mut bytes = Zeroizing::new([0; Self::LEN + 2]);
        let len = STANDARD.decode_slice(text.trim(), bytes.as_mut_slice()).ok()?;
        Self::from_slice(bytes.get(..len)?)
    }

    /// The secret in standard base64.
    #[must_use]
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.0.as_slice()))
    }

    pub(super) fn from_slice(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().ok()?;
        let mut secret = Self::zero();
        secret.0.copy_from_slice(bytes);
        Some(secret)
    }

    pub(super) fn bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// HKDF-SHA256 without salt, with `label` as info. The key stays where `P` has it.
    pub(super) fn subkey<P: From<HmacKey>>(&self, label: &[u8]) -> P {
        let key = derive(&self.0, label);
        wipe_stack::<MADE>();
        key
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&*other.0).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Its own function, so that all that it leaves behind is below its caller's frame: the libraries wipe neither the
/// extracted key nor HMAC's padded copies.
#[inline(never)]
fn derive<P: From<HmacKey>>(secret: &[u8; Secret::LEN], label: &[u8]) -> P {
    let mut okm = [0; Secret::LEN];
    // 32 bytes are far below HKDF's limit of 255 hashes.
    let _ = Hkdf::<Sha256>::new(None, secret).expand(label, &mut okm);
    let mut block = padded(&okm);
    let key = HmacKey::new(&block);
    okm.zeroize();
    block.zeroize();
    key.into()
}

/// More words of the stack than making keys takes in an unoptimised build.
pub(crate) const MADE: usize = 1024;

/// Overwrites `WORDS` of 16 bytes that returned functions left on the stack. Not inlined, so that they are below its
/// caller's frame.
#[inline(never)]
pub(crate) fn wipe_stack<const WORDS: usize>() {
    std::hint::black_box(&mut [0_u128; WORDS]).zeroize();
}

/// The key, padded to the block of SHA-256, 64 bytes (RFC 2104).
fn padded(okm: &[u8; Secret::LEN]) -> hmac::digest::Key<HmacSha256> {
    let mut block = hmac::digest::Key::<HmacSha256>::default();
    for (to, from) in block.iter_mut().zip(okm) {
        *to = *from;
    }
    block
}
