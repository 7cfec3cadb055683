//! Envoy refuses a bad configuration at its start, and the error names the field.

use anyhow::Result;
use limpet_e2e::{Config, Envoy, filter_with};
use serde_json::{Value, json};

/// Checks that Envoy refuses this configuration of the filter and names the field.
async fn assert_refused(filter: &Value, field: &str) -> Result<()> {
    let (accepted, said) = Envoy::validate(&Config::load("cookie.yaml")?.filter(filter)).await?;
    assert!(!accepted, "{filter} is accepted");
    assert!(
        said.contains(field),
        "the error of {filter} does not name {field}:\n{said}"
    );
    Ok(())
}

#[tokio::test]
async fn a_mistake_in_a_policy_is_refused_by_its_field() -> Result<()> {
    let cookie = |cookie: Value| json!({"cookie": cookie});
    for (policy, field) in [
        (
            cookie(json!({"name": "limpet-session", "colour": "red"})),
            "policies.web.cookie.colour",
        ),
        (cookie(json!({"name": "a b"})), "policies.web.cookie.name"),
        (
            cookie(json!({"name": "limpet-session", "sameSite": "None"})),
            "policies.web.cookie",
        ),
        (
            cookie(json!({"name": "__Host-session", "secure": "always", "path": "/shop"})),
            "policies.web.cookie",
        ),
        (
            cookie(json!({"name": "__Secure-session", "secure": "never"})),
            "policies.web.cookie",
        ),
        (
            cookie(json!({"name": "limpet-session", "lifetimeType": "Permanent"})),
            "policies.web",
        ),
        (json!({"header": {"name": "x session"}}), "policies.web.header.name"),
        (
            json!({"header": {"name": "ETag"}}),
            "policies.web.header.name: expected a header that nothing else uses, found \"ETag\": HTTP has this name",
        ),
        (
            cookie(json!({"name": "n".repeat(257)})),
            "policies.web.cookie.name: expected a cookie name: 1 to 256 letters, digits or !#$%&'*+-.^_`|~, \
             found 257 characters",
        ),
        (
            json!({"cookie": {"name": "limpet-session"}, "header": {"name": "limpet-session"}}),
            "policies.web",
        ),
        (json!({"strict": true}), "policies.web"),
        (
            json!({"cookie": {"name": "limpet-session"}, "strictStatus": 200}),
            "policies.web.strictStatus",
        ),
        (
            json!({"cookie": {"name": "limpet-session"}, "idleTimeout": "30"}),
            "policies.web.idleTimeout",
        ),
    ] {
        assert_refused(&filter_with(&policy), field).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_mistake_in_the_keyring_is_refused_by_its_field() -> Result<()> {
    let key = |id: u16, state: &str| json!({"id": id, "env": "LIMPET_KEY", "state": state});
    for (keys, field) in [
        (json!([]), "keys"),
        (json!([key(1, "verifying")]), "keys"),
        (json!([key(1, "signing"), key(2, "signing")]), "keys"),
        (json!([key(1, "signing"), key(1, "verifying")]), "keys[1].id"),
        (json!([key(256, "signing")]), "keys[0].id"),
        (json!([key(1, "sleeping")]), "keys[0].state"),
        (json!([{"id": 1, "inline": "too short"}]), "keys[0].inline"),
        (json!([{"id": 1}]), "keys[0]"),
    ] {
        let mut filter = filter_with(&json!({"cookie": {"name": "limpet-session"}}));
        filter["keys"] = keys;
        assert_refused(&filter, field).await?;
    }
    Ok(())
}

#[tokio::test]
async fn any_other_mistake_is_refused_by_its_field() -> Result<()> {
    for (field, value, named) in [
        ("default", json!({"policy": "missing"}), "default.policy"),
        (
            "routes",
            json!([{"route": "web", "policy": "missing"}]),
            "routes[0].policy",
        ),
        ("maxIdle", json!("a week"), "maxIdle"),
        (
            "fences",
            json!([{"address": "nowhere", "notBefore": 1}]),
            "fences[0].address",
        ),
        ("typo", json!(1), "typo"),
    ] {
        let mut filter = filter_with(&json!({"cookie": {"name": "limpet-session"}}));
        filter[field] = value;
        assert_refused(&filter, named).await?;
    }
    Ok(())
}
