//! Sealed keyrings, opened by one of several key-encryption keys.

use std::fmt::Write as _;

use limpet_core::config::ConfigWarning;
use limpet_core::keyring::wrapped::wrap;
use limpet_core::keyring::{KeyEntry, KeyId, KeyState, Secret};
use serde_json::{Value, json};

use crate::base::*;

/// A key whose text appears nowhere else.
const BYTES: [u8; 32] = *b"~sealed~never~shown~sealed~never";

fn entry(id: u8, state: KeyState) -> KeyEntry {
    KeyEntry {
        id: KeyId(id),
        state,
        secret: Some(Secret::new(BYTES)),
    }
}

fn text(id: u8) -> String {
    let keys = [entry(1, KeyState::Retiring), entry(2, KeyState::Signing)];
    wrap(&keys, KeyId(id), &Secret::from_base64(INLINE).unwrap()).unwrap()
}

fn wrapped(text: &str, keys: Value) -> Value {
    let mut config = changed(&[("/wrappedKeys", json!({ "text": text, "keyEncryptionKeys": keys }))]);
    config.as_object_mut().unwrap().remove("keys");
    config
}

fn one() -> Value {
    json!([{ "id": 1, "env": "KEY" }])
}

#[track_caller]
fn refused(config: &Value, field: &str, message: &str) {
    let error = load(config).map(|_| ()).unwrap_err();
    assert_eq!(error.problems.len(), 1, "{error}");
    assert_eq!(error.problems[0].field, field, "{error}");
    assert!(error.problems[0].message.contains(message), "{error}");
}

#[test]
fn the_key_encryption_key_opens_it_without_a_warning() {
    let (_, warnings): (_, Vec<ConfigWarning>) = load(&wrapped(&text(1), one())).unwrap();
    assert_eq!(warnings, []);
}

#[test]
fn other_key_encryption_keys_may_be_missing() {
    for other in ["OTHER", "UNSET", "SHORT"] {
        let keys = json!([{ "id": 1, "env": "KEY" }, { "id": 2, "env": other }]);
        assert!(load(&wrapped(&text(1), keys)).is_ok(), "{other}");
        let keys = json!([{ "id": 1, "env": other }, { "id": 2, "env": "KEY" }]);
        assert!(load(&wrapped(&text(2), keys)).is_ok(), "{other}");
    }
}

#[test]
fn a_keyring_that_does_not_open_says_why() {
    let unknown = wrapped(
        &text(7),
        json!([{ "id": 1, "env": "KEY" }, { "id": 2, "env": "OTHER" }]),
    );
    refused(&unknown, "wrappedKeys.text", "wrapped under key-encryption key 7");
    let second = |env: &str| json!([{ "id": 2, "env": "KEY" }, { "id": 1, "env": env }]);
    let field = "wrappedKeys.keyEncryptionKeys[1].env";
    refused(
        &wrapped(&text(1), second("UNSET")),
        field,
        "expected the variable UNSET in the environment",
    );
    refused(
        &wrapped(&text(1), second("SHORT")),
        field,
        "32 bytes in base64 in the variable SHORT (44 characters; `limpet keys generate` makes one), found 4 \
         characters",
    );
    refused(
        &wrapped(&text(1), second("OTHER")),
        "wrappedKeys.text",
        "of the same id; tried with the variable OTHER",
    );
    for malformed in [
        String::new(),
        "x".to_owned(),
        text(1) + "\n",
        text(1) + "A",
        text(1).replacen('g', "h", 1),
    ] {
        refused(&wrapped(&malformed, one()), "wrappedKeys.text", "malformed");
    }
}

#[test]
fn key_encryption_keys_have_different_ids() {
    let twice = json!([{ "id": 1, "env": "KEY" }, { "id": 2, "env": "OTHER" }, { "id": 1, "env": "OTHER" }]);
    refused(
        &wrapped(&text(1), twice),
        "wrappedKeys.keyEncryptionKeys[2].id",
        "distinct",
    );
    refused(
        &wrapped(&text(1), json!([])),
        "wrappedKeys.keyEncryptionKeys",
        "at least one",
    );
}

#[test]
fn keys_are_either_listed_or_wrapped() {
    let mut both = wrapped(&text(1), one());
    for keys in [json!([{ "id": 1, "env": "KEY" }]), json!([])] {
        both["keys"] = keys;
        refused(&both, "wrappedKeys", "found keys and wrappedKeys");
    }
    both["keys"] = Value::Null;
    assert!(load(&both).is_ok());
    both["wrappedKeys"] = Value::Null;
    refused(&both, "keys", "found none");
}

#[test]
fn keys_that_form_no_keyring_are_not_wrapped() {
    let secret = Secret::from_base64(INLINE).unwrap();
    let signing = |id| entry(id, KeyState::Signing);
    for keys in [
        vec![],
        vec![signing(1), signing(2)],
        vec![entry(1, KeyState::Retiring)],
        vec![signing(1), entry(1, KeyState::Retiring)],
    ] {
        assert!(wrap(&keys, KeyId(1), &secret).is_err(), "{keys:?}");
    }
}

#[test]
fn a_keyring_with_every_id_fits() {
    let keys: Vec<KeyEntry> = (0..=255)
        .map(|id| {
            entry(
                id,
                if id == 9 {
                    KeyState::Signing
                } else {
                    KeyState::Verifying
                },
            )
        })
        .collect();
    let text = wrap(&keys, KeyId(1), &Secret::from_base64(INLINE).unwrap()).unwrap();
    assert_eq!(text.len(), limpet_core::keyring::wrapped::MAX_TEXT_LEN);
    assert!(load(&wrapped(&text, one())).is_ok());
}

#[test]
fn no_error_shows_the_text_and_debug_shows_no_key() {
    let mut shown = String::new();
    let secret = Secret::new(BYTES).to_base64();
    for config in [
        wrapped(&secret, one()),
        wrapped(&text(1), json!([{ "id": 1, "env": *secret }])),
        wrapped(&text(1), json!([{ "id": *secret, "env": "KEY" }])),
        wrapped(&text(1), json!(*secret)),
        wrapped(&text(1), json!([*secret])),
        wrapped(&text(1), json!([{ "id": 1, "env": [*secret] }])),
        changed(&[("/wrappedKeys", json!(*secret))]),
    ] {
        let error = load(&config).map(|_| ()).unwrap_err();
        let _ = writeln!(shown, "{error} {error:?}");
    }
    let (filter, _) = load(&wrapped(&text(1), one())).unwrap();
    let opened = limpet_core::keyring::wrapped::WrappedKeyring::parse(&text(1)).unwrap();
    let opened = opened.open(&Secret::from_base64(INLINE).unwrap()).unwrap();
    let _ = writeln!(shown, "{filter:?} {opened:?}");
    for spelling in [&secret[..8], "~sealed", "7e7365", "126, 115"] {
        assert!(!shown.contains(spelling), "{shown}");
    }
    assert!(shown.contains("Secret(..)"), "{shown}");
}
