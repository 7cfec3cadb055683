use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Keyring, mode, set_mode};
use crate::{KEY, OTHER_KEY, example, file, limpet, path};

const UNDER_1: [&str; 2] = ["--key-encryption-key", "1=LIMPET_KEK_1"];

fn wrapped(keyring: &Keyring) -> String {
    let text = keyring.limpet(&[&["wrap"], &UNDER_1[..]].concat()).code(0).stdout;
    text.trim_end().to_owned()
}

/// A configuration beside the keyring, most of which must not change.
fn configuration(keyring: &Keyring, text: &str) -> (PathBuf, String) {
    let content = format!(
        "# a comment\nwrappedKeys:\n  text: {text}   # here\n  \
         keyEncryptionKeys: [{{id: 1, env: LIMPET_KEK_1}}, {{id: 2, env: LIMPET_KEK_2}}]\n\
         policies: {{web: {{cookie: {{name: \"s\"}}}}}}\n"
    );
    let file = keyring.folder.path().join("limpet.yaml");
    std::fs::write(&file, &content).unwrap();
    (file, content)
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn the_filter_accepts_the_wrapped_text() {
    let keyring = Keyring::with(&[(1, "signing", 1.0), (2, "verifying", 1.0)]);
    let text = wrapped(&keyring);
    let config = json!({
        "wrappedKeys": {"text": text, "keyEncryptionKeys": [{"id": 1, "env": "LIMPET_KEK_1"}]},
        "policies": {},
    });
    limpet(&["check", "--env", "-"])
        .env("LIMPET_KEK_1", OTHER_KEY)
        .run_with(&config.to_string())
        .code(0)
        .says("ok (2 keys");
    let json = keyring
        .limpet(&[&["wrap", "-o", "json"], &UNDER_1[..]].concat())
        .code(0)
        .json();
    // The text is the same again: nothing in it is random.
    assert_eq!(
        json,
        json!({"text": text, "keyEncryptionKey": 1, "keys": [1, 2], "file": null})
    );
}

/// The way from keys in the environment to wrapped ones.
#[test]
fn a_file_of_keys_is_wrapped_too() {
    let keys = file(
        ".yaml",
        "- {id: 1, env: LIMPET_KEY}\n- {id: 2, env: LIMPET_KEY_2, state: verifying}\n",
    );
    let wrap = [&["keys", "wrap", path(&keys)], &UNDER_1[..]].concat();
    let wrap = || limpet(&wrap).env("LIMPET_KEY", KEY).env("LIMPET_KEK_1", OTHER_KEY);
    let text = wrap().env("LIMPET_KEY_2", OTHER_KEY).run().code(0).stdout;
    let keyring = Keyring::with(&[(1, "signing", 1.0), (2, "verifying", 1.0)]);
    assert_eq!(text.trim_end(), wrapped(&keyring));
    wrap()
        .run()
        .code(3)
        .complains("the environment variable LIMPET_KEY_2 is not set");
}

#[test]
fn a_key_encryption_key_is_needed_and_never_repeated() {
    let keyring = Keyring::generated();
    for (args, complaint) in [
        (&["wrap"][..], "expected --key-encryption-key"),
        (&["wrap", "--key-encryption-key", KEY], "expected ID=VARIABLE"),
        (
            &["wrap", "--key-encryption-key", "LIMPET_KEK_1"],
            "expected ID=VARIABLE",
        ),
        (
            &["wrap", "--key-encryption-key", "256=LIMPET_KEK_1"],
            "expected ID=VARIABLE",
        ),
        (
            &["wrap", "--key-encryption-key", &format!("1={KEY}")],
            "expected ID=VARIABLE",
        ),
        (
            &["wrap", "--key-encryption-key", "1=LIMPET_KEK_3"],
            "LIMPET_KEK_3 is not set",
        ),
        (
            &["wrap", "--key-encryption-key", "1=PATH"],
            "key-encryption key 1: PATH: expected 32 bytes in base64",
        ),
    ] {
        keyring.limpet(args).code(3).complains(complaint);
    }
}

#[test]
fn only_the_text_of_a_configuration_is_replaced() {
    let keyring = Keyring::generated();
    let old = wrapped(&keyring);
    let (file, content) = configuration(&keyring, &old);
    set_mode(&file, 0o640);
    keyring.limpet(&["rotate"]).code(0);
    let into = ["wrap", "--write", file.to_str().unwrap()];
    let ran = keyring.limpet(&into).code(0);
    assert!(
        ran.stdout
            .ends_with("limpet.yaml: 2 keys, wrapped under key-encryption key 1\n"),
        "{ran:?}"
    );
    assert_eq!(read(&file), content.replace(&old, &wrapped(&keyring)));
    assert_eq!(mode(&file), 0o640);
    let other = [&into[..], &["--key-encryption-key", "2=LIMPET_KEK_2"]].concat();
    keyring.limpet(&other).code(0).says("under key-encryption key 2");
    // From now on, that key-encryption key is the default.
    keyring.limpet(&into).code(0).says("under key-encryption key 2");
    limpet(&["keys", "list", file.to_str().unwrap()])
        .env("LIMPET_KEK_2", KEY)
        .run()
        .code(0)
        .says("key 1    signing\nkey 2    verifying\n");
}

/// Envoy reloads a file that is moved into place, so an unchanged one must not be.
#[test]
fn an_unchanged_file_is_not_written() {
    let keyring = Keyring::generated();
    let (file, _) = configuration(&keyring, &wrapped(&keyring));
    let inode = || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&file).unwrap());
    let before = inode();
    let into = ["wrap", "--write", file.to_str().unwrap()];
    keyring.limpet(&into).code(0);
    assert_eq!(inode(), before);
    keyring.limpet(&["rotate"]).code(0);
    keyring.limpet(&into).code(0);
    assert_ne!(inode(), before);
}

