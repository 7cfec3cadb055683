//! Secrets, and the keys derived from them.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// HMAC-SHA256 (RFC 2104) with its key already absorbed: a clone costs no compression.
pub(crate) type HmacSha256 = Hmac<Sha256>;

/// 32 secret bytes. Not shown by `Debug`, wiped when dropped, compared in constant time.
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

    /// From the one spelling in standard base64 (RFC 4648 section 4), 44 characters; white space around it is none of
    /// it.
    #[must_use]
    pub fn from_base64(text: &str) -> Option<Self> {
        let mut bytes = Zeroizing::new([0; Self::LEN + 2]);
        let len = STANDARD.decode_slice(text.trim(), bytes.as_mut_slice()).ok()?;
        Self::from_slice(bytes.get(..len)?)
    }

    /// In standard base64.
    #[must_use]
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.0))
    }

    /// From exactly 32 bytes.
    pub(super) fn from_slice(bytes: &[u8]) -> Option<Self> {
        let mut copy: [u8; Self::LEN] = bytes.try_into().ok()?;
        let secret = Self(copy);
        copy.zeroize();
        Some(secret)
    }

    pub(super) fn bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// A subkey for one purpose: HKDF-SHA256, no salt, `label` as info.
    pub(super) fn subkey(&self, label: &[u8]) -> HmacSha256 {
        let mut okm = [0; Self::LEN];
        // 32 bytes are far below HKDF's limit of 255 hashes, and HMAC takes a key of any length: neither can fail.
        let _ = Hkdf::<Sha256>::new(None, &self.0).expand(label, &mut okm);
        let mac = <HmacSha256 as KeyInit>::new(&hmac_key(&okm));
        okm.zeroize();
        mac
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Secret {}

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
