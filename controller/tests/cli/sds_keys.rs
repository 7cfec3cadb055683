//! Configurations with `sdsKeys`: checked as far as they can be.

use serde_json::{Value, json};

use crate::{assert_one, example, file, findings, limpet, path};

fn with(sds: Value) -> Value {
    let mut envoy = example("module-sds.yaml");
    let value = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/0/typed_config\
                 /filter_config/value";
    envoy.pointer_mut(value).unwrap()["sdsKeys"] = sds;
    envoy
}

#[test]
fn the_rest_of_the_configuration_is_checked() {
    let (code, found) = findings(&example("module-sds.yaml"));
    assert_eq!(code, 0, "{found:#?}");
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(
        found[0].contains("sdsKeys | not checked: the keyring, in a secret that Envoy discovers"),
        "{found:#?}"
    );
    assert!(
        found[1].contains("sdsKeys | not checked (--envoy-version does)"),
        "{found:#?}"
    );
    for (sds, field) in [
        (json!({"name": ""}), "sdsKeys.name"),
        (json!({"name": "a", "sdsConfig": "b"}), "sdsKeys.sdsConfig"),
    ] {
        let (code, found) = findings(&with(sds));
        assert_eq!(code, 2, "{found:#?}");
        assert!(
            found
                .iter()
                .any(|found| found.starts_with("error") && found.contains(field)),
            "{found:#?}"
        );
    }
}

#[test]
fn an_envoy_without_secrets_is_reported() {
    let file = file(".yaml", &example("module-sds.yaml").to_string());
    for (version, code) in [("v1.38", 2), ("1.39.3", 2), ("1.40", 0), ("1.41", 0)] {
        let ran = limpet(&["check", path(&file), "--envoy-version", version])
            .run()
            .code(code);
        assert_eq!(ran.stdout.contains("because it gets no secrets"), code == 2, "{ran:?}");
    }
}

#[test]
fn a_wasm_filter_gets_no_secret() {
    let mut envoy = example("cookie.yaml");
    let filter =
        "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/1/typed_config/config";
    let config = json!({"sdsKeys": {"name": "limpet"}, "policies": {"web": {"cookie": {"name": "s"}}}});
    envoy.pointer_mut(filter).unwrap()["configuration"]["value"] = config.to_string().into();
    assert_one(
        &envoy,
        "error",
        "configuration.value",
        "sdsKeys | expected keys or wrappedKeys",
    );
}

/// Only Envoy has the secret; the command reads the file from which it was made.
#[test]
fn a_token_is_inspected_with_the_keyring_file() {
    let token = "EAFEL766kP8yYN2LF4RqsGN0bzeupMSc8PcVI1s012wfDgugcauN6TEISlg9";
    let config = ["token", "inspect", token, "--config", "envoy-configs/module-sds.yaml"];
    limpet(&config).run().code(1).says(
        "not verified: sdsKeys: the keyring is in a secret that Envoy discovers (--keys takes the keyring file itself)",
    );
    let list = ["keys", "list", "envoy-configs/module-sds.yaml"];
    limpet(&list)
        .run()
        .code(3)
        .complains("sdsKeys: the keyring is in a secret");
}
