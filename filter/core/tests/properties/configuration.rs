//! Any input is accepted, or refused with a field and a message, without a panic.

use limpet_core::Filter;
use limpet_core::config::{self, ConfigError, Environment};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

const NO_ENVIRONMENT: Environment<'static> = &|_| None;

/// Uses every field.
fn full() -> Value {
    json!({
        "keys": [
            { "id": 1, "inline": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "state": "signing" },
            { "id": 2, "inline": "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=", "state": "retiring" },
        ],
        "policies": {
            "shop": {
                "cookie": {
                    "name": "shop", "path": "/shop", "domain": "example.com", "secure": "always", "httpOnly": false,
                    "sameSite": "None", "partitioned": true, "lifetimeType": "Permanent", "forward": true,
                },
                "strict": true, "strictStatus": 421, "absoluteTimeout": "12h", "idleTimeout": "30m",
                "token": "signed", "cacheControl": "keep",
            },
            "api": { "header": { "name": "X-Session", "forward": true } },
            "ip": { "source": { "prefixV4": 24, "prefixV6": 48, "timeout": "1h", "entries": 1000 } },
        },
        "routes": [{ "route": "r", "virtualHost": "v", "policy": "shop", "scope": "s" }],
        "default": { "policy": "api", "scope": "all" },
        "accessLog": true, "maxIdle": "24h", "clockSkew": "30s",
        "fences": [{ "address": "10.0.0.7:80", "notBefore": 1_763_718_000 }],
    })
}

/// The JSON pointer of every value in a document, including itself.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    out.push(at.to_owned());
    match value {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                places(item, &format!("{at}/{i}"), out);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                places(field, &format!("{at}/{name}"), out);
            }
        }
        _ => {}
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "[0-9hms]{1,6}|__Host-|/|None|always|[0-9.:]{1,9}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn says_what_is_wrong(error: &ConfigError) -> Result<(), TestCaseError> {
    prop_assert!(!error.problems.is_empty());
    for problem in &error.problems {
        prop_assert!(!problem.field.is_empty() && !problem.message.is_empty(), "{problem:?}");
    }
    Ok(())
}

fn take(json: &[u8]) -> Result<(), TestCaseError> {
    match config::parse(json) {
        Err(error) => says_what_is_wrong(&error),
        Ok(parsed) => {
            let written = serde_json::to_vec(&parsed).unwrap();
            let read_again = config::parse(&written);
            prop_assert_eq!(read_again, Ok(parsed.clone()), "written again it is another");
            match Filter::new(&parsed, NO_ENVIRONMENT) {
                Err(error) => says_what_is_wrong(&error),
                Ok(_) => Ok(()),
            }
        }
    }
}

#[test]
fn a_configuration_with_every_field_is_accepted() {
    Filter::from_json(full().to_string().as_bytes(), NO_ENVIRONMENT).unwrap();
    take(full().to_string().as_bytes()).unwrap();
}

proptest! {
    #[test]
    fn any_bytes(bytes: Vec<u8>) {
        take(&bytes)?;
    }

    #[test]
    fn any_json_document(value in any_json()) {
        take(value.to_string().as_bytes())?;
    }

    #[test]
    fn any_value_in_any_place(value in any_json(), place: Index) {
        let mut document = full();
        let mut all = Vec::new();
        places(&document, "", &mut all);
        *document.pointer_mut(&all[place.index(all.len())]).unwrap() = value;
        take(document.to_string().as_bytes())?;
    }

    #[test]
    fn any_byte_in_any_place(byte: u8, at: Index) {
        let mut document = full().to_string().into_bytes();
        let at = at.index(document.len());
        document[at] = byte;
        take(&document)?;
    }

    #[test]
    fn any_cut(at: Index) {
        let document = full().to_string();
        take(&document.as_bytes()[..at.index(document.len())])?;
    }
}
