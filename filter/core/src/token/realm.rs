//! Seals and opens tokens in the realm that they are bound to.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::Mac as _;

use super::{Claims, HEAD_LEN, PayloadForm, TokenParts, TokenRefusal};
use crate::keyring::{Key, KeyId, KeyState, Keyring};
use crate::siv::{self, HmacKey, HmacSha256};

static REALMS: AtomicU64 = AtomicU64::new(0);

/// How a token travels. Tokens are bound to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CarrierMode {
    /// The filter's own cookie.
    Cookie,
    /// In front of the application's cookie value.
    CookiePrefix,
    /// In place of the application's cookie value.
    CookieRewrite,
    /// The filter's own header.
    Header,
    /// In front of the application's header value.
    HeaderPrefix,
    /// The filter's own query parameter.
    Query,
}

impl CarrierMode {
    /// Every mode.
    pub const ALL: [Self; 6] = [
        Self::Cookie,
        Self::CookiePrefix,
        Self::CookieRewrite,
        Self::Header,
        Self::HeaderPrefix,
        Self::Query,
    ];

    /// The name in the associated data of tokens and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cookie => "cookie",
            Self::CookiePrefix => "cookie-prefix",
            Self::CookieRewrite => "cookie-rewrite",
            Self::Header => "header",
            Self::HeaderPrefix => "header-prefix",
            Self::Query => "query",
        }
    }
}

/// What a token is bound to but does not contain: scope, carrier mode, session name and keys.
///
/// The associated data is absorbed once, so a verification hashes only the payload.
#[derive(Debug)]
pub struct Realm {
    /// Unique in this process.
    number: u64,
    signing: RealmKey,
    /// By id. A token names its key, so their number costs next to nothing.
    others: Vec<RealmKey>,
    revoked: Arc<BTreeSet<KeyId>>,
}

struct RealmKey {
    id: KeyId,
    state: KeyState,
    /// MACs that have absorbed the associated data.
    sealed: HmacSha256,
    signed: HmacSha256,
    encipher: Arc<HmacKey>,
}

impl std::fmt::Debug for RealmKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RealmKey")
            .field("id", &self.id)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// A verified token, whose session may be over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenedToken {
    /// The token's content.
    pub claims: Claims,
    /// The nonce of the session, which outlasts renewals.
    pub nonce: [u8; 4],
    /// The token's key.
    pub key: KeyId,
    /// Whether the key is retiring, so that renewal is due.
    pub key_retiring: bool,
}

impl Realm {
    /// The realm of a session. Header names are bound in lower case.
    #[must_use]
    pub fn new(keyring: &Keyring, scope: &[u8], mode: CarrierMode, session_name: &str) -> Self {
        let session_name = match mode {
            CarrierMode::Cookie | CarrierMode::CookiePrefix | CarrierMode::CookieRewrite | CarrierMode::Query => {
                session_name.to_owned()
            }
            CarrierMode::Header | CarrierMode::HeaderPrefix => session_name.to_ascii_lowercase(),
        };
        let bind = |key: &Key, form: PayloadForm| {
            let mut mac = key.mac.begin();
            mac.update(&[form.byte(), key.id.0]);
            for field in [scope, mode.name().as_bytes(), session_name.as_bytes()] {
                // The configuration's checks keep each of them far below 2^16.
                let len = u16::try_from(field.len()).unwrap_or(u16::MAX);
                mac.update(&len.to_be_bytes());
                mac.update(field);
            }
            mac
        };
        let bind = |key: &Key| RealmKey {
            id: key.id,
            state: key.state,
            sealed: bind(key, PayloadForm::Sealed),
            signed: bind(key, PayloadForm::Signed),
            encipher: Arc::clone(&key.encipher),
        };
        Self {
            number: REALMS.fetch_add(1, Ordering::Relaxed),
            signing: bind(keyring.signing()),
            others: keyring.others().iter().map(bind).collect(),
            revoked: Arc::clone(keyring.revoked()),
        }
    }

    /// A token under the signing key. The nonce, four random bytes, tells sessions with equal claims apart.
    #[must_use]
    pub fn seal(&self, form: PayloadForm, claims: &Claims, nonce: [u8; 4]) -> String {
        let key = &self.signing;
        let mut payload = claims.encode(nonce);
        let tag = siv::tag(key.bound(form), &payload);
        if form == PayloadForm::Sealed {
            siv::apply_key_stream(&key.encipher, &tag, &mut payload);
        }
        let mut token = Vec::with_capacity(HEAD_LEN + payload.len());
        token.extend_from_slice(&[form.byte(), key.id.0]);
        token.extend_from_slice(&tag);
        token.extend_from_slice(&payload);
        URL_SAFE_NO_PAD.encode(token)
    }

    /// Verifies a token.
    ///
    /// # Errors
    /// If it is malformed, its key is unknown or revoked, or it was changed or made for another realm.
    pub fn open(&self, text: &[u8]) -> Result<OpenedToken, TokenRefusal> {
        let parts = TokenParts::parse(text)?;
        let key = self.key(parts.key_id())?;
        let mut buffer = [0; super::payload::MAX_LEN];
        let payload = buffer.get_mut(..parts.payload().len()).ok_or(TokenRefusal::Malformed)?;
        payload.copy_from_slice(parts.payload());
        if parts.form == PayloadForm::Sealed {
            siv::apply_key_stream(&key.encipher, parts.tag(), payload);
        }
        if !siv::verifies(key.bound(parts.form), payload, parts.tag()) {
            return Err(TokenRefusal::BadSignature);
        }
        // Verified, so if it cannot be decoded, a later version made it.
        let (claims, nonce) = Claims::decode(payload).ok_or(TokenRefusal::Malformed)?;
        Ok(OpenedToken {
            claims,
            nonce,
            key: key.id,
            key_retiring: key.state == KeyState::Retiring,
        })
    }
}

impl Realm {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn signing(&self) -> KeyId {
        self.signing.id
    }

    fn key(&self, id: KeyId) -> Result<&RealmKey, TokenRefusal> {
        if id == self.signing.id {
            return Ok(&self.signing);
        }
        let other = self.others.binary_search_by_key(&id, |key| key.id);
        other.ok().and_then(|at| self.others.get(at)).ok_or_else(|| {
            if self.revoked.contains(&id) {
                TokenRefusal::RevokedKey
            } else {
                TokenRefusal::UnknownKey
            }
        })
    }
}

impl RealmKey {
    fn bound(&self, form: PayloadForm) -> &HmacSha256 {
        match form {
            PayloadForm::Sealed => &self.sealed,
            PayloadForm::Signed => &self.signed,
        }
    }
}
