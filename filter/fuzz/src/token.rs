use std::net::SocketAddr;

use limpet_core::keyring::{Key, KeyId, KeyState, Keyring, Secret};
use limpet_core::time::Timestamp;
use limpet_core::token::{
    CarrierMode, Claims, DestinationId, MAX_TEXT_LEN, PayloadForm, Realm, TokenRefusal, UnverifiedToken,
};

/// The realm of the corpus: key 1 signs, key 2 is retiring.
#[must_use]
pub fn realm() -> Realm {
    bound("scope", CarrierMode::Cookie, "session")
}

fn bound(scope: &str, mode: CarrierMode, name: &str) -> Realm {
    let key = |id, state| Key::new(KeyId(id), state, &Secret::new([id; 32]));
    let keys = vec![key(1, KeyState::Signing), key(2, KeyState::Retiring)];
    let keyring = Keyring::new(keys).expect("two keys, one of which signs");
    Realm::new(&keyring, scope.as_bytes(), mode, name)
}

/// Takes the bytes as a token, and as claims for a token.
///
/// # Panics
/// If a property of tokens does not hold.
pub fn token(data: &[u8]) {
    as_text(data);
    as_claims(data);
}

fn as_text(text: &[u8]) {
    let realm = realm();
    let opened = realm.open(text);
    match UnverifiedToken::parse(text) {
        Err(refusal) => assert_eq!(refusal, TokenRefusal::Malformed),
        Ok(seen) => {
            assert!(text.len() == 60 || text.len() == MAX_TEXT_LEN, "the length of a token");
            let known = [1, 2].contains(&seen.key_id.0);
            assert_eq!(opened == Err(TokenRefusal::UnknownKey), !known, "a key is known or not");
            if let (Ok(opened), Some(claims)) = (opened, seen.claims) {
                assert_eq!(opened.claims, claims, "the readable part equals the signed part");
            }
        }
    }
    let Ok(opened) = opened else {
        return;
    };
    assert!(UnverifiedToken::parse(text).is_ok(), "what opens can be parsed");
    opens_nowhere_else(text);
    for form in [PayloadForm::Sealed, PayloadForm::Signed] {
        let again = realm.seal(form, &opened.claims, [0; 4]);
        let again = realm.open(again.as_bytes()).expect("our own token");
        assert_eq!(again.claims, opened.claims, "sealed again it says the same");
        assert!(!again.key_retiring, "the signing key's");
    }
}

fn opens_nowhere_else(text: &[u8]) {
    for (scope, mode, name) in [
        ("scopf", CarrierMode::Cookie, "session"),
        ("scope", CarrierMode::Header, "session"),
        ("scope", CarrierMode::Cookie, "sessiom"),
        ("scop", CarrierMode::Cookie, "esession"),
    ] {
        assert_eq!(
            bound(scope, mode, name).open(text),
            Err(TokenRefusal::BadSignature),
            "{scope} {name}"
        );
    }
    for at in 0..text.len() {
        let mut changed = text.to_vec();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        assert!(realm().open(&changed).is_err(), "changed at {at} it still opens");
    }
}

fn as_claims(data: &[u8]) {
    let mut bytes = data.iter().copied();
    let mut next = || bytes.next().unwrap_or_default();
    let flags = next();
    let mut array = || std::array::from_fn::<u8, 16, _>(|_| next());
    let (address, numbers) = (array(), array());
    let port = u16::from_be_bytes([numbers[0], numbers[1]]);
    let host = match flags & 1 {
        0 => SocketAddr::from(([address[0], address[1], address[2], address[3]], port)),
        _ => SocketAddr::from((address, port)),
    };
    let time = |bytes: &[u8]| {
        let millis = bytes.iter().fold(0, |millis, byte| millis << 8 | u64::from(*byte));
        Timestamp::from_unix_millis(millis)
    };
    let claims = Claims {
        host,
        destination: DestinationId([numbers[2], numbers[3], address[0], address[15]]),
        issued_at: time(&numbers[4..10]),
        last_seen: time(&numbers[10..16]),
    };
    let form = if flags & 4 == 0 {
        PayloadForm::Sealed
    } else {
        PayloadForm::Signed
    };
    let text = realm().seal(form, &claims, [flags; 4]);
    assert_eq!(text.len(), if host.is_ipv4() { 60 } else { MAX_TEXT_LEN });
    let opened = realm().open(text.as_bytes()).expect("our own token");
    assert_eq!(opened.claims, claims, "a token says what was put into it");
}
