//! The JSON of a configuration: types, unknown fields, durations.

use limpet_core::config;
use serde_json::{Value, json};

use crate::base::*;

#[test]
fn a_valid_configuration_is_accepted() {
    let (filter, _) = load(&valid()).unwrap();
    assert_eq!(filter.policies().collect::<Vec<_>>(), ["api", "shop"]);
}

#[test]
fn a_text_that_is_not_json_is_refused_as_a_whole() {
    for text in ["", " ", "nonsense", "null", "[]", "7", "\"text\"", "\u{feff}{}"] {
        let error = config::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error.problems.len(), 1, "{text:?}");
        assert_eq!(error.problems[0].field, "configuration", "{text:?}");
    }
    assert!(config::parse(&[0xff]).is_err());
}

#[test]
fn a_text_that_is_only_a_key_is_not_repeated() {
    let error = config::parse(json!(INLINE).to_string().as_bytes())
        .unwrap_err()
        .to_string();
    assert!(!error.contains(INLINE), "{error}");
}

#[test]
fn nothing_may_follow_the_document() {
    let text = valid().to_string();
    assert!(config::parse(format!("{text} \n").as_bytes()).is_ok());
    for rest in ["x", "}", "{}", ",", "\0"] {
        let error = config::parse(format!("{text}{rest}").as_bytes()).expect_err(rest);
        assert_eq!(error.problems[0].field, "configuration", "{rest:?}");
    }
}

#[test]
fn a_missing_field_is_reported_for_its_object() {
    for (missing, field) in [("keys", "keys"), ("policies", "configuration")] {
        let mut config = valid();
        config.as_object_mut().unwrap().remove(missing);
        assert_eq!(fields(&config), [field], "{missing}");
        let message = load(&config).unwrap_err().to_string();
        assert!(message.contains(missing), "{message}");
    }
    wrong("/policies/shop/cookie", json!({}), &["policies.shop.cookie"]);
    wrong("/keys/0", json!({ "inline": INLINE }), &["keys[0]"]);
    wrong("/routes/0", json!({ "route": "r" }), &["routes[0]"]);
    wrong("/fences/0", json!({ "address": "10.0.0.1" }), &["fences[0]"]);
    wrong("/default", json!({}), &["default"]);
}

#[test]
fn unknown_fields_are_refused_by_their_path() {
    for (parent, path) in [
        ("", ""),
        ("/keys/0", "keys[0]."),
        ("/policies/shop", "policies.shop."),
        ("/policies/shop/cookie", "policies.shop.cookie."),
        ("/policies/api/header", "policies.api.header."),
        ("/routes/0", "routes[0]."),
        ("/default", "default."),
        ("/fences/0", "fences[0]."),
    ] {
        wrong(
            &format!("{parent}/idletimeout"),
            json!("1h"),
            &[&format!("{path}idletimeout")],
        );
    }
}

#[test]
fn a_word_that_is_no_text_names_the_words() {
    let mut config = valid();
    config["policies"]["shop"]["cookie"]["mode"] = json!({});
    let message = load(&config).unwrap_err().to_string();
    assert_eq!(
        message,
        "policies.shop.cookie.mode: invalid type: map, expected one of `insert`, `prefix`, `rewrite`"
    );
}

#[test]
fn no_message_has_words_of_rust() {
    for (path, value, expected) in [
        (
            "/keys/0/id",
            json!(300),
            "keys[0].id: expected a whole number from 0 to 255",
        ),
        ("/fences", json!({}), "fences: invalid type: map, expected a list"),
        (
            "/policies",
            json!([]),
            "policies: invalid type: sequence, expected an object",
        ),
        (
            "/policies/shop",
            json!(5),
            "policies.shop: invalid type: integer `5`, expected an object",
        ),
    ] {
        let mut config = valid();
        *config.pointer_mut(path).unwrap() = value;
        assert_eq!(load(&config).unwrap_err().to_string(), expected);
    }
}

