//! Wrapped keyrings in the filter's configuration: only configuration updates change keys.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Build, Carrier, Config, Crowd, Envoy, KeyEncryptionKey, Keyring, Site, poll};
use serde_json::{Value, json};

use crate::keys::{key_of, keys_without_loss};

const RELOADS: &str = "extension_config_discovery.http_filter.limpet.config_reload";

pub(crate) fn filter(text: &str, under: &[&KeyEncryptionKey]) -> Value {
    let list: Vec<Value> = under.iter().map(|key| key.config()).collect();
    json!({
        "wrappedKeys": {"text": text, "keyEncryptionKeys": list},
        "policies": {"web": {"cookie": {"name": "limpet-session"}}},
        "default": {"policy": "web", "scope": "default"},
    })
}

pub(crate) fn config(file: &str, filter: &Value, present: &[&KeyEncryptionKey]) -> Result<Config> {
    let names: Vec<&str> = present.iter().map(|key| key.variable.as_str()).collect();
    let config = Config::load(file)?.filter_environment(&names).filter(filter);
    Ok(present
        .iter()
        .fold(config, |config, key| config.env(&key.variable, &key.key)))
}

/// Writes the file that Envoy watches with the `limpet` command, as an operator does.
pub(crate) async fn push(envoy: &Envoy, keyring: &Keyring, under: &KeyEncryptionKey) -> Result<()> {
    let before = envoy.stat(RELOADS).await?;
    keyring.wrap_into(&envoy.discovered_filter(), under)?;
    envoy.until_stat(RELOADS, before + 1).await
}

#[tokio::test]
async fn a_key_changes_by_pushes_alone_and_no_session_is_lost() -> Result<()> {
    let (keyring, kek) = (Keyring::generate()?, KeyEncryptionKey::generate(1)?);
    let filter = filter(&keyring.wrap(&kek)?, &[&kek]);
    let site = Site::start(config("ecds.yaml", &filter, &[&kek])?).await?;
    let addresses = [site.envoy.address()];
    let mut crowd = Crowd::gather(6, &[Carrier::Cookie], &addresses).await?;
    // The three phases of a rotation, and one more.
    for _ in 1..=4 {
        keyring.rotate()?;
        push(&site.envoy, &keyring, &kek).await?;
        crowd.grow(3, &[Carrier::Cookie], &addresses).await?;
        crowd.rounds(4).await?;
    }
    let seen = keys_without_loss(&crowd.leave().await)?;
    // Tokens were replaced, or under the new key from the beginning.
    assert_eq!(seen, BTreeSet::from([vec![1, 2], vec![2]]));
    let refused = site.envoy.stats("limpet.*refused").await?;
    ensure!(refused.values().all(|count| *count == 0), "{refused:#?}");
    Ok(())
}

/// One Envoy started before the second key-encryption key existed, one has both, and one lacks the first.
#[tokio::test]
async fn a_key_encryption_key_changes_as_well() -> Result<()> {
    let (old, new) = (KeyEncryptionKey::generate(1)?, KeyEncryptionKey::generate(2)?);
    let keyring = Keyring::generate()?;
    let both = [&old, &new];
    let under_old = filter(&keyring.wrap(&old)?, &both);
    let with_old = Site::start(config("ecds.yaml", &under_old, &[&old])?).await?;
    let with_both = config("ecds.yaml", &under_old, &both)?.backends(&with_old.backends);
    let with_both = Envoy::serve(with_both).await?;
    let first = with_old.envoy.get("/").send().await?;
    let pair = first.set_cookie("limpet-session").context("no session")?.pair();
    let assert_honoured = async |envoy: &Envoy| -> Result<()> {
        for _ in 0..6 {
            let answer = envoy.get("/").cookie(&pair).send().await?;
            assert_eq!(answer.backend(), first.backend());
            assert!(answer.set_cookies().is_empty());
        }
        Ok(())
    };
    assert_honoured(&with_both).await?;
    push(&with_both, &keyring, &new).await?;
    assert_honoured(&with_both).await?;
    let under_new = filter(&keyring.wrap(&new)?, &both);
    let with_new = config("ecds.yaml", &under_new, &[&new])?.backends(&with_old.backends);
    assert_honoured(&Envoy::serve(with_new).await?).await
}

