//! What the types alone do not say, for the schema. `compile` has the last word; the schema's test compares the two.

use serde_json::{Value, json};

pub(super) const POLICY_NAME: &str = "^[A-Za-z0-9._-]{1,128}$";
/// RFC 9110's `token`.
pub(super) const TOKEN: &str = "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$";
pub(super) const DOMAIN: &str =
    "^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$";

pub(super) fn pattern(pattern: &str) -> Value {
    json!({"pattern": pattern})
}

pub(super) fn exactly_one(fields: &[&str]) -> Value {
    fields.iter().map(|field| json!({"required": [field]})).collect()
}

/// A key without a state signs.
pub(super) fn one_signs() -> Value {
    json!({"properties": {"state": {"const": "signing"}}})
}

pub(super) fn permanent_needs_a_timeout() -> Value {
    let permanent = json!({"properties": {"lifetimeType": {"const": "Permanent"}}, "required": ["lifetimeType"]});
    json!({
        "if": {"properties": {"cookie": permanent}, "required": ["cookie"]},
        "then": {"required": ["absoluteTimeout"]},
    })
}

pub(super) fn needs_secure(field: &str, value: &Value) -> Value {
    json!({
        "if": {"properties": {field: {"const": value}}, "required": [field]},
        "then": {"properties": {"secure": {"const": "always"}}, "required": ["secure"]},
    })
}

/// A mode in which cookie or header are the application's.
fn other_mode() -> Value {
    json!({"properties": {"mode": {"enum": ["prefix", "rewrite"]}}, "required": ["mode"]})
}

pub(super) fn nothing_else_in_other_modes() -> Value {
    let bare = serde_json::to_value(super::policy::CookieConfig::named("")).unwrap_or_default();
    // Written or left out as they are by default; what the default leaves out is `false`, or nothing at all.
    let mut constants: serde_json::Map<String, Value> = ["path", "secure", "sameSite", "lifetimeType"]
        .into_iter()
        .map(|field| (field.to_owned(), json!({"const": bare.get(field)})))
        .collect();
    for field in ["partitioned", "perScope", "forward"] {
        constants.insert(field.to_owned(), json!({"const": false}));
    }
    constants.insert("httpOnly".to_owned(), json!({"const": true}));
    constants.insert("domain".to_owned(), json!({"type": "null"}));
    json!({"if": other_mode(), "then": {"properties": constants}})
}

pub(super) fn no_forward_in_other_modes() -> Value {
    json!({"if": other_mode(), "then": {"properties": {"forward": {"const": false}}}})
}

pub(super) fn no_idle_timeout_in_other_modes() -> Value {
    let in_mode = |carrier: &str| json!({"properties": {carrier: other_mode()}, "required": [carrier]});
    json!({
        "if": {"anyOf": [in_mode("cookie"), in_mode("header")]},
        "then": {"properties": {"idleTimeout": {"type": "null"}}},
    })
}
