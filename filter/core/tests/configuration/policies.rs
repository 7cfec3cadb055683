//! The fields of a policy, apart from its carrier.

use serde_json::{Value, json};

use crate::base::*;

#[test]
fn a_name_has_letters_digits_dots_underscores_and_hyphens() {
    let named = |name: &str| {
        let mut config = valid();
        config["policies"][name] = json!({ "header": { "name": "x-s" } });
        fields(&config)
    };
    for name in ["a", "Shop-1.2_x", &"n".repeat(128)] {
        assert_eq!(named(name), Vec::<String>::new(), "{name}");
    }
    for name in ["a/b", "a b", "é", "a:b", &"n".repeat(129)] {
        assert_eq!(named(name), [format!("policies.{name}")]);
    }
    assert_eq!(named("").len(), 1);
}

#[test]
fn a_configuration_may_have_no_policies() {
    let config = changed(&[
        ("/policies", json!({})),
        ("/routes", json!([])),
        ("/default", Value::Null),
    ]);
    assert_eq!(fields(&config), Vec::<String>::new());
}

#[test]
fn a_policy_has_one_carrier() {
    wrong("/policies/shop", json!({}), &["policies.shop"]);
    let both = json!({ "cookie": { "name": "a" }, "header": { "name": "x-a" } });
    wrong("/policies/shop", both, &["policies.shop"]);
}

#[test]
fn timeouts_are_greater_than_zero() {
    for zero in ["0s", "0h0m", "0ms"] {
        wrong(
            "/policies/shop/absoluteTimeout",
            json!(zero),
            &["policies.shop.absoluteTimeout"],
        );
        wrong(
            "/policies/shop/idleTimeout",
            json!(zero),
            &["policies.shop.idleTimeout"],
        );
        wrong("/maxIdle", json!(zero), &["maxIdle"]);
        right("/clockSkew", json!(zero));
    }
    right("/policies/shop/idleTimeout", json!("1ms"));
}

#[test]
fn a_former_lag_is_greater_than_zero_and_names_a_namespace_or_none() {
    let former = |fields: Value| {
        let mut config = changed(&[("/policies/shop/formerLags", json!([{"lag": "1h", "until": 7}]))]);
        for (field, value) in fields.as_object().unwrap() {
            config["policies"]["shop"]["formerLags"][0][field] = value.clone();
        }
        fields_of(&config)
    };
    assert_eq!(former(json!({})), "");
    assert_eq!(former(json!({"namespace": "shop", "until": 0})), "");
    assert_eq!(former(json!({"lag": "0s"})), "lag");
    assert_eq!(former(json!({"namespace": ""})), "namespace");
    let source = json!({"source": {}, "formerLags": [{"lag": "1h", "until": 7}]});
    assert_eq!(
        found(source),
        ["formerLags: remove it with source: there are no tokens"]
    );
}

fn fields_of(config: &Value) -> String {
    let fields = fields(config);
    let of_former = |field: &String| field.trim_start_matches("policies.shop.formerLags[0].").to_owned();
    fields.iter().map(of_former).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_strict_status_is_an_error_status() {
    for status in [400, 503, 599] {
        right("/policies/shop/strictStatus", json!(status));
    }
    for status in [0, 200, 399, 600, 65535] {
        wrong(
            "/policies/shop/strictStatus",
            json!(status),
            &["policies.shop.strictStatus"],
        );
    }
}