#[tokio::test]
async fn a_push_that_cannot_be_opened_is_refused_and_sessions_go_on() -> Result<()> {
    let (keyring, kek) = (Keyring::generate()?, KeyEncryptionKey::generate(1)?);
    let stranger = KeyEncryptionKey::generate(1)?;
    let site = Site::start(config("ecds.yaml", &filter(&keyring.wrap(&kek)?, &[&kek]), &[&kek])?).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    keyring.rotate()?;
    keyring.wrap_into(&site.envoy.discovered_filter(), &stranger)?;
    poll::until("the refusal", async || {
        let log = site.envoy.log().ok()?;
        log.contains("limpet: configuration refused: wrappedKeys.text: bad signature")
            .then_some(())
    })
    .await?;
    ensure!(
        site.envoy.log()?.contains("; tried with the variable LIMPET_KEK_1"),
        "the log does not name the variable"
    );
    for _ in 0..6 {
        let answer = visitor.get("/").await?;
        assert_eq!((answer.backend(), answer.set_cookies().len()), (first.backend(), 0));
    }
    push(&site.envoy, &keyring, &kek).await?;
    assert_eq!(visitor.get("/").await?.backend(), first.backend());
    Ok(())
}

#[tokio::test]
async fn an_error_names_its_field() -> Result<()> {
    let (keyring, kek) = (Keyring::generate()?, KeyEncryptionKey::generate(1)?);
    let (other, stranger) = (KeyEncryptionKey::generate(2)?, KeyEncryptionKey::generate(1)?);
    let text = keyring.wrap(&kek)?;
    let good = filter(&text, &[&kek]);
    let (accepted, said) = Envoy::validate(&config("cookie.yaml", &good, &[&kek])?).await?;
    assert!(accepted, "{said}");
    let env = "limpet: configuration refused: wrappedKeys.keyEncryptionKeys[0].env: expected the variable LIMPET_KEK_1 \
               in the environment of Envoy's process";
    let mut cases = vec![
        (config("cookie.yaml", &good, &[])?, env),
        (
            config("cookie.yaml", &good, &[&stranger])?,
            "limpet: configuration refused: wrappedKeys.text: bad signature: changed, or wrapped under another \
             key-encryption key of the same id; tried with the variable LIMPET_KEK_1",
        ),
        (
            config("cookie.yaml", &filter(&text, &[&other]), &[&kek, &other])?,
            "wrappedKeys.text: wrapped under key-encryption key 1",
        ),
        (
            config("cookie.yaml", &filter(&format!("{text}="), &[&kek]), &[&kek])?,
            "wrappedKeys.text: malformed",
        ),
        (
            config("cookie.yaml", &good, &[&kek])?.env(&kek.variable, "dG9vIHNob3J0"),
            "limpet: configuration refused: wrappedKeys.keyEncryptionKeys[0].env: expected 32 bytes in base64 in the \
             variable LIMPET_KEK_1",
        ),
    ];
    if Build::tested()? == Build::Wasm {
        // The module reads Envoy's environment directly, so it needs no permission.
        let not_handed = config("cookie.yaml", &good, &[&kek])?.filter_environment(&[]);
        cases.push((not_handed, env));
    }
    for (config, expected) in cases {
        let (accepted, said) = Envoy::validate(&config).await?;
        assert!(!accepted && said.contains(expected), "{expected}: {said}");
        assert!(!said.contains("dG9vIHNob3J0"), "{said}");
    }
    Ok(())
}

/// `envoy-configs/ecds/wrapped-keys.yaml` replaces the file without a wrapped keyring.
#[tokio::test]
async fn the_example_configuration_works() -> Result<()> {
    // The key that the file's keyring is wrapped under. It is public, so it protects nothing.
    let kek = KeyEncryptionKey {
        id: 1,
        variable: "LIMPET_KEK_1".to_owned(),
        key: limpet_e2e::OTHER_KEY.to_owned(),
    };
    let config = Config::load("ecds.yaml")?.discover_filter_from("ecds/wrapped-keys.yaml")?;
    let site = Site::start(config.env(&kek.variable, &kek.key)).await?;
    assert_eq!(key_in_new_session(&site.envoy).await?, 1);
    let keyring = Keyring::generate()?;
    keyring.rotate()?;
    keyring.rotate()?;
    push(&site.envoy, &keyring, &kek).await?;
    poll::until("the other keyring's key", async || {
        (key_in_new_session(&site.envoy).await.ok()? == 2).then_some(())
    })
    .await?;
    let shown = site.envoy.admin_text("/config_dump").await?;
    ensure!(
        shown.contains(&keyring.wrap(&kek)?),
        "the wrapped keyring is not in /config_dump"
    );
    Ok(())
}

async fn key_in_new_session(envoy: &Envoy) -> Result<u8> {
    let answer = envoy.get("/").send().await?;
    key_of(&answer.set_cookie("limpet-session").context("no session")?.value)
}
