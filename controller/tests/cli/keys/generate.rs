use super::{Keyring, states};
use crate::limpet;

#[test]
fn a_key_is_32_random_bytes_in_base64() {
    let first = limpet(&["keys", "generate"]).run().code(0).stdout;
    let second = limpet(&["keys", "generate"]).run().code(0).stdout;
    assert_ne!(first, second);
    assert_eq!(first.trim_end().len(), 44);
    let filter = r#"{"keys": [{"id": 1, "env": "LIMPET_KEY"}], "policies": {}}"#;
    limpet(&["check", "-", "--env"])
        .env("LIMPET_KEY", first.trim_end())
        .run_with(filter)
        .code(0);
}

#[test]
fn a_key_is_printed_as_json_on_request() {
    let json = limpet(&["keys", "generate", "-o", "json"]).run().code(0).json();
    assert_eq!(json["key"].as_str().unwrap().len(), 44);
}

#[test]
fn a_keyring_file_has_one_key_and_is_private() {
    let keyring = Keyring::generated();
    assert_eq!(keyring.states(), states(&[(1, "signing")]));
    assert_eq!(keyring.mode(), 0o600);
    assert_ne!(keyring.secrets(), Keyring::generated().secrets());
}

#[test]
fn no_file_is_overwritten() {
    let keyring = Keyring::generated();
    let before = keyring.text();
    keyring.generate().code(3).complains("exists");
    assert_eq!(keyring.text(), before);
    let nowhere = keyring.folder.path().join("nowhere/keyring.json");
    let ran = limpet(&["keys", "generate", "--write", nowhere.to_str().unwrap()]).run();
    ran.code(3).complains("cannot be written");
}
