//! A valid configuration, and changes of it.

use limpet_core::Filter;
use limpet_core::config::{ConfigError, ConfigWarning, Problem};
use serde_json::{Value, json};

pub(crate) const INLINE: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

pub(crate) fn valid() -> Value {
    json!({
        "keys": [{ "id": 1, "inline": INLINE }],
        "policies": {
            "shop": { "cookie": { "name": "shop" }, "absoluteTimeout": "12h", "idleTimeout": "30m" },
            "api": { "header": { "name": "x-session" } },
        },
        "routes": [{ "route": "r", "policy": "shop" }],
        "default": { "policy": "api" },
        "fences": [{ "address": "10.0.0.7:80", "notBefore": 1_763_718_000 }],
    })
}

/// The valid configuration with these values at these JSON pointers (RFC 6901). New fields are added.
pub(crate) fn changed(changes: &[(&str, Value)]) -> Value {
    let mut config = valid();
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match config.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}")) {
            Value::Object(fields) => drop(fields.insert(name.to_owned(), value.clone())),
            Value::Array(items) => match name.parse::<usize>().unwrap() {
                at if at < items.len() => items[at] = value.clone(),
                _ => items.push(value.clone()),
            },
            other => panic!("{other} has no fields"),
        }
    }
    config
}

pub(crate) fn environment(name: &str) -> Option<String> {
    match name {
        "KEY" => Some(INLINE.to_owned()),
        "SHORT" => Some("AAEC".to_owned()),
        "EMPTY" => Some(String::new()),
        "OTHER" => Some("/".repeat(42) + "8="),
        _ => None,
    }
}

pub(crate) fn load(config: &Value) -> Result<(Filter, Vec<ConfigWarning>), ConfigError> {
    Filter::from_json(config.to_string().as_bytes(), &environment)
}

pub(crate) fn warnings(config: &Value) -> Vec<ConfigWarning> {
    load(config).unwrap().1
}

pub(crate) fn problems(config: &Value) -> Vec<Problem> {
    load(config).err().map(|error| error.problems).unwrap_or_default()
}

pub(crate) fn fields(config: &Value) -> Vec<String> {
    problems(config).into_iter().map(|problem| problem.field).collect()
}

#[track_caller]
pub(crate) fn wrong(pointer: &str, value: Value, expected: &[&str]) {
    assert_eq!(
        fields(&changed(&[(pointer, value.clone())])),
        expected,
        "{pointer} = {value}"
    );
}

#[track_caller]
pub(crate) fn right(pointer: &str, value: Value) {
    wrong(pointer, value, &[]);
}

pub(crate) const NONE: Value = Value::Null;

/// The problems of a policy, without its name.
pub(crate) fn found(policy: Value) -> Vec<String> {
    let problems = problems(&changed(&[("/policies/shop", policy)]));
    let problems = problems.iter().map(ToString::to_string);
    problems
        .map(|problem| problem.trim_start_matches("policies.shop.").to_owned())
        .collect()
}
