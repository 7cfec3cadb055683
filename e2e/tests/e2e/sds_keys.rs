//! Keyrings in a secret that Envoy discovers (dynamic module only; Envoy 1.40 or later).

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Backend, Build, Carrier, Config, Crowd, Envoy, Keyring, Site, poll, tools};
use serde_json::{Value, json};

use crate::keys::{key_of, keys_without_loss};

const NAME: &str = "limpet-keyring";

/// The module gets secrets from Envoy 1.40 on. `refusals_say_who_gets_secrets` tests the other cases.
pub(crate) fn gets_secrets() -> Result<bool> {
    Ok(Build::tested()? == Build::Module && tools::envoy_version()? >= (1, 40))
}

fn config(keyring: &Keyring) -> Result<Config> {
    Ok(Config::load("module-sds.yaml")?.keyring(keyring))
}

fn filter(sds: &Value) -> Value {
    json!({
        "sdsKeys": sds,
        "policies": {"web": {"cookie": {"name": "limpet-session"}}},
        "default": {"policy": "web", "scope": "default"},
    })
}

pub(crate) fn secret(name: &str, content: &str) -> Value {
    json!({
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
        "name": name,
        "generic_secret": {"secret": {"inline_string": content}},
    })
}

#[tokio::test]
async fn refusals_say_who_gets_secrets() -> Result<()> {
    let config = Config::load("cookie.yaml")?.filter(&filter(&json!({"name": NAME})));
    let (accepted, said) = Envoy::validate(&config).await?;
    ensure!(!accepted, "Envoy accepts the configuration");
    let expected = match Build::tested()? {
        Build::Wasm => {
            "sdsKeys: expected keys or wrappedKeys: Envoy hands secrets (SDS) only to dynamic modules, from 1.40 on"
        }
        Build::Module if gets_secrets()? => "sdsKeys: Envoy does not take it",
        Build::Module => "sdsKeys: Envoy hands secrets (SDS) to dynamic modules from 1.40 on, and this one is older",
    };
    ensure!(said.contains(expected), "{said}");
    Ok(())
}

/// No worker refuses a token under the next key.
async fn until_next_key_is_known(envoy: &Envoy, keyring: &Keyring, backend: &Backend) -> Result<()> {
    let ahead = keyring.copied()?;
    ahead.rotate()?;
    let pair = format!(
        "limpet-session={}",
        ahead.token("limpet-session", &backend.address().to_string())?
    );
    poll::until("every worker to know the next key", async || {
        for _ in 0..20 {
            let answer = envoy.get("/").cookie(&pair).send().await.ok()?;
            if answer.set_cookie("limpet-session").is_some() {
                return None;
            }
        }
        Some(())
    })
    .await
}

#[tokio::test]
async fn a_key_changes_with_the_secret_alone_and_no_session_is_lost() -> Result<()> {
    if !gets_secrets()? {
        return Ok(());
    }
    let keyring = Keyring::generate()?;
    let site = Site::start(config(&keyring)?).await?;
    let addresses = [site.envoy.address()];
    let mut crowd = Crowd::gather(6, &[Carrier::Cookie], &addresses).await?;
    let signs_with = |key: u8| {
        move |answer: &limpet_e2e::Answer| {
            let token = answer.set_cookie("limpet-session").map(|cookie| cookie.value);
            token.and_then(|token| key_of(&token).ok()) == Some(key)
        }
    };
    // The three phases of a rotation, and one more.
    for phase in 1..=4 {
        keyring.rotate()?;
        if phase == 1 {
            until_next_key_is_known(&site.envoy, &keyring, &site.backends[0]).await?;
        } else if phase == 2 {
            site.envoy
                .until_every_worker("signs with the new key", signs_with(2))
                .await?;
        }
        crowd.grow(3, &[Carrier::Cookie], &addresses).await?;
        crowd.rounds(4).await?;
        if phase == 3 {
            poll::until("the old key's tokens to be replaced", async || {
                (site.envoy.metric("web.renewed").await.ok()? >= 6).then_some(())
            })
            .await?;
            crowd.rounds(2).await?;
        }
    }
    let seen = keys_without_loss(&crowd.leave().await)?;
    assert_eq!(seen, BTreeSet::from([vec![1, 2], vec![2]]));
    for refused in ["web.refused.bad_signature", "refused_secrets", "no_keys"] {
        assert_eq!(site.envoy.metric(refused).await?, 0, "{refused}");
    }
    Ok(())
}

/// `sds/keyring.yaml` names a file of Envoy's working directory.
#[tokio::test]
async fn the_shipped_secret_reads_the_working_directory() -> Result<()> {
    if !gets_secrets()? {
        return Ok(());
    }
    let keyring = Keyring::generate()?;
    let folder = keyring.file();
    let folder = folder.parent().context("no folder")?;
    let site = Site::start(Config::load("module-sds.yaml")?.within(folder)).await?;
    let signs_with = |key: u8| {
        move |answer: &limpet_e2e::Answer| {
            let token = answer.set_cookie("limpet-session").map(|cookie| cookie.value);
            token.and_then(|token| key_of(&token).ok()) == Some(key)
        }
    };
    let signs = "signs with the key of the file";
    site.envoy.until_every_worker(signs, signs_with(1)).await?;
    // A new file replaces the old one, and no configuration changes.
    keyring.rotate()?;
    until_next_key_is_known(&site.envoy, &keyring, &site.backends[0]).await?;
    keyring.rotate()?;
    site.envoy.until_every_worker(signs, signs_with(2)).await?;
    assert_eq!(site.envoy.metric("refused_secrets").await?, 0);
    Ok(())
}

