//! Keyring documents, which contain secrets.

use limpet_core::config::{self, KeyringDocument};
use limpet_core::keyring::{KeyId, KeyState};
use serde_json::{Value, json};

use crate::base::*;

/// A key whose text appears nowhere else.
const SECRET: &str = "fmRvY3VtZW50fm5ldmVyfnNob3dufmRvY3VtZW50fn4=";

fn document() -> Value {
    json!({"keys": [
        {
            "id": 1, "state": "retiring", "secret": INLINE,
            "created": "2026-01-31T12:00:00Z", "since": "2026-02-01T12:00:00Z",
        },
        {"id": 2, "state": "signing", "secret": SECRET},
    ]})
}

fn parse(document: &Value) -> Result<KeyringDocument, config::ConfigError> {
    KeyringDocument::parse(document.to_string().as_bytes())
}

#[test]
fn a_document_is_read_and_written() {
    let parsed = parse(&document()).unwrap();
    let entries = parsed.entries();
    assert_eq!((entries[0].id, entries[0].state), (KeyId(1), KeyState::Retiring));
    assert_eq!((entries[1].id, entries[1].state), (KeyId(2), KeyState::Signing));
    assert_eq!(*entries[1].secret.as_ref().unwrap().to_base64(), SECRET);
    assert_eq!(serde_json::to_value(&parsed).unwrap(), document());
}

#[test]
fn a_revoked_key_is_an_id_without_a_secret() {
    let mut revoked = document();
    revoked["keys"][0] = json!({"id": 1, "state": "revoked", "since": "2026-02-01T12:00:00Z"});
    let parsed = parse(&revoked).unwrap();
    assert_eq!(serde_json::to_value(&parsed).unwrap(), revoked);
    let keyring = parsed.keyring().unwrap();
    assert!(keyring.others().is_empty() && keyring.revoked().contains(&KeyId(1)));
}

#[test]
fn a_mistake_is_named_by_its_field_and_no_secret_is_shown() {
    for (pointer, value, field) in [
        ("/keys", json!([]), "keys"),
        ("/keys", json!(SECRET), "keys"),
        (
            "/keys/1",
            json!({"id": 1, "state": "signing", "secret": SECRET}),
            "keys",
        ),
        ("/keys/1/state", json!("verifying"), "keys"),
        ("/keys/1/state", json!(SECRET), "keys[1].state"),
        ("/keys/1/id", json!(SECRET), "keys[1].id"),
        ("/keys/1/secret", json!(format!("x{SECRET}")), "keys[1].secret"),
        ("/keys/1/secret", json!([SECRET]), "keys[1].secret"),
        ("/keys/1", json!({"id": 2, "state": "signing"}), "keys[1].secret"),
        (
            "/keys/0",
            json!({"id": 1, "state": "revoked", "secret": SECRET}),
            "keys[0].secret",
        ),
        ("/keys/1/inline", json!(SECRET), "keys[1].inline"),
        ("/keys/1", json!(SECRET), "keys[1]"),
        ("/key", json!(SECRET), "key"),
    ] {
        let mut changed = document();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match changed.pointer_mut(parent).unwrap() {
            Value::Array(items) => items[name.parse::<usize>().unwrap()] = value,
            parent => parent[name] = value,
        }
        let error = parse(&changed).unwrap_err();
        assert_eq!(error.problems[0].field, field, "{error}");
        let shown = format!("{error} {error:?} {:?}", parse(&document()));
        assert!(!shown.contains(&SECRET[..8]), "{shown}");
    }
    for text in ["", "null", "[]", "{\"keys\": []} x", "{", SECRET] {
        assert_eq!(
            KeyringDocument::parse(text.as_bytes()).unwrap_err().problems[0].field,
            if text.ends_with('x') || !text.starts_with("{\"") {
                "keyring"
            } else {
                "keys"
            },
            "{text:?}"
        );
    }
}

#[test]
fn the_policy_with_the_longest_timeout_determines_longest_life() {
    let life = |policies: Value| {
        let config = json!({"keys": [], "policies": policies, "maxIdle": "10h", "clockSkew": "30s"});
        config::longest_life(&config::parse(config.to_string().as_bytes()).unwrap()).as_secs()
    };
    let hours = |hours: u64| hours * 3960 + 30;
    let cookie = json!({"name": "s"});
    assert_eq!(life(json!({})), hours(10));
    assert_eq!(life(json!({"a": {"cookie": cookie}})), hours(10));
    assert_eq!(life(json!({"a": {"cookie": cookie, "idleTimeout": "2h"}})), hours(2));
    assert_eq!(
        life(json!({"a": {"cookie": cookie, "absoluteTimeout": "20h"}})),
        hours(20)
    );
    let both = json!({"cookie": cookie, "absoluteTimeout": "20h", "idleTimeout": "1h"});
    assert_eq!(life(json!({"a": both})), hours(1));
    let shorter = json!({"cookie": cookie, "idleTimeout": "3h"});
    assert_eq!(life(json!({"a": both, "b": shorter})), hours(3));
    let lagging = json!([{"lag": "5h", "until": 7}]);
    let lagging = json!({"cookie": cookie, "idleTimeout": "1h", "formerLags": lagging});
    assert_eq!(life(json!({"a": lagging, "b": shorter})), 6 * 3600 + 30);
}

#[test]
fn sessions_are_counted_by_what_bounds_their_idleness() {
    let config = json!({
        "keys": [],
        "maxIdle": "10h",
        "policies": {
            "absolute": { "cookie": { "name": "a" }, "absoluteTimeout": "2h" },
            "both": { "cookie": { "name": "b" }, "absoluteTimeout": "2h", "idleTimeout": "1500ms" },
            "neither": { "cookie": { "name": "c" } },
            "source": { "source": { "timeout": "7m" } },
        },
    });
    let config = config::parse(config.to_string().as_bytes()).unwrap();
    let seconds = config
        .policies
        .values()
        .map(|policy| config::live_for(policy, config.max_idle));
    assert_eq!(seconds.collect::<Vec<_>>(), [7_200, 2, 36_000, 420]);
}
