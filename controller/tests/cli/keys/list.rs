use serde_json::{Value, json};

use super::Keyring;
use crate::{OTHER_KEY, file, limpet, path};

#[test]
fn ids_states_and_ages_are_shown() {
    let keyring = Keyring::with(&[(1, "verifying", 3.0), (2, "signing", 1.5)]);
    let text = keyring.limpet(&["list"]).code(0).stdout;
    for part in [
        "phase    2 of 3: key 2 signs, and tokens of key 1 are good\n",
        "key 1    verifying  since 3h ago, made 2",
        "  41d 16h ago\n",
        "key 2    signing    since 1h 30m ago, made 2",
        "  41d 15h ago\n",
        "next     once every Envoy has this keyring, `limpet keys rotate ",
        ": key 1 retires, and its tokens are replaced as they come in\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[test]
fn json_has_the_same_content() {
    let keyring = Keyring::with(&[(1, "retiring", 2.0), (2, "signing", 3.0)]);
    let json = keyring
        .limpet(&["list", "-o", "json", "--longest-life", "5h"])
        .code(0)
        .json();
    assert_eq!(json["phase"], 3);
    assert_eq!(
        (&json["keys"][0]["id"], &json["keys"][0]["state"]),
        (&json!(1), &json!("retiring"))
    );
    let near = |value: &Value, hours: u64| (value.as_u64().unwrap()).abs_diff(hours * 3600) < 60;
    assert!(near(&json["keys"][0]["ageSeconds"], 1000), "{json}");
    assert!(near(&json["keys"][0]["sinceSeconds"], 2), "{json}");
    assert!(
        json["keys"][0]["removableFrom"].as_str().unwrap().starts_with("20"),
        "{json}"
    );
    let settled = Keyring::generated().limpet(&["list", "-o", "json"]).code(0).json();
    assert_eq!(
        (&settled["phase"], &settled["keys"][0]["removableFrom"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn the_end_of_a_retiring_key_is_shown() {
    let keyring = Keyring::with(&[(1, "retiring", 2.0), (2, "signing", 3.0)]);
    let still = keyring.limpet(&["list", "--longest-life", "5h"]).code(0);
    assert!(still.stdout.contains("  in 2h 59m, `limpet keys rotate "), "{still:?}");
    let gone = keyring.limpet(&["list", "--longest-life", "1h"]).code(0);
    assert!(gone.stdout.contains("next     `limpet keys rotate "), "{gone:?}");
}

#[test]
fn states_of_no_rotation_are_shown() {
    let keyring = Keyring::with(&[(1, "verifying", 2.0), (2, "signing", 3.0), (3, "verifying", 1.0)]);
    keyring
        .limpet(&["list"])
        .code(0)
        .says("phase    unknown")
        .says("key 3    verifying");
}

#[test]
fn the_keys_of_a_configuration_are_listed_with_their_states() {
    limpet(&["keys", "list", "envoy-configs/two-keys.yaml"])
        .run()
        .code(0)
        .says("key 1    retiring\nkey 2    signing\n");
    let keyring = Keyring::with(&[(4, "signing", 2.0), (5, "verifying", 1.0)]);
    let text = keyring
        .limpet(&["wrap", "--key-encryption-key", "1=LIMPET_KEK_1"])
        .code(0)
        .stdout;
    let config = json!({
        "wrappedKeys": {"text": text.trim_end(), "keyEncryptionKeys": [{"id": 1, "env": "LIMPET_KEK_1"}]},
        "policies": {},
    });
    let config = file(".json", &config.to_string());
    let list = ["keys", "list", path(&config)];
    let ran = limpet(&[&list[..], &["-o", "json"]].concat())
        .env("LIMPET_KEK_1", OTHER_KEY)
        .run()
        .code(0);
    let keys = json!([[{"id": 4, "state": "signing"}, {"id": 5, "state": "verifying"}]]);
    assert_eq!(ran.json()["keyrings"], keys);
    limpet(&list).run().code(3).complains("LIMPET_KEK_1 is not set");
    limpet(&["keys", "list", "Cargo.toml"]).run().code(3);
}

#[test]
fn standard_input_is_listed_too() {
    let keyring = Keyring::generated();
    limpet(&["keys", "list", "-"])
        .run_with(&keyring.text())
        .code(0)
        .says("key 1    signing ")
        .says("`limpet keys rotate FILE` makes a new key");
    let configuration = json!({
        "keys": [{"id": 7, "env": "LIMPET_KEY", "state": "signing"}],
        "policies": {"web": {"cookie": {"name": "session"}}},
    });
    limpet(&["keys", "list", "-"])
        .run_with(&configuration.to_string())
        .code(0)
        .says("key 7    signing\n");
}

#[test]
fn a_wide_list_has_exact_times() {
    let keyring = Keyring::with(&[(1, "retiring", 2.0), (2, "signing", 3.0)]);
    let wide = keyring.limpet(&["list", "-o", "wide", "--longest-life", "5h"]).code(0);
    let line = wide.stdout.lines().find(|line| line.starts_with("key 1")).unwrap();
    assert!(
        line.contains("retiring   since 20") && line.contains(", removable from 20"),
        "{line}"
    );
}
