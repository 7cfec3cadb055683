//! Keys in the configuration: one signs, ids are unique, each has 32 bytes.

use limpet_core::config::ConfigWarning;
use limpet_core::keyring::KeyId;
use serde_json::{Value, json};

use crate::base::*;

fn key(id: u8, state: &str) -> Value {
    json!({ "id": id, "inline": INLINE, "state": state })
}

#[test]
fn exactly_one_signs() {
    right(
        "/keys",
        json!([key(1, "signing"), key(2, "verifying"), key(3, "retiring")]),
    );
    right(
        "/keys",
        json!([key(3, "retiring"), key(255, "signing"), key(0, "verifying")]),
    );
    wrong("/keys", json!([]), &["keys"]);
    wrong("/keys", json!([key(1, "verifying"), key(2, "retiring")]), &["keys"]);
    wrong("/keys", json!([key(1, "signing"), key(2, "signing")]), &["keys"]);
    wrong(
        "/keys",
        json!([key(1, "signing"), { "id": 2, "inline": INLINE }]),
        &["keys"],
    );
}

#[test]
fn key_ids_are_unique() {
    wrong("/keys", json!([key(1, "signing"), key(1, "retiring")]), &["keys[1].id"]);
    wrong(
        "/keys",
        json!([key(1, "retiring"), key(2, "signing"), key(1, "verifying")]),
        &["keys[2].id"],
    );
}

#[test]
fn a_key_has_one_source() {
    wrong("/keys/0", json!({ "id": 1 }), &["keys[0]"]);
    wrong(
        "/keys/0",
        json!({ "id": 1, "env": "KEY", "inline": INLINE }),
        &["keys[0]"],
    );
    right("/keys/0", json!({ "id": 1, "env": "KEY" }));
}

#[test]
fn a_revoked_key_has_no_source() {
    let revoked = json!({ "id": 2, "state": "revoked" });
    right(
        "/keys",
        json!([key(1, "signing"), revoked, { "id": 3, "state": "revoked" }]),
    );
    wrong("/keys", json!([revoked]), &["keys"]);
    wrong("/keys", json!([key(2, "signing"), revoked]), &["keys[1].id"]);
    wrong(
        "/keys",
        json!([key(1, "signing"), key(2, "revoked")]),
        &["keys[1].inline"],
    );
    let with_variable = json!({ "id": 2, "env": "KEY", "state": "revoked" });
    wrong("/keys", json!([key(1, "signing"), with_variable]), &["keys[1].env"]);
}

#[test]
fn a_missing_variable_or_one_without_a_key_is_refused() {
    for name in ["UNSET", "SHORT", "EMPTY", ""] {
        wrong("/keys/0", json!({ "id": 1, "env": name }), &["keys[0].env"]);
    }
}

#[test]
fn an_inline_key_has_32_bytes_in_padded_base64() {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
    right("/keys/0/inline", json!(STANDARD.encode([0xfb; 32])));
    right("/keys/0/inline", json!(format!(" {INLINE}\n")));
    for bytes in [0, 1, 16, 31, 33, 34, 35, 48, 64, 1000] {
        wrong(
            "/keys/0/inline",
            json!(STANDARD.encode(vec![7; bytes])),
            &["keys[0].inline"],
        );
    }
    for text in [
        STANDARD_NO_PAD.encode([7; 32]),
        URL_SAFE.encode([0xfb; 32]),
        "%".repeat(44),
        INLINE.replace("8=", "9="),
    ] {
        wrong("/keys/0/inline", json!(text), &["keys[0].inline"]);
    }
}

#[test]
fn every_bad_key_is_reported() {
    let keys = json!([
        { "id": 1, "env": "UNSET" },
        { "id": 2, "inline": "AAEC", "state": "retiring" },
        { "id": 3, "state": "retiring" },
    ]);
    wrong("/keys", keys, &["keys[0].env", "keys[1].inline", "keys[2]"]);
}

#[test]
fn only_an_inline_key_warns() {
    assert_eq!(warnings(&valid()), [ConfigWarning::InlineKey(KeyId(1))]);
    assert_eq!(warnings(&changed(&[("/keys/0", json!({ "id": 1, "env": "KEY" }))])), []);
    let two = json!([key(9, "signing"), { "id": 8, "env": "KEY", "state": "retiring" }, key(7, "retiring")]);
    assert_eq!(
        warnings(&changed(&[("/keys", two)])),
        [ConfigWarning::InlineKey(KeyId(9)), ConfigWarning::InlineKey(KeyId(7))]
    );
}

#[test]
fn a_well_known_name_of_an_applications_session_is_warned_of() {
    let names = |policy: Value| -> Vec<String> {
        let warnings = warnings(&changed(&[
            ("/keys", json!([{"id": 1, "env": "KEY"}])),
            ("/policies/shop", policy),
        ]));
        warnings
            .iter()
            .map(|warning| format!("{}: {warning}", warning.field()))
            .collect()
    };
    for name in ["session", "JSESSIONID", "PHPSESSID", "connect.sid"] {
        let warnings = names(json!({ "cookie": { "name": name } }));
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let start = format!("policies.shop.cookie.name: {name} is the name of a session of the application's own");
        assert!(warnings[0].starts_with(&start), "{warnings:?}");
    }
    assert_eq!(names(json!({ "header": { "name": "Mcp-Session-Id" } })).len(), 1);
    for policy in [
        json!({ "cookie": { "name": "limpet-session" } }),
        json!({ "cookie": { "name": "session", "perScope": true } }),
        json!({ "cookie": { "name": "JSESSIONID", "mode": "prefix" } }),
        json!({ "header": { "name": "x-session" } }),
    ] {
        assert_eq!(names(policy.clone()), [""; 0], "{policy}");
    }
}
