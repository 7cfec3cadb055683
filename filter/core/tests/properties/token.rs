//! Tokens contain their claims. The other modules use these strategies and helpers.

use std::net::{IpAddr, SocketAddr};

use limpet_core::keyring::{Key, KeyId, KeyState, Keyring, Secret};
use limpet_core::time::Timestamp;
use limpet_core::token::{CarrierMode, Claims, DestinationId, MAX_TEXT_LEN, PayloadForm, Realm, UnverifiedToken};
use proptest::prelude::*;

pub(crate) const KEY: KeyId = KeyId(5);
pub(crate) const SECRET: [u8; 32] = [0x5a; 32];

pub(crate) fn realm_of(id: KeyId, secret: [u8; 32], scope: &[u8], mode: CarrierMode, name: &str) -> Realm {
    let key = Key::new(id, KeyState::Signing, &Secret::new(secret));
    Realm::new(&Keyring::new(vec![key]).unwrap(), scope, mode, name)
}

pub(crate) fn realm() -> Realm {
    realm_of(KEY, SECRET, b"scope", CarrierMode::Cookie, "session")
}

pub(crate) fn form() -> impl Strategy<Value = PayloadForm> {
    prop_oneof![Just(PayloadForm::Sealed), Just(PayloadForm::Signed)]
}

pub(crate) fn claims() -> impl Strategy<Value = Claims> {
    let host = any::<(IpAddr, u16)>().prop_map(SocketAddr::from);
    let time = || (0..=Timestamp::MAX.unix_millis()).prop_map(Timestamp::from_unix_millis);
    (host, any::<[u8; 4]>(), time(), time()).prop_map(|(host, destination, issued_at, last_seen)| Claims {
        host,
        destination: DestinationId(destination),
        issued_at,
        last_seen,
    })
}

pub(crate) fn token() -> impl Strategy<Value = String> {
    (form(), claims(), any::<[u8; 4]>()).prop_map(|(form, claims, nonce)| realm().seal(form, &claims, nonce))
}

pub(crate) fn example() -> Claims {
    Claims {
        host: SocketAddr::from(([10, 1, 2, 3], 8080)),
        destination: DestinationId::of_cluster(b"backends"),
        issued_at: Timestamp::from_unix_seconds(1_763_718_000),
        last_seen: Timestamp::from_unix_seconds(1_763_718_060),
    }
}

pub(crate) fn examples() -> Vec<String> {
    let hosts = ["10.1.2.3:8080", "[2001:db8::1]:443"].map(|host| host.parse().unwrap());
    let forms = [PayloadForm::Sealed, PayloadForm::Signed];
    let pairs = hosts.into_iter().flat_map(|host| forms.map(|form| (host, form)));
    pairs
        .map(|(host, form)| realm().seal(form, &Claims { host, ..example() }, [1, 2, 3, 4]))
        .collect()
}

proptest! {
    #[test]
    fn a_token_contains_its_claims(form in form(), claims in claims(), nonce: [u8; 4]) {
        let token = realm().seal(form, &claims, nonce);
        let opened = realm().open(token.as_bytes()).unwrap();
        prop_assert_eq!(opened.claims, claims);
        prop_assert!(!opened.key_retiring);
    }

    #[test]
    fn a_token_has_one_of_two_lengths_and_a_safe_alphabet(token in token()) {
        let opened = realm().open(token.as_bytes()).unwrap();
        let length = if opened.claims.host.is_ipv4() { 60 } else { MAX_TEXT_LEN };
        prop_assert_eq!(token.len(), length);
        prop_assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
    }

    #[test]
    fn the_nonce_makes_tokens_of_equal_claims_different(form in form(), claims in claims(), a: [u8; 4], b: [u8; 4]) {
        prop_assert_eq!(realm().seal(form, &claims, a) == realm().seal(form, &claims, b), a == b);
    }

    #[test]
    fn without_a_key_only_a_signed_token_can_be_read(form in form(), claims in claims(), nonce: [u8; 4]) {
        let token = realm().seal(form, &claims, nonce);
        let seen = UnverifiedToken::parse(token.as_bytes()).unwrap();
        prop_assert_eq!((seen.form, seen.key_id), (form, KEY));
        prop_assert_eq!(seen.claims, (form == PayloadForm::Signed).then_some(claims));
    }
}
