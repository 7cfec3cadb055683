//! Configurations with `wrappedKeys`: checked, and used to read tokens.

use serde_json::{Value, json};

use crate::{KEY, OTHER_KEY, Ran, example, file, limpet, path};

/// `KEY` as the signing key 1 and another one that verifies, wrapped under `OTHER_KEY` by the id 1.
const TEXT: &str = "gQEITl_5iIYKR7QZPKeFmvKygEoxFuvJMvwNVo7oNluMGwkaFlMMnR6kvvGh0FDGgMIUcQxNuGoJ6GRsHSxImgcc_ExJqxxFnWf\
                    5peoZZgytPurhEkg";

fn config(text: &str) -> Value {
    json!({
        "wrappedKeys": {
            "text": text,
            "keyEncryptionKeys": [{"id": 1, "env": "LIMPET_KEK_1"}, {"id": 2, "env": "LIMPET_KEK_2"}],
        },
        "policies": {"web": {"cookie": {"name": "limpet-session"}}},
        "default": {"policy": "web", "scope": "default"},
    })
}

fn check(config: &Value, key_encryption_key: Option<&str>, more: &[&str]) -> Ran {
    let mut limpet = limpet(&[&["check", "-"], more].concat());
    if let Some(key) = key_encryption_key {
        limpet = limpet.env("LIMPET_KEK_1", key);
    }
    limpet.run_with(&config.to_string())
}

#[test]
fn wrapped_keys_are_checked_with_and_without_their_key() {
    let opened = check(&config(TEXT), Some(OTHER_KEY), &["--env"]).code(0);
    assert_eq!(opened.says("ok (2 keys and the policy web)").stderr, "");
    check(&config(TEXT), None, &[])
        .code(0)
        .says("ok, 1 note (keys not known here and the policy web)")
        .says(
            "not checked: the key-encryption key, and the keyring under it, in the environment variable LIMPET_KEK_1",
        );
    let field = "wrappedKeys.keyEncryptionKeys[0].env: ";
    check(&config(TEXT), None, &["--env"])
        .code(2)
        .says(&format!("{field}expected the environment variable LIMPET_KEK_1"));
    check(&config(TEXT), Some("short"), &[])
        .code(2)
        .says(&format!("{field}expected 32 bytes in base64"));
    check(&config(TEXT), Some(KEY), &[])
        .code(2)
        .says("wrappedKeys.text: bad signature");
}

#[test]
fn errors_are_found_without_the_key_encryption_key() {
    let other = TEXT.replacen("gQE", "gQU", 1);
    for (text, message) in [
        ("gQGx", "wrappedKeys.text: malformed"),
        (&other, "wrappedKeys.text: wrapped under key-encryption key 5"),
    ] {
        check(&config(text), None, &[]).code(2).says(message);
    }
    let mut policy = config(TEXT);
    policy["policies"]["web"]["cookie"]["name"] = "a b".into();
    check(&policy, None, &[]).code(2).says("policies.web.cookie.name");
}

/// The key-encryption key that the text names is needed; that another one is missing would show too late.
#[test]
fn envoy_must_hand_the_variables_to_the_filter() {
    let mut envoy = example("cookie.yaml");
    let filter = envoy
        .pointer_mut("/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/1")
        .unwrap();
    let plugin = &mut filter["typed_config"]["config"];
    plugin["configuration"]["value"] = config(TEXT).to_string().into();
    for (listed, code, severity, index) in [("LIMPET_KEK_1", 1, "warning", 1), ("LIMPET_KEK_2", 2, "error", 0)] {
        let mut envoy = envoy.clone();
        let plugin =
            "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/1/typed_config/config";
        envoy.pointer_mut(plugin).unwrap()["vm_config"]["environment_variables"] = json!({"host_env_keys": [listed]});
        let ran = check(&envoy, Some(OTHER_KEY), &[]).code(code);
        ran.says(severity).says(&format!(
            "wrappedKeys.keyEncryptionKeys[{index}].env: expected LIMPET_KEK"
        ));
    }
}

#[test]
fn tokens_are_issued_and_opened_with_wrapped_keys() {
    let config = file(".json", &config(TEXT).to_string());
    let with_key =
        |args: &[&str]| limpet(&[args, &["--config", path(&config)]].concat()).env("LIMPET_KEK_1", OTHER_KEY);
    let issue = ["token", "issue", "--host", "10.0.0.7:80", "--cluster", "backends"];
    let token = with_key(&issue).run().code(0).stdout;
    let token = token.trim_end();
    with_key(&["token", "inspect", token])
        .run()
        .code(0)
        .says("verdict    honoured");
    let keys = file(".yaml", "[{id: 1, env: LIMPET_KEY}]");
    let alone = [
        "token",
        "inspect",
        &format!("limpet-session={token}"),
        "--keys",
        path(&keys),
    ];
    limpet(&alone).env("LIMPET_KEY", KEY).run().code(0).says("10.0.0.7:80");

    let closed = ["token", "inspect", token, "--config", path(&config)];
    limpet(&closed)
        .run()
        .code(1)
        .says("not verified: the environment variable LIMPET_KEK_1 is not set");
    limpet(&closed)
        .env("LIMPET_KEK_1", KEY)
        .run()
        .code(1)
        .says("not verified: wrappedKeys.text: bad signature");
}

fn plugin(config: &Value) -> Value {
    json!({
        "apiVersion": "extensions.istio.io/v1alpha1",
        "kind": "WasmPlugin",
        "metadata": {"name": "limpet"},
        "spec": {
            "failStrategy": "FAIL_RELOAD",
            "vmConfig": {"env": [
                {"name": "LIMPET_KEK_1", "valueFrom": "HOST"},
                {"name": "LIMPET_KEK_2", "valueFrom": "HOST"},
            ]},
            "pluginConfig": config,
        },
    })
}

#[test]
fn wrapped_keys_in_a_wasm_plugin_are_checked() {
    let opened = check(&plugin(&config(TEXT)), Some(OTHER_KEY), &["--env"]).code(0);
    assert_eq!(opened.says("ok (2 keys and the policy web)").stderr, "");
    check(&plugin(&config(TEXT)), Some(KEY), &[])
        .code(2)
        .says("spec.pluginConfig")
        .says("wrappedKeys.text: bad signature");
    let mut without = plugin(&config(TEXT));
    without["spec"]["vmConfig"]["env"][0]["name"] = "OTHER".into();
    check(&without, None, &[])
        .code(2)
        .says("wrappedKeys.keyEncryptionKeys[0].env: expected LIMPET_KEK_1")
        .says("in a WasmPlugin, in vmConfig.env");
    let mut empty = plugin(&config(TEXT));
    empty["spec"] = json!({"url": "oci://registry.example.com/limpet"});
    check(&empty, None, &[])
        .code(2)
        .says("expected the filter's configuration in spec.pluginConfig");
}
