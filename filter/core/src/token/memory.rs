//! Verified tokens, remembered for further requests: a page sends thirty with one token.
//!
//! Only a realm's findings in a token's bytes are remembered; times, fences and destinations are checked each time. A
//! realm never changes, and a changed keyring makes other realms.
//!
//! A token has one place, which the next one takes over: there is no search, and clients can only cause each other's
//! tokens to be verified again. Forged tokens are not remembered. All bytes are compared in constant time, so timing
//! reveals no token.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

use subtle::ConstantTimeEq as _;
use zeroize::Zeroize as _;

use super::{MAX_TEXT_LEN, OpenedToken, Realm, TokenRefusal};

/// Bits of a place's number: 512 places, in about 80 KB.
const BITS: u32 = 9;
/// Characters only of the tag, a keyed hash of everything else.
const TAG: std::ops::Range<usize> = 4..12;
/// Bytes for a text: whole words, which are compared at once.
const ROOM: usize = MAX_TEXT_LEN.next_multiple_of(8);

pub(crate) struct TokenMemory {
    /// Odd and random, so that outsiders do not know which tokens share a place.
    multiplier: u64,
    places: Box<[Mutex<RememberedToken>]>,
}

/// A remembered token, wiped in the end, because its holder has the session.
struct RememberedToken {
    realm: u64,
    text: TokenText,
    opened: Option<OpenedToken>,
}

/// A token's text, with zeros behind it.
#[derive(Clone, Copy)]
struct TokenText {
    bytes: [u8; ROOM],
    length: usize,
}

impl TokenMemory {
    /// As [`Realm::open`].
    pub(crate) fn open(&self, realm: &Realm, text: &[u8]) -> Result<OpenedToken, TokenRefusal> {
        let (Some(place), Some(kept)) = (self.place(realm, text), TokenText::new(text)) else {
            return realm.open(text);
        };
        // A panic cannot leave a place half-changed.
        let found = place.lock().unwrap_or_else(PoisonError::into_inner).find(realm, &kept);
        if let Some(opened) = found {
            return Ok(opened);
        }
        // Without the lock.
        let opened = realm.open(text)?;
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        place.put(realm, kept, opened);
        Ok(opened)
    }

    /// The place of a token; `None` if the text is none.
    fn place(&self, realm: &Realm, text: &[u8]) -> Option<&Mutex<RememberedToken>> {
        let tag = u64::from_ne_bytes(text.get(TAG)?.try_into().ok()?);
        // The highest bits depend on all others.
        let hash = (tag ^ realm.number()).wrapping_mul(self.multiplier);
        self.places.get(usize::try_from(hash >> (u64::BITS - BITS)).ok()?)
    }
}

impl TokenText {
    const NONE: Self = Self {
        bytes: [0; ROOM],
        length: 0,
    };

    fn new(text: &[u8]) -> Option<Self> {
        let mut kept = Self::NONE;
        kept.bytes.get_mut(..text.len())?.copy_from_slice(text);
        kept.length = text.len();
        Some(kept)
    }

    /// Compares in constant time.
    fn is(&self, other: &Self) -> bool {
        let pairs = self.words().zip(other.words());
        let differences = pairs.fold(0, |all, (one, other)| all | (one ^ other));
        bool::from(differences.ct_eq(&0)) && self.length == other.length
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        let (words, _) = self.bytes.as_chunks();
        words.iter().map(|word| u64::from_ne_bytes(*word))
    }
}

impl RememberedToken {
    const EMPTY: Self = Self {
        realm: 0,
        text: TokenText::NONE,
        opened: None,
    };

    fn find(&self, realm: &Realm, text: &TokenText) -> Option<OpenedToken> {
        let is_same = self.realm == realm.number() && self.text.is(text);
        self.opened.filter(|_| is_same)
    }

    fn put(&mut self, realm: &Realm, text: TokenText, opened: OpenedToken) {
        self.realm = realm.number();
        self.text = text;
        self.opened = Some(opened);
    }

    fn wipe(&mut self) {
        self.text.bytes.zeroize();
        self.opened = None;
    }
}

