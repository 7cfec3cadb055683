//! Envoy refuses a bad configuration at its start, and the error names the field.

use anyhow::Result;
use limpet_e2e::{Config, Envoy, filter_with};
use serde_json::{Value, json};

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
async fn a_mistake_is_refused_by_its_field() -> Result<()> {
    let web = |policy: Value| json!({"policies": {"web": policy}});
    for (change, field) in [
        (
            web(json!({"cookie": {"name": "limpet-session", "colour": "red"}})),
            "policies.web.cookie.colour",
        ),
        (
            web(json!({"header": {"name": "ETag"}})),
            "policies.web.header.name: expected a header that nothing else uses, found \"ETag\": HTTP has this name",
        ),
        (
            web(json!({"cookie": {"name": "n".repeat(257)}})),
            "policies.web.cookie.name: expected a cookie name: 1 to 256 letters, digits or !#$%&'*+-.^_`|~, \
             found 257 characters",
        ),
        (
            json!({"keys": [{"id": 1, "env": "LIMPET_KEY", "state": "sleeping"}]}),
            "keys[0].state",
        ),
        (json!({"keys": [{"id": 1, "inline": "too short"}]}), "keys[0].inline"),
        (json!({"default": {"policy": "missing"}}), "default.policy"),
        (json!({"typo": 1}), "typo"),
    ] {
        let mut filter = filter_with(&json!({"cookie": {"name": "limpet-session"}}));
        for (name, value) in change.as_object().into_iter().flatten() {
            filter[name] = value.clone();
        }
        assert_refused(&filter, field).await?;
    }
    Ok(())
}