#[test]
fn no_mistake_hides_another() {
    let config = json!({
        "keys": [7, {"id": 1, "env": "A", "state": []}, {"id": "x", "inline": true}, {}],
        "policies": {
            "a": {"cookie": {"name": "a", "mode": {}, "path": 7}, "strict": "no"},
            "b": {"cookie": {"nam": "b", "sameSite": 1}},
            "c": 5,
            "d": {"cookie": {"name": "a b"}, "strictStatus": 200},
        },
        "routes": [{"route": 1}, {"route": "r", "policy": "d", "scop": "x"}],
        "maxIdle": "1x",
    });
    let found = config::parse(config.to_string().as_bytes()).unwrap_err();
    let mut found: Vec<&str> = found.problems.iter().map(|problem| &*problem.field).collect();
    found.sort_unstable();
    let expected = [
        "keys[0]",
        "keys[1].state",
        "keys[2].id",
        "keys[2].inline",
        "keys[3]",
        "maxIdle",
        "policies.a.cookie.mode",
        "policies.a.cookie.path",
        "policies.a.strict",
        "policies.b.cookie.nam",
        "policies.b.cookie.sameSite",
        "policies.c",
        "policies.d.cookie.name",
        "policies.d.strictStatus",
        "routes[0].route",
        "routes[1].scop",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_mistake_is_not_told_again_by_what_follows_from_it() {
    let one = |config: Value| {
        let found = config::parse(config.to_string().as_bytes()).unwrap_err();
        assert_eq!(found.problems.len(), 1, "{found}");
    };
    let keys = json!([{"id": 1, "env": "A"}]);
    one(json!({"keys": keys, "policies": {"a": {"cookie": {"nam": "a"}}}}));
    one(json!({"keys": keys, "policies": {"a": {"cookie": 7}}}));
    one(json!({"keys": keys, "policies": {"a": 7}, "default": {"policy": "a"}}));
    one(json!({"keys": keys, "polcies": {}}));
    one(json!({
        "keys": keys,
        "policies": {"a": {"cookie": {"name": "a", "lifetimeType": "Permanent"}, "absolutTimeout": "1h"}},
    }));
}

#[test]
fn a_field_given_twice_is_refused() {
    let twice = valid()
        .to_string()
        .replacen('{', "{\"maxIdle\":\"1h\",\"maxIdle\":\"2h\",", 1);
    let problem = &config::parse(twice.as_bytes()).unwrap_err().problems[0];
    assert_eq!(problem.to_string(), "maxIdle: duplicate field `maxIdle`");
}

#[test]
fn a_policy_given_twice_is_refused() {
    let policy = r#""api": { "header": { "name": "x-other" } }, "#;
    let twice = valid()
        .to_string()
        .replacen("\"policies\":{", &format!("\"policies\":{{{policy}"), 1);
    assert!(twice.contains("x-other") && twice.contains("x-session"));
    let error = config::parse(twice.as_bytes()).expect_err("which of the two is meant?");
    assert!(error.problems[0].field.starts_with("policies"), "{error}");
}

#[test]
fn wrong_types_are_refused_by_their_path() {
    for (pointer, value, field) in [
        ("/keys", json!({}), "keys"),
        ("/keys/0/id", json!("1"), "keys[0].id"),
        ("/keys/0/id", json!(256), "keys[0].id"),
        ("/keys/0/id", json!(-1), "keys[0].id"),
        ("/keys/0/id", json!(1.5), "keys[0].id"),
        ("/keys/0/state", json!("Signing"), "keys[0].state"),
        ("/keys/0/inline", json!(7), "keys[0].inline"),
        ("/policies", json!([]), "policies"),
        ("/policies/shop", json!("x"), "policies.shop"),
        ("/policies/shop/strict", json!("yes"), "policies.shop.strict"),
        (
            "/policies/shop/strictStatus",
            json!("503"),
            "policies.shop.strictStatus",
        ),
        (
            "/policies/shop/strictStatus",
            json!(65536),
            "policies.shop.strictStatus",
        ),
        ("/policies/shop/token", json!("plain"), "policies.shop.token"),
        (
            "/policies/shop/cacheControl",
            json!("public"),
            "policies.shop.cacheControl",
        ),
        (
            "/policies/shop/cookie/secure",
            json!(true),
            "policies.shop.cookie.secure",
        ),
        (
            "/policies/shop/cookie/sameSite",
            json!("strict"),
            "policies.shop.cookie.sameSite",
        ),
        (
            "/policies/shop/cookie/lifetimeType",
            json!("permanent"),
            "policies.shop.cookie.lifetimeType",
        ),
        (
            "/policies/shop/cookie/httpOnly",
            json!(1),
            "policies.shop.cookie.httpOnly",
        ),
        ("/policies/api/header/name", NONE, "policies.api.header.name"),
        ("/routes", json!({}), "routes"),
        ("/routes/0/route", json!(1), "routes[0].route"),
        ("/accessLog", json!("yes"), "accessLog"),
        ("/fences/0/notBefore", json!("2026-11-21"), "fences[0].notBefore"),
        ("/fences/0/notBefore", json!(-1), "fences[0].notBefore"),
    ] {
        wrong(pointer, value, &[field]);
    }
}

#[test]
fn durations_follow_gep_2257() {
    for (pointer, field) in [
        ("/maxIdle", "maxIdle"),
        ("/clockSkew", "clockSkew"),
        ("/policies/shop/absoluteTimeout", "policies.shop.absoluteTimeout"),
        ("/policies/shop/idleTimeout", "policies.shop.idleTimeout"),
    ] {
        for value in [
            json!("1d"),
            json!("30"),
            json!(""),
            json!("1.5h"),
            json!("-1s"),
            json!(30),
            json!("1h 1m"),
            json!("100000s"),
        ] {
            wrong(pointer, value, &[field]);
        }
        for value in ["30m", "1h30m", "500ms", "99999h"] {
            right(pointer, json!(value));
        }
    }
}

#[test]
fn an_absent_field_has_its_default() {
    let config = config::parse(valid().to_string().as_bytes()).unwrap();
    assert!(!config.access_log);
    assert_eq!(config.max_idle.to_string(), "168h");
    assert_eq!(config.clock_skew.to_string(), "1m");
    assert_eq!(config.policies["shop"].strict_status, 503);
    let shop = config.policies["shop"].cookie.as_ref().unwrap();
    assert!(shop.http_only && !shop.partitioned && !shop.forward);
    assert_eq!(shop.path, "/");
}

#[test]
fn every_problem_is_reported_at_once() {
    let config = changed(&[
        ("/keys/0/inline", json!("AAEC")),
        ("/maxIdle", json!("0s")),
        ("/policies/api/header/name", json!("cookie")),
        ("/policies/api/strictStatus", json!(200)),
        ("/policies/shop/idleTimeout", json!("0s")),
        ("/policies/shop/cookie/name", json!("a b")),
        ("/policies/shop/cookie/sameSite", json!("None")),
        ("/routes/0/policy", json!("none")),
        ("/routes/1", json!({ "route": "q", "policy": "nor this" })),
        ("/default/policy", json!("neither")),
        ("/fences/0/address", json!("localhost")),
    ]);
    let mut found = fields(&config);
    found.sort();
    assert_eq!(
        found,
        [
            "default.policy",
            "fences[0].address",
            "keys[0].inline",
            "maxIdle",
            "policies.api.header.name",
            "policies.api.strictStatus",
            "policies.shop.cookie.name",
            "policies.shop.cookie.secure",
            "policies.shop.idleTimeout",
            "routes[0].policy",
            "routes[1].policy",
        ]
    );
    let text = load(&config).unwrap_err().to_string();
    assert!(found.iter().all(|field| text.contains(&format!("{field}: "))), "{text}");
}
