use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// The first four bytes of the SHA-256 as eight hexadecimal digits, for names that people read.
#[must_use]
pub fn short_hash(bytes: &[u8]) -> String {
    hash(bytes, 4)
}

/// The first `length` bytes of the SHA-256 in hexadecimal digits.
#[must_use]
pub fn hash(bytes: &[u8], length: usize) -> String {
    let mut text = String::with_capacity(2 * length);
    for byte in Sha256::digest(bytes).iter().take(length) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
