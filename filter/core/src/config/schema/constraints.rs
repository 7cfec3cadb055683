//! Rules of the JSON Schema that the types do not express. `compile` has the same; `tests/schema.rs` compares them.

use schemars::Schema;
use serde_json::{Value, json};

pub(super) const POLICY_NAME: &str = "^[A-Za-z0-9._-]{1,128}$";
/// RFC 9110's `token`.
pub(super) const TOKEN: &str = "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}$";
/// RFC 3986's `unreserved`, which needs no escapes in a query.
pub(super) const PARAMETER: &str = "^[A-Za-z0-9._~-]{1,256}$";
/// Methods are case-sensitive, and all registered ones are in capital letters.
pub(super) const METHOD: &str = "^[A-Z][A-Z-]{0,31}$";
pub(super) const DOMAIN: &str =
    "^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$";

pub(super) fn pattern(pattern: &str) -> Value {
    json!({"pattern": pattern})
}

pub(super) fn exactly_one(fields: &[&str]) -> Value {
    fields.iter().map(|field| json!({"required": [field]})).collect()
}

/// A key with its bytes, or a revoked one without.
pub(super) fn a_source_unless_revoked() -> Value {
    let revoked = json!({"properties": {"state": {"const": "revoked"}}, "required": ["state"]});
    let with = |field: &str| json!({"required": [field], "not": revoked});
    let none = json!({"properties": {"env": {"type": "null"}, "inline": {"type": "null"}}});
    json!([with("env"), with("inline"), {"allOf": [revoked, none]}])
}

/// A key that signs, the default state.
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

/// A token in a query reaches its client by `tell` or in redirects, where it cannot be renewed.
pub(super) fn a_query_is_told_or_redirected() -> Value {
    let redirects = json!({"properties": {"redirects": {"const": true}}, "required": ["redirects"]});
    let tell = json!({"required": ["tell"], "properties": {"tell": {"type": "object"}}});
    json!({
        "if": {"required": ["query"], "not": tell},
        "then": {"properties": {
            "query": redirects,
            "idleTimeout": {"type": "null"},
            "move": {"type": "null"},
            "rebalance": {"type": "null"},
        }},
    })
}

pub(super) fn needs_secure(field: &str, value: &Value) -> Value {
    json!({
        "if": {"properties": {field: {"const": value}}, "required": [field]},
        "then": {"properties": {"secure": {"const": "always"}}, "required": ["secure"]},
    })
}

/// A cookie or header of the application.
fn other_mode() -> Value {
    json!({"properties": {"mode": {"enum": ["prefix", "rewrite"]}}, "required": ["mode"]})
}

/// Adds a rule: in a mode of the application's, every property but `name` and `mode` keeps its default, new ones
/// included.
pub(super) fn only_defaults_in_other_modes(schema: &mut Schema) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let defaults: serde_json::Map<String, Value> = properties
        .into_iter()
        .flatten()
        .filter(|(field, _)| !["name", "mode"].contains(&field.as_str()))
        .map(|(field, property)| match property.get("default") {
            Some(default) => (field.clone(), json!({"const": default})),
            None => (field.clone(), json!({"type": "null"})),
        })
        .collect();
    let rule = json!({"if": other_mode(), "then": {"properties": defaults}});
    let rules = schema.ensure_object().entry("allOf").or_insert_with(|| json!([]));
    if let Value::Array(rules) = rules {
        rules.push(rule);
    }
}

/// A token is sent only when the application sets its cookie or header.
pub(super) fn only_what_needs_no_renewal_in_other_modes() -> Value {
    let in_mode = |carrier: &str| json!({"properties": {carrier: other_mode()}, "required": [carrier]});
    json!({
        "if": {"anyOf": [in_mode("cookie"), in_mode("header")]},
        "then": {"properties": {
            "idleTimeout": {"type": "null"},
            "move": {"type": "null"},
            "rebalance": {"type": "null"},
        }},
    })
}

pub(super) fn cookie_header_or_methods() -> Value {
    let methods = json!({"required": ["methods"], "properties": {"methods": {"minItems": 1}}});
    json!([{"required": ["cookie"]}, {"required": ["header"]}, methods])
}

pub(super) fn cookie_and_header() -> Value {
    json!({"required": ["cookie", "header"]})
}

/// The application begins the session.
pub(super) fn no_begin_in_other_modes() -> Value {
    let in_mode = |carrier: &str| json!({"properties": {carrier: other_mode()}, "required": [carrier]});
    json!({
        "if": {"anyOf": [in_mode("cookie"), in_mode("header")]},
        "then": {"properties": {"begin": {"const": "always"}}},
    })
}

/// Only the filter's own cookie, or an entry of the table, can be taken from a client.
pub(super) fn an_end_needs_a_cookie_or_source() -> Value {
    json!({
        "if": {"anyOf": [
            {"required": ["header"]},
            {"required": ["query"]},
            {"required": ["cookie"], "properties": {"cookie": other_mode()}},
        ]},
        "then": {"properties": {"end": {"type": "null"}}},
    })
}

/// There are no tokens, and `source` has its own timeout.
pub(super) fn nothing_of_tokens_with_source() -> Value {
    json!({
        "if": {"properties": {"source": {"type": "object"}}, "required": ["source"]},
        "then": {"properties": {
            "idleTimeout": {"type": "null"},
            "formerLags": {"maxItems": 0},
            "rebalance": {"type": "null"},
            "also": {"maxItems": 0},
            "tell": {"type": "null"},
            "token": {"const": "sealed"},
            "cacheControl": {"const": "private"},
        }},
    })
}
