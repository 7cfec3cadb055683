//! Mistakes in the filter's configuration, and in its variables in Envoy.

use serde_json::{Value, json};

use crate::{KEY, example, file, findings, limpet, path};

const FILTER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/1";

#[test]
fn a_fence_ahead_of_the_clock_is_told() {
    let fenced = |not_before: u64| {
        let config = json!({
            "keys": [{"id": 1, "env": "LIMPET_KEY"}],
            "policies": {"web": {"cookie": {"name": "s"}}},
            "fences": [{"address": "10.0.0.7", "notBefore": 1}, {"address": "10.0.0.8", "notBefore": not_before}],
        });
        file(".json", &config.to_string())
    };
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let ran = limpet(&["check", path(&fenced(now + 30)), "--deny-warnings"])
        .env("LIMPET_KEY", KEY)
        .run();
    ran.code(0).says("ok");
    limpet(&["check", path(&fenced(now + 3600)), "--deny-warnings"])
        .env("LIMPET_KEY", KEY)
        .run()
        .code(2)
        .says("fences[1].notBefore")
        .says("expected a time at most 1m (clockSkew) from now");
    // No clock is that wrong, and the fence would end sessions whenever an Envoy starts.
    limpet(&["check", path(&fenced(now * 1000))])
        .env("LIMPET_KEY", KEY)
        .run()
        .code(2)
        .says(&format!(
            "fences[1].notBefore: expected seconds since 1970, found {}, which are milliseconds",
            now * 1000
        ));
}

#[test]
fn a_mistake_of_a_key_hides_none_of_a_policy() {
    let (code, found) = findings(&json!({
        "keys": [{"id": 1, "env": KEY}],
        "policies": {"web": {"cookie": {"name": "a b"}}},
    }));
    assert_eq!(code, 2);
    for expected in [
        "keys[0].env | expected the name of an environment variable",
        "policies.web.cookie.name",
    ] {
        let told = found.iter().filter(|found| found.contains(expected)).count();
        assert_eq!(told, 1, "{expected}: {found:#?}");
    }
    assert_eq!(found.len(), 2, "{found:#?}");
}

/// Envoy's own configuration can have the variables of the filter's VM.
#[test]
fn a_key_among_key_values_is_checked_and_told() {
    let with = |key: &str| {
        let mut envoy = example("cookie.yaml");
        envoy.pointer_mut(FILTER).unwrap()["typed_config"]["config"]["vm_config"]["environment_variables"] =
            json!({"key_values": {"LIMPET_KEY": key}});
        file(".json", &envoy.to_string())
    };
    let good = with(KEY);
    limpet(&["check", "--env", path(&good)])
        .run()
        .code(1)
        .says("keys[0].env: the key is in environment_variables.key_values: Envoy shows it in /config_dump");
    limpet(&["check", path(&with("bm90IGEga2V5"))])
        .run()
        .code(2)
        .says("keys[0].env: expected 32 bytes in base64 in the variable LIMPET_KEY");
}

#[test]
fn two_sessions_in_one_cookie_are_told() {
    let with = |more: Value| {
        let mut config = json!({
            "keys": [{"id": 1, "inline": KEY}],
            "policies": {"web": {"cookie": {"name": "s"}}, "api": {"cookie": {"name": "s"}}},
        });
        config
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let (_, mut found) = findings(&config);
        found.retain(|found| !found.contains("is inline"));
        found
    };
    let found = with(json!({}));
    let expected = "policies.web | not checked: whether one host has sessions of both api and web, in one cookie s";
    assert!(found.len() == 1 && found[0].contains(expected), "{found:#?}");
    assert!(found[0].starts_with("note"), "{found:#?}");
    let found = with(json!({"routes": [{"route": "a", "policy": "web"}, {"route": "b", "policy": "api"}]}));
    let expected = "the session api/b has the cookie s with path /, as web/a has";
    assert!(
        found
            .iter()
            .any(|found| found.starts_with("warning") && found.contains(expected)),
        "{found:#?}"
    );
    let apart = json!({"policies": {"web": {"cookie": {"name": "s"}}, "api": {"cookie": {"name": "t"}}}});
    assert_eq!(with(apart), Vec::<String>::new());
}