#[tokio::test]
async fn requests_before_the_secret_arrives_have_no_sessions() -> Result<()> {
    if !gets_secrets()? {
        return Ok(());
    }
    let keyring = Keyring::generate()?;
    let mut site = Site::start(config(&keyring)?.secrets(&json!([])).alone()).await?;
    for _ in 0..6 {
        let answer = site.envoy.get("/").cookie("limpet-session=x").send().await?;
        assert_eq!((answer.status, answer.set_cookies().len()), (200, 0));
    }
    site.envoy.until_stat(&Build::Module.counter("no_keys"), 6).await?;
    assert_eq!(site.envoy.metric("host_errors").await?, 0);
    let text = std::fs::read_to_string(keyring.file())?;
    site.envoy
        .update(|config| config.secrets(&json!([secret(NAME, &text)])))?;
    site.envoy
        .until_every_worker("has the keyring", |answer| {
            answer.set_cookie("limpet-session").is_some()
        })
        .await
}

#[tokio::test]
async fn an_invalid_keyring_secret_is_refused_and_sessions_go_on() -> Result<()> {
    if !gets_secrets()? {
        return Ok(());
    }
    let keyring = Keyring::generate()?;
    let good = std::fs::read_to_string(keyring.file())?;
    let site = Site::start(config(&keyring)?).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    let two_sign = good.replace(
        "\n  ]",
        ", {\"id\": 2, \"state\": \"signing\", \"secret\": \"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\"}]",
    );
    for (number, (bad, field)) in [("{}", "keyring"), (two_sign.as_str(), "keys"), ("nonsense", "keyring")]
        .into_iter()
        .enumerate()
    {
        keyring.replace(bad)?;
        poll::until("the refusal", async || {
            visitor.get("/").await.ok()?;
            (site.envoy.metric("refused_secrets").await.ok()? == number as u64 + 1).then_some(())
        })
        .await?;
        let log = site.envoy.log()?;
        ensure!(
            log.contains(&format!("limpet: secret refused: {field}: ")),
            "{field} is not in the log"
        );
        for _ in 0..10 {
            let answer = visitor.get("/").await?;
            assert_eq!(
                (answer.backend(), answer.set_cookies().len()),
                (first.backend(), 0),
                "{bad}"
            );
        }
    }
    keyring.replace(&good)?;
    keyring.rotate()?;
    keyring.rotate()?;
    site.envoy
        .until_every_worker("signs with the new key", |answer| {
            answer
                .set_cookie("limpet-session")
                .is_some_and(|cookie| key_of(&cookie.value).is_ok_and(|key| key == 2))
        })
        .await?;
    assert_eq!(visitor.get("/").await?.backend(), first.backend());
    Ok(())
}

fn with_static_secret(content: &str, sds: &Value) -> Result<Config> {
    let config = Config::load("cookie.yaml")?.filter(&filter(sds));
    let mut secret = secret(NAME, content);
    secret.as_object_mut().context("no object")?.remove("@type");
    Ok(config.edit(|bootstrap| bootstrap["static_resources"]["secrets"] = json!([secret])))
}

#[tokio::test]
async fn a_secret_in_the_bootstrap_configuration_works() -> Result<()> {
    if !gets_secrets()? {
        return Ok(());
    }
    let text = std::fs::read_to_string(Keyring::generate()?.file())?;
    let site = Site::start(with_static_secret(&text, &json!({"name": NAME}))?).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    ensure!(first.set_cookie("limpet-session").is_some());
    for _ in 0..6 {
        assert_eq!(visitor.get("/").await?.backend(), first.backend());
    }
    Ok(())
}

#[tokio::test]
async fn an_error_at_the_start_names_its_field() -> Result<()> {
    if !gets_secrets()? {
        return Ok(());
    }
    let named = |name: &str| json!({"name": name});
    let source = |source: Value| json!({"name": NAME, "sdsConfig": source});
    for (content, sds, expected) in [
        (
            "{\"keys\": []}",
            named(NAME),
            "sdsKeys.name: expected a secret that holds a keyring; keys: expected one key with state signing",
        ),
        (
            "nonsense",
            named(NAME),
            "sdsKeys.name: expected a secret that holds a keyring; keyring: ",
        ),
        ("{}", named("another"), "sdsKeys: Envoy does not take it"),
        ("{}", source(json!({"nonsense": 1})), "sdsKeys: Envoy does not take it"),
        ("{}", named(""), "sdsKeys.name: expected the name of a secret"),
        ("{}", source(json!(1)), "sdsKeys.sdsConfig: "),
    ] {
        let (accepted, said) = Envoy::validate(&with_static_secret(content, &sds)?).await?;
        ensure!(!accepted && said.contains(expected), "{expected}: {said}");
    }
    Ok(())
}