/// The filter's configuration is text within Envoy's.
#[test]
fn the_text_is_replaced_in_a_configuration_of_envoy() {
    let keyring = Keyring::generated();
    let filter = json!({
        "wrappedKeys": {"text": wrapped(&keyring), "keyEncryptionKeys": [{"id": 1, "env": "LIMPET_KEK_1"}]},
        "policies": {"web": {"cookie": {"name": "limpet-session"}}},
    });
    let mut resource = example("ecds/limpet.yaml");
    resource["resources"][0]["typed_config"]["config"]["configuration"]["value"] = filter.to_string().into();
    let file = keyring.folder.path().join("ecds.yaml");
    std::fs::write(&file, resource.to_string()).unwrap();
    keyring.limpet(&["rotate"]).code(0);
    keyring.limpet(&["wrap", "--write", file.to_str().unwrap()]).code(0);
    limpet(&["keys", "list", file.to_str().unwrap()])
        .env("LIMPET_KEK_1", OTHER_KEY)
        .run()
        .code(0)
        .says("key 1    signing\nkey 2    verifying\n");
}

#[test]
fn a_text_that_cannot_be_replaced_stays() {
    let keyring = Keyring::generated();
    let (good, other) = (wrapped(&keyring), wrapped(&Keyring::generated()));
    let folded = format!("|-\n    {good}\n    {other}");
    for (text, complaint) in [
        ("TODO", "wrappedKeys.text: malformed"),
        (KEY, "wrappedKeys.text: malformed"),
        (&folded, "wrappedKeys.text: malformed"),
    ] {
        let (file, content) = configuration(&keyring, text);
        let ran = keyring.limpet(&["wrap", "--write", file.to_str().unwrap()]);
        ran.code(3).complains(complaint);
        assert_eq!(read(&file), content);
    }
    // A text with escapes.
    let (file, content) = configuration(&keyring, &format!("\"\\x67{}\"", good.get(1..).unwrap()));
    keyring.limpet(&["rotate"]).code(0);
    let into = ["wrap", "--write", file.to_str().unwrap()];
    keyring
        .limpet(&into)
        .code(3)
        .complains("expected wrappedKeys.text in one piece");
    assert_eq!(read(&file), content);
    // A key-encryption key that the filter would not find.
    let (file, content) = configuration(&keyring, &good);
    let unknown = [&into[..], &["--key-encryption-key", "3=LIMPET_KEK_2"]].concat();
    keyring
        .limpet(&unknown)
        .code(3)
        .complains("wrappedKeys.keyEncryptionKeys: expected one with the id 3");
    assert_eq!(read(&file), content);
    let listed = keyring.folder.path().join("listed.yaml");
    std::fs::write(&listed, "keys: [{id: 1, env: LIMPET_KEY}]\npolicies: {}\n").unwrap();
    let ran = keyring.limpet(&["wrap", "--write", listed.to_str().unwrap()]);
    ran.code(3).complains("expected a configuration with wrappedKeys");
}

#[test]
fn tokens_are_inspected_with_a_keyring_file() {
    let keyring = Keyring::generated();
    let file = keyring.file();
    let keys = ["--keys", file.to_str().unwrap(), "--name", "limpet-session"];
    let issue = ["token", "issue", "--host", "10.0.0.7:80", "--cluster", "backends"];
    let token = limpet(&[&issue, &keys[..]].concat()).run().code(0).stdout;
    for _ in 0..3 {
        keyring.limpet(&["rotate"]).code(0);
        let inspect = ["token", "inspect", token.trim_end()];
        let ran = limpet(&[&inspect, &keys[..]].concat()).run().code(0);
        ran.says("verdict    honoured").says("10.0.0.7:80");
    }
}
