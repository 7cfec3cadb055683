//! Tokens that clients carry, and why one is refused. `docs/reference/token.md` specifies the format.
//!
//! ```text
//! token = base64url( version and form (1) | key id (1) | tag (16) | payload (27 or 39) ), unpadded, canonical
//! ```
//!
//! A sealed token is a synthetic-IV composition: the tag authenticates associated data and payload, and is the IV that
//! encrypts the payload. A signed token has the same tag over the same bytes and a plaintext payload.

mod memory;
mod payload;
mod realm;

pub(crate) use memory::TokenMemory;
pub use payload::{Claims, TokenAge};
pub use realm::{CarrierMode, OpenedToken, Realm};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use crate::keyring::KeyId;
use crate::siv::TAG_LEN;

const HEAD_LEN: usize = 2 + TAG_LEN;
/// Bytes of the longest token (IPv6).
const MAX_LEN: usize = HEAD_LEN + payload::MAX_LEN;
/// Characters of the longest token.
pub const MAX_TEXT_LEN: usize = (MAX_LEN * 4).div_ceil(3);

/// The most verified tokens of a request: a browser keeps at least so many cookies for a host (RFC 6265 section 6.1).
/// However many a client sends, these cost the filter about 0.1 ms.
pub const MAX_TOKENS: usize = 50;

/// Whether a token's payload is readable without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadForm {
    /// Only the key id is readable.
    Sealed,
    /// The payload is readable, for debugging. The token is as hard to forge.
    Signed,
}

impl PayloadForm {
    /// Byte 0 of a token: version 1 in the high four bits, the form in the low four.
    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::Sealed => 0x10,
            Self::Signed => 0x11,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Sealed, Self::Signed]
            .into_iter()
            .find(|form| form.byte() == byte)
    }

    /// The name in the configuration and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sealed => "sealed",
            Self::Signed => "signed",
        }
    }
}

/// Why a token is not honoured. The client always gets a new session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TokenRefusal {
    /// Wrong length, alphabet, padding or version.
    #[error("malformed")]
    Malformed,
    /// The keyring has no key of this id.
    #[error("unknown key")]
    UnknownKey,
    /// The key of this id is revoked.
    #[error("revoked key")]
    RevokedKey,
    /// Changed, forged, or made for another scope, carrier mode or session name.
    #[error("bad signature")]
    BadSignature,
    /// Older than the absolute timeout.
    #[error("expired")]
    Expired,
    /// Unused for longer than the idle timeout.
    #[error("idle")]
    Idle,
    /// Issued or last seen further ahead than clocks may differ.
    #[error("from the future")]
    FromTheFuture,
    /// Issued before the address got its current owner.
    #[error("fenced")]
    Fenced,
    /// The route does not lead to its destination.
    #[error("unknown destination")]
    UnknownDestination,
}

impl TokenRefusal {
    /// Every reason, in the order of the checks.
    pub const ALL: [Self; 9] = [
        Self::Malformed,
        Self::UnknownKey,
        Self::RevokedKey,
        Self::BadSignature,
        Self::Expired,
        Self::Idle,
        Self::FromTheFuture,
        Self::Fenced,
        Self::UnknownDestination,
    ];
}

/// The cluster's name up to the first `#`. A hash of its settings may follow, and change without ending sessions.
#[must_use]
pub fn cluster_base(name: &[u8]) -> &[u8] {
    name.split(|byte| *byte == b'#').next().unwrap_or(name)
}

/// The first four bytes of the SHA-256 of a cluster's base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DestinationId(pub [u8; 4]);

impl DestinationId {
    /// The destination for the cluster of this name.
    #[must_use]
    pub fn of_cluster(name: &[u8]) -> Self {
        let digest = Sha256::digest(cluster_base(name));
        let mut short = [0; 4];
        for (to, from) in short.iter_mut().zip(digest) {
            *to = from;
        }
        Self(short)
    }
}

impl std::fmt::Display for DestinationId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The parts of a token, not verified.
pub(crate) struct TokenParts {
    bytes: [u8; MAX_LEN],
    len: usize,
    form: PayloadForm,
}

impl TokenParts {
    fn parse(text: &[u8]) -> Result<Self, TokenRefusal> {
        if text.len() > MAX_TEXT_LEN {
            return Err(TokenRefusal::Malformed);
        }
        let mut bytes = [0; MAX_LEN];
        // No other text decodes to the same bytes: padding and non-zero trailing bits are refused.
        let len = URL_SAFE_NO_PAD
            .decode_slice(text, &mut bytes)
            .map_err(|_| TokenRefusal::Malformed)?;
        let form = PayloadForm::from_byte(bytes[0]).ok_or(TokenRefusal::Malformed)?;
        if !len.checked_sub(HEAD_LEN).is_some_and(payload::is_length) {
            return Err(TokenRefusal::Malformed);
        }
        Ok(Self { bytes, len, form })
    }

    fn key_id(&self) -> KeyId {
        KeyId(self.bytes[1])
    }

    fn tag(&self) -> &[u8] {
        self.bytes.get(2..HEAD_LEN).unwrap_or_default()
    }

    fn payload(&self) -> &[u8] {
        self.bytes.get(HEAD_LEN..self.len).unwrap_or_default()
    }
}

/// Whether `text` has the form of a token, unverified.
#[must_use]
pub fn is_token(text: &[u8]) -> bool {
    TokenParts::parse(text).is_ok()
}

/// What a token shows without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnverifiedToken {
    /// The token's form.
    pub form: PayloadForm,
    /// The id of the claimed key.
    pub key_id: KeyId,
    /// The claims of a signed token; `None` for a sealed one.
    pub claims: Option<Claims>,
}

impl UnverifiedToken {
    /// Reads `text` without verifying it.
    ///
    /// # Errors
    /// If `text` does not have the form of a token.
    pub fn parse(text: &[u8]) -> Result<Self, TokenRefusal> {
        let parts = TokenParts::parse(text)?;
        let claims = match parts.form {
            PayloadForm::Sealed => None,
            PayloadForm::Signed => Some(Claims::decode(parts.payload()).ok_or(TokenRefusal::Malformed)?.0),
        };
        Ok(Self {
            form: parts.form,
            key_id: parts.key_id(),
            claims,
        })
    }
}
