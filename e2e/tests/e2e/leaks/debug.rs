use std::fmt::Debug;

use anyhow::{Context, Result, ensure};
use limpet_core::Filter;
use limpet_core::config::{self, KeyringDocument};
use limpet_core::fakes::FakeRequest;
use limpet_core::keyring::wrapped::{WrappedKeyring, wrap};
use limpet_core::keyring::{Key, KeyEntry, KeyId, KeyState, Keyring, Secret};
use limpet_core::token::{CarrierMode, Realm};
use limpet_e2e::leaks::Leaks;
use limpet_e2e::tools;
use serde_json::json;

fn shown(value: &impl Debug) -> String {
    format!("{value:?}\n{value:#?}\n{value:x?}\n{value:X?}\n")
}

fn random() -> Result<String> {
    let output = tools::run_limpet(&["keys", "generate"], &[])?;
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

#[test]
fn debug_output_shows_no_key() -> Result<()> {
    let (key, kek) = (random()?, random()?);
    let leaks = Leaks::default()
        .key("the key", &key)?
        .key("the key-encryption key", &kek)?;
    let secret = |text: &str| Secret::from_base64(text).context("no key");
    let entry = KeyEntry {
        id: KeyId(1),
        state: KeyState::Signing,
        secret: Some(secret(&key)?),
    };
    let text = wrap(std::slice::from_ref(&entry), KeyId(1), &secret(&kek)?)?;
    let environment = |name: &str| match name {
        "KEY" => Some(key.clone()),
        _ => Some(kek.clone()),
    };
    let mut all = shown(&secret(&key)?) + &shown(&entry) + &shown(&Key::new(entry.id, entry.state, &secret(&key)?));
    for keys in [
        json!({"keys": [{"id": 1, "inline": key}]}),
        json!({"keys": [{"id": 1, "env": "KEY"}]}),
        json!({"wrappedKeys": {"text": text, "keyEncryptionKeys": [{"id": 1, "env": "KEK"}]}}),
    ] {
        let mut config = json!({
            "policies": {"web": {"cookie": {"name": "limpet-session"}}},
            "default": {"policy": "web", "scope": "default"},
        });
        for source in ["keys", "wrappedKeys"] {
            config[source] = keys[source].clone();
        }
        let config = config::parse(config.to_string().as_bytes())?;
        let (filter, warnings) = Filter::new(&config, &environment)?;
        let session = filter
            .session(&FakeRequest::on_nameless_route())?
            .context("no session")?;
        all += &(shown(&config) + &shown(&filter) + &shown(&warnings) + &shown(&session));
    }
    let keyring = Keyring::new(vec![Key::new(entry.id, entry.state, &secret(&key)?)])?;
    let realm = Realm::new(&keyring, b"default", CarrierMode::Cookie, "limpet-session");
    let document = json!({"keys": [{"id": 1, "state": "signing", "secret": key}]});
    let document = KeyringDocument::parse(document.to_string().as_bytes())?;
    let opened = WrappedKeyring::parse(&text)?.open(&secret(&kek)?)?;
    all += &(shown(&keyring) + &shown(&realm) + &shown(&document) + &shown(&opened));
    ensure!(all.contains("Secret(..)") && all.contains("InlineKey(..)"), "{all}");
    leaks.none_in("Debug output", &all)?;

    let planted = all + &shown(&secret(&key)?.to_base64().as_bytes());
    ensure!(!leaks.find("Debug output", planted)?.is_empty());
    Ok(())
}
