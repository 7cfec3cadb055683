//! No error shows a key, wherever it was put by mistake, and neither does Debug.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use limpet_core::config;
use limpet_core::keyring::{Key, KeyId, KeyState, Keyring, Secret};
use limpet_core::token::{CarrierMode, Realm};
use serde_json::{Value, json};

use crate::base::*;

/// A key whose text appears nowhere else.
const BYTES: [u8; 32] = *b"~never~shown~never~shown~never~~";

fn secret() -> String {
    STANDARD.encode(BYTES)
}

/// Whether `text` shows a part of the key, in base64, as text, in hex or as a list of numbers.
fn shows(text: &str) -> bool {
    let hex: String = BYTES.iter().map(|byte| format!("{byte:02x}")).collect();
    let numbers = format!("{:?}", &BYTES[..4]);
    let spellings = [&secret()[..8], "~never", &hex[..8], numbers.trim_matches(['[', ']'])];
    spellings
        .iter()
        .any(|spelling| text.to_lowercase().contains(&spelling.to_lowercase()))
}

fn from_environment(name: &str) -> Option<String> {
    Some(match name {
        "GOOD" => secret(),
        "LONG" => format!("{}AA", secret()),
        "RAW" => String::from_utf8(BYTES.to_vec()).unwrap(),
        _ => return None,
    })
}

fn errors(config: &Value) -> String {
    let text = config.to_string();
    let error = limpet_core::Filter::from_json(text.as_bytes(), &from_environment).map(|_| ());
    let error = error.expect_err("a mistake");
    format!("{error} {error:?}")
}

#[test]
fn these_tests_would_find_a_key() {
    assert!(shows(&secret()) && shows(&format!("{BYTES:?}")) && shows("...~never~shown..."));
}

#[test]
fn a_malformed_key_is_not_shown() {
    for inline in [
        format!("{}AA", secret()),
        secret()[..40].to_owned(),
        secret().trim_end_matches('=').to_owned(),
        String::from_utf8(BYTES.to_vec()).unwrap(),
        format!("base64:{}", secret()),
    ] {
        let shown = errors(&changed(&[("/keys/0/inline", json!(inline))]));
        assert!(!shows(&shown), "{shown}");
    }
    for name in ["LONG", "RAW"] {
        let shown = errors(&changed(&[("/keys/0", json!({ "id": 1, "env": name }))]));
        assert!(!shows(&shown), "{shown}");
    }
}

#[test]
fn a_key_beside_another_mistake_is_not_shown() {
    let key = json!({ "id": 1, "inline": secret() });
    for (pointer, value) in [
        ("/policies/shop/strictStatus", json!(7)),
        ("/keys/1", json!({ "id": 1, "inline": secret() })),
        ("/keys/0/env", json!("GOOD")),
        ("/keys/0/state", json!("verifying")),
        ("/keys/0/unknown", json!(1)),
    ] {
        let shown = errors(&changed(&[("/keys/0", key.clone()), (pointer, value)]));
        assert!(!shows(&shown), "{shown}");
    }
}

#[test]
fn a_key_in_the_wrong_field_is_not_shown() {
    for (pointer, value) in [
        ("/keys", json!(secret())),
        ("/keys", json!([secret()])),
        ("/keys", json!({ "1": secret() })),
        ("/keys/0/id", json!(secret())),
        ("/keys/0/state", json!(secret())),
        ("/keys/0/inline", json!([secret()])),
        ("/keys/0/inline", json!({ "key": secret() })),
    ] {
        let shown = errors(&changed(&[(pointer, value.clone())]));
        assert!(!shows(&shown), "{pointer} = {value}: {shown}");
    }
}

#[test]
fn a_key_in_place_of_a_variable_name_is_not_shown() {
    let shown = errors(&changed(&[("/keys/0", json!({ "id": 1, "env": secret() }))]));
    assert!(!shows(&shown), "{shown}");
}

#[test]
fn debug_shows_no_key() {
    let config = changed(&[(
        "/keys",
        json!([{ "id": 1, "inline": secret() }, { "id": 2, "env": "GOOD", "state": "retiring" }]),
    )]);
    let parsed = config::parse(config.to_string().as_bytes()).unwrap();
    let (filter, warnings) = limpet_core::Filter::new(&parsed, &from_environment).unwrap();
    let key = |id| Key::new(KeyId(id), KeyState::Signing, &Secret::new(BYTES));
    let keyring = Keyring::new(vec![key(1)]).unwrap();
    let realm = Realm::new(&keyring, b"scope", CarrierMode::Cookie, "session");
    let shown = [
        format!("{parsed:?} {parsed:#?}"),
        format!("{filter:?} {filter:#?}"),
        format!("{warnings:?} {}", warnings[0]),
        format!("{:?} {:?} {keyring:#?} {realm:#?}", Secret::new(BYTES), key(2)),
    ];
    for shown in shown {
        assert!(!shows(&shown), "{shown}");
    }
}
