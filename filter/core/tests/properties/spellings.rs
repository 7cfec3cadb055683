//! A token has one spelling. Any text that differs is refused.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use limpet_core::keyring::KeyId;
use limpet_core::token::TokenRefusal::{self, BadSignature, Malformed, UnknownKey};
use limpet_core::token::{CarrierMode, UnverifiedToken};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::token::{examples, realm, realm_of, token};

fn open(text: &[u8]) -> Result<(), TokenRefusal> {
    realm().open(text).map(|_| ())
}

fn expected(at: usize, byte: u8) -> TokenRefusal {
    match (at, byte) {
        (0, 0x10 | 0x11) => BadSignature,
        (0, _) => Malformed,
        (1, _) => UnknownKey,
        _ => BadSignature,
    }
}

#[test]
fn every_flipped_bit_is_refused() {
    for token in examples() {
        let bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let refusal = expected(bit / 8, changed[bit / 8]);
            let text = URL_SAFE_NO_PAD.encode(changed);
            assert_eq!(open(text.as_bytes()), Err(refusal), "bit {bit} of {token}: {text}");
        }
    }
}

/// Takes seconds: each byte at each place of each example.
#[test]
fn every_other_character_in_any_place_is_refused() {
    for token in examples() {
        for at in 0..token.len() {
            for byte in (0..=255).filter(|byte| *byte != token.as_bytes()[at]) {
                let mut changed = token.clone().into_bytes();
                changed[at] = byte;
                assert!(open(&changed).is_err(), "byte {byte} at {at} of {token} opens");
            }
        }
    }
}

#[test]
fn every_truncation_is_malformed() {
    for token in examples() {
        for at in 0..token.len() {
            // A long token that is cut to the length of a short one has a bad signature.
            let refusal = |text: &str| match text.len() {
                60 => open(text.as_bytes()).is_err(),
                _ => open(text.as_bytes()) == Err(Malformed),
            };
            assert!(refusal(&token[..at]), "the first {at} of {token}");
            assert!(refusal(&token[at + 1..]), "all behind {at} of {token}");
        }
    }
}

/// Takes seconds: as above.
#[test]
fn every_extension_by_a_byte_is_malformed() {
    for token in examples() {
        for at in 0..=token.len() {
            for byte in 0..=255 {
                let mut longer = token.clone().into_bytes();
                longer.insert(at, byte);
                assert_eq!(open(&longer), Err(Malformed), "byte {byte} at {at} of {token}");
            }
        }
    }
}

#[test]
fn other_spellings_of_the_same_bytes_are_malformed() {
    for token in examples() {
        let spellings = [
            format!("{token}="),
            format!("{token}=="),
            format!("\"{token}\""),
            format!(" {token}"),
            format!("{token}\r\n"),
            format!("{token}%3D"),
            token.bytes().map(|b| format!("%{b:02X}")).collect::<String>(),
            token.repeat(2),
        ];
        for spelling in spellings {
            assert_eq!(open(spelling.as_bytes()), Err(Malformed), "{spelling:?}");
        }
    }
}

/// Version 1 never writes these tokens, which need the key; `verify_vectors.py` made them.
#[test]
fn a_bad_payload_is_malformed_although_it_is_signed() {
    let realm = realm_of(KeyId(1), [1; 32], b"scope", CarrierMode::Cookie, "session");
    let ipv6_in_an_ipv4_length = "EQFKxz3WzUEY558LYQw0MpM0AQoAAAEfkNj5tooBmqXI7YABmqXJ1-ABAgME";
    let unknown_kind = "EQFKjx9dOazc0FOz1Nrf1SBdgAoAAAEfkNj5tooBmqXI7YABmqXJ1-ABAgME";
    for token in [ipv6_in_an_ipv4_length, unknown_kind] {
        assert_eq!(realm.open(token.as_bytes()).unwrap_err(), Malformed, "{token}");
        assert_eq!(UnverifiedToken::parse(token.as_bytes()), Err(Malformed), "{token}");
    }
}

proptest! {
    #[test]
    fn any_flipped_bit_is_refused(token in token(), bit: Index) {
        let mut bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let refusal = expected(bit / 8, bytes[bit / 8]);
        prop_assert_eq!(open(URL_SAFE_NO_PAD.encode(bytes).as_bytes()), Err(refusal));
    }

    #[test]
    fn any_replaced_bytes_are_refused(token in token(), from: Index, bytes: Vec<u8>) {
        let mut changed = token.clone().into_bytes();
        let from = from.index(changed.len());
        let until = changed.len().min(from + bytes.len());
        changed.splice(from..until, bytes);
        prop_assert_eq!(open(&changed).is_ok(), changed == token.as_bytes());
    }

    #[test]
    fn the_standard_alphabet_is_malformed(token in token()) {
        let standard = token.replace('-', "+").replace('_', "/");
        let refused = open(standard.as_bytes()) == Err(Malformed);
        prop_assert_eq!(refused, standard != token);
    }

    #[test]
    fn an_unsigned_token_is_refused(bytes: Vec<u8>, payload in prop::collection::vec(any::<u8>(), 39)) {
        prop_assert_eq!(open(&bytes), Err(Malformed));
        // With the right head and length, only the tag is wrong.
        for (form, len) in [(0x10, 27), (0x11, 27), (0x10, 39), (0x11, 39)] {
            let bytes = [&[form, 5][..], &[0; 16], &payload[..len]].concat();
            prop_assert_eq!(open(URL_SAFE_NO_PAD.encode(bytes).as_bytes()), Err(BadSignature));
        }
    }

    #[test]
    fn reading_without_a_key_never_panics(text: Vec<u8>, token in token(), at: Index, byte: u8) {
        let _ = UnverifiedToken::parse(&text);
        let mut changed = token.into_bytes();
        let at = at.index(changed.len());
        changed[at] = byte;
        let _ = UnverifiedToken::parse(&changed);
    }
}
