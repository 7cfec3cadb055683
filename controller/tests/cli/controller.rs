//! `limpet controller --check`.

use serde_json::{Value, json};

use crate::limpet;

/// What is said of a configuration: exit code, and the message.
fn checked(config: &Value) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("controller.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let ran = limpet(&["controller", "--check", "--config", file]).run();
    assert!(ran.stdout.is_empty(), "{ran:?}");
    let (_, message) = ran
        .stderr
        .split_once(file)
        .unwrap_or_else(|| panic!("the file is not named: {ran:?}"));
    (ran.code, message.to_owned())
}

#[test]
fn a_bad_field_is_named_by_its_path() {
    for (config, path, words) in [
        (
            json!({"controllerName": "limpet"}),
            "controllerName: ",
            "a domain and a path",
        ),
        (
            json!({"controlerName": "limpet.dev/x"}),
            "controlerName: ",
            "unknown field",
        ),
        (json!({"namespaces": ["shop", ""]}), "namespaces: ", "expected names"),
        (json!({"namespaces": "shop"}), "namespaces: ", "sequence"),
        (
            json!({"sessionDefaults": {"sameSite": "strict"}}),
            "sessionDefaults.sameSite: ",
            "`Strict`",
        ),
        (
            json!({"sessionDefaults": {"strictStatus": 200}}),
            "sessionDefaults.strictStatus: ",
            "400",
        ),
        (
            json!({"sessionDefaults": {"domain": "a b"}}),
            "sessionDefaults.domain: ",
            "expected",
        ),
        (json!({"envoy": {"filter": {"wasm": {}}}}), "envoy.filter", ""),
        (
            json!({"envoy": {"listenAddress": "here"}}),
            "envoy.listenAddress: ",
            "IP address",
        ),
        (
            json!({"keyring": {"rotateEvery": "daily"}}),
            "keyring.rotateEvery: ",
            "duration",
        ),
        (json!({"maxIdle": "1d"}), "maxIdle: ", "duration"),
        (json!({"clockSkew": 5}), "clockSkew: ", "expected"),
        (json!({"xds": {"address": "127.0.0.1"}}), "xds.address: ", "address"),
        (
            json!({"xds": {"tls": {"certificate": "a", "key": "b"}}}),
            "xds.tls: ",
            "clientCa",
        ),
        (
            json!({"xds": {"plainText": true, "tls": {"certificate": "a", "key": "b", "clientCa": "c"}}}),
            "xds.plainText: ",
            "expected false",
        ),
        (
            json!({"http": {"address": "0.0.0.0:99999"}}),
            "http.address: ",
            "address",
        ),
        (
            json!({"leaderElection": {"enabled": "no"}}),
            "leaderElection.enabled: ",
            "boolean",
        ),
    ] {
        let (code, message) = checked(&config);
        assert_eq!(code, 2, "{config}: {message}");
        assert!(message.starts_with(&format!(": {path}")), "{config}: {message}");
        assert!(message.contains(words), "{config}: expected {words:?} in {message}");
    }
}