impl Drop for RememberedToken {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl Default for TokenMemory {
    fn default() -> Self {
        let mut places = Vec::new();
        // A VM may have a limit. Then every token is verified.
        if places.try_reserve_exact(1 << BITS).is_ok() {
            places.resize_with(1 << BITS, || Mutex::new(RememberedToken::EMPTY));
        }
        Self {
            multiplier: RandomState::new().hash_one(BITS) | 1,
            places: places.into(),
        }
    }
}

impl fmt::Debug for TokenMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TokenMemory")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyring::{Key, KeyId, KeyState, Keyring, Secret};
    use crate::time::Timestamp;
    use crate::token::{CarrierMode, Claims, DestinationId, PayloadForm};

    fn realm(scope: &[u8]) -> Realm {
        let key = Key::new(KeyId(1), KeyState::Signing, &Secret::new([1; 32]));
        Realm::new(&Keyring::new(vec![key]).unwrap(), scope, CarrierMode::Cookie, "session")
    }

    fn token(realm: &Realm, number: u32) -> String {
        let claims = Claims {
            host: ([10, 0, 0, 1], 80).into(),
            destination: DestinationId([0; 4]),
            issued_at: Timestamp::UNIX_EPOCH,
            last_seen: Timestamp::UNIX_EPOCH,
        };
        realm.seal(PayloadForm::Sealed, &claims, number.to_be_bytes())
    }

    fn has(memory: &TokenMemory, realm: &Realm, text: &[u8]) -> bool {
        let place = memory.place(realm, text).zip(TokenText::new(text));
        place.is_some_and(|(place, text)| place.lock().unwrap().find(realm, &text).is_some())
    }

    #[test]
    fn what_is_remembered_is_what_was_verified() {
        let (memory, here) = (TokenMemory::default(), realm(b"here"));
        let token = token(&here, 7);
        assert!(!has(&memory, &here, token.as_bytes()));
        for _ in 0..2 {
            assert_eq!(memory.open(&here, token.as_bytes()), here.open(token.as_bytes()));
            assert!(has(&memory, &here, token.as_bytes()));
        }
    }

    #[test]
    fn a_remembered_token_is_one_of_its_realm_alone() {
        let (memory, here) = (TokenMemory::default(), realm(b"here"));
        let token = token(&here, 7);
        memory.open(&here, token.as_bytes()).unwrap();
        let there = realm(b"there");
        assert_eq!(memory.open(&there, token.as_bytes()), Err(TokenRefusal::BadSignature));
        let again = realm(b"here");
        assert!(!has(&memory, &again, token.as_bytes()), "the keys may be others");
        // Even if it had the same place.
        let place = memory.place(&here, token.as_bytes()).unwrap().lock().unwrap();
        assert!(place.find(&again, &TokenText::new(token.as_bytes()).unwrap()).is_none());
    }

    #[test]
    fn no_other_bytes_are_a_remembered_token() {
        let (memory, here) = (TokenMemory::default(), realm(b"here"));
        let token = token(&here, 7);
        memory.open(&here, token.as_bytes()).unwrap();
        let place = memory.place(&here, token.as_bytes()).unwrap().lock().unwrap();
        let find = |text: &[u8]| place.find(&here, &TokenText::new(text).unwrap());
        let longer = [token.as_bytes(), b"\0"].concat();
        for length in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[length] ^= 1;
            assert!(find(&changed).is_none());
            assert!(find(&token.as_bytes()[..length]).is_none());
        }
        assert!(find(&longer).is_none());
        assert!(find(token.as_bytes()).is_some());
    }

    #[test]
    fn refused_tokens_are_not_remembered() {
        let (memory, here) = (TokenMemory::default(), realm(b"here"));
        let forged = token(&realm(b"there"), 7);
        for text in [forged.as_bytes(), b"", b"x", &[b'A'; 200]] {
            assert!(memory.open(&here, text).is_err());
            assert!(!has(&memory, &here, text));
        }
    }

    #[test]
    fn however_many_tokens_come_so_many_are_remembered() {
        let (memory, here) = (TokenMemory::default(), realm(b"here"));
        for number in 0..3_000 {
            let token = token(&here, number);
            assert_eq!(memory.open(&here, token.as_bytes()), here.open(token.as_bytes()));
        }
        let bytes = std::mem::size_of_val(&*memory.places);
        assert!(memory.places.len() == 512 && bytes <= 90_000, "{bytes} bytes");
    }
}
