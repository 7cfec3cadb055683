//! The synthetic-IV composition of tokens and keyrings: the tag authenticates associated data and payload, and is the
//! IV that encrypts the payload. Opening decrypts first and then verifies.

use hmac::block_api::HmacCore;
use hmac::digest::block_api::{Buffer, CoreProxy as _};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// HMAC-SHA256 (RFC 2104) with its key and more absorbed. A clone costs no hashing.
pub(crate) type HmacSha256 = Hmac<Sha256>;

/// HMAC-SHA256 with only its key absorbed, without a buffer, whose unused part would copy what was on the stack.
pub(crate) struct HmacKey(HmacCore<Sha256>);

impl HmacKey {
    /// The key is padded to 64 bytes, the block of SHA-256.
    pub(crate) fn new(block: &hmac::digest::Key<HmacSha256>) -> Self {
        Self(HmacCore::new(block))
    }

    /// A MAC with this key, which costs no hashing.
    pub(crate) fn begin(&self) -> HmacSha256 {
        HmacSha256::compose(self.0.clone(), Buffer::<HmacCore<Sha256>>::default())
    }
}

/// Bytes of the tag: HMAC-SHA256, truncated to 128 bits.
pub(crate) const TAG_LEN: usize = 16;

/// The tag of a plaintext payload. `bound` has absorbed the associated data.
pub(crate) fn tag(bound: &HmacSha256, payload: &[u8]) -> [u8; TAG_LEN] {
    let full = bound.clone().chain_update(payload).finalize().into_bytes();
    let mut tag = [0; TAG_LEN];
    for (to, from) in tag.iter_mut().zip(full) {
        *to = from;
    }
    tag
}

/// Whether `tag` is the payload's, in constant time.
pub(crate) fn verifies(bound: &HmacSha256, payload: &[u8], tag: &[u8]) -> bool {
    let mac = bound.clone().chain_update(payload);
    // `verify_truncated_left` would accept a part of the tag.
    tag.len() == TAG_LEN && mac.verify_truncated_left(tag).is_ok()
}

/// Encrypts or decrypts. Block n of the key stream is HMAC(encipher key, tag | n as 32 bits).
pub(crate) fn apply_key_stream(encipher: &HmacKey, tag: &[u8], payload: &mut [u8]) {
    for (counter, block) in (0u32..).zip(payload.chunks_mut(32)) {
        let stream = encipher
            .begin()
            .chain_update(tag)
            .chain_update(counter.to_be_bytes())
            .finalize()
            .into_bytes();
        for (byte, key) in block.iter_mut().zip(stream) {
            *byte ^= key;
        }
    }
}
