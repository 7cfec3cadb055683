//! A key rotation by changes to the object, without a restart of Envoy.

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::Proxy;
use limpet_e2e::{Build, Carrier, Crowd, KeyEncryptionKey, Keyring, tools};

use crate::site::EnvoyGatewaySite;

/// The object with a wrapped keyring. For wasm: wrapped-keys.yaml in the object of wasm.yaml, as its comment says.
fn session(site: &EnvoyGatewaySite, build: Build, text: &str) -> Result<String> {
    let wrapped = site.manifest("wrapped-keys.yaml")?;
    let config = wrapped.split_once("    config:\n").context("no config")?.1;
    let old = config
        .lines()
        .find_map(|line| line.trim().strip_prefix("text: "))
        .context("no text")?;
    let wrapped = match build {
        Build::Module => wrapped.clone(),
        Build::Wasm => {
            let example = site.manifest("wasm.yaml")?;
            let object = example
                .split("---\n")
                .find(|object| object.contains("EnvoyExtensionPolicy"))
                .context("no policy")?;
            let head = object.split_once("    config:").context("no config")?.0;
            let head = head.replace("LIMPET_KEY", "LIMPET_KEK_1");
            format!("{head}    config:\n{config}")
        }
    };
    Ok(wrapped.replace(old, text))
}

/// Waits until both workers have this keyring, whose text the configuration dump shows.
async fn until_served(site: &EnvoyGatewaySite, envoy: &Proxy, text: &str) -> Result<()> {
    limpet_e2e::poll::until("the keyring in Envoy", async || {
        let dump = envoy
            .admin()
            .text("/config_dump?resource=dynamic_listeners")
            .await
            .ok()?;
        let listeners: serde_json::Value = serde_json::from_str(&dump).ok()?;
        let active = listeners["configs"].as_array()?.iter().any(|listener| {
            listener["active_state"].to_string().contains(text) && listener.get("warming_state").is_none()
        });
        active.then_some(())
    })
    .await?;
    site.until_sessions().await
}

async fn a_key_changes_while_clients_come_by(build: Build) -> Result<()> {
    let site = EnvoyGatewaySite::prepare("keys", build).await?;
    let keyring = Keyring::generate()?;
    let key = KeyEncryptionKey::generate(1)?;
    site.secret("limpet", &key.variable, &key.key).await?;
    let example = site.manifest(site.example())?.replace("LIMPET_KEY", &key.variable);
    let text = keyring.wrap(&key)?;
    site.namespace.apply(&example).await?;
    site.namespace.apply(&session(&site, build, &text)?).await?;
    let envoy = site.envoy().await?;
    until_served(&site, &envoy, &text).await?;

    let crowd = Crowd::gather(12, &[Carrier::Cookie], &[site.address()]).await?;
    let first = site.session_on("a").await?;
    let mut last = text;
    // The new key verifies, then signs; the old key retires, then is removed.
    for _ in 0..4 {
        keyring.rotate()?;
        let text = keyring.wrap(&key)?;
        ensure!(text != last, "no phase");
        site.namespace.apply(&session(&site, build, &text)?).await?;
        until_served(&site, &envoy, &text).await?;
        crowd.rounds(3).await?;
        last = text;
    }
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.all_stayed()?;
    for journey in &journeys.0 {
        let tokens = journey.tokens().len();
        // The first token, and its replacement when its key retired.
        ensure!(tokens == 2, "a session had {tokens} tokens");
    }
    // A client that was away gets a new session.
    let mut first = first;
    let answer = first.get("/").await?;
    assert_eq!(answer.status, 200);
    assert!(answer.set_cookie("limpet-session").is_some());

    let dump = envoy.admin().text("/config_dump").await?;
    for secret in keyring.secrets()?.iter().chain([&key.key]) {
        assert!(!dump.contains(secret));
    }
    Ok(())
}

#[tokio::test]
async fn a_rotation_under_load_loses_no_session_with_the_module() -> Result<()> {
    a_key_changes_while_clients_come_by(Build::Module).await
}

#[tokio::test]
async fn a_rotation_under_load_loses_no_session_with_wasm() -> Result<()> {
    a_key_changes_while_clients_come_by(Build::Wasm).await
}

/// From the comment of wrapped-keys.yaml.
#[tokio::test]
async fn the_command_puts_a_keyring_into_the_object() -> Result<()> {
    let site = EnvoyGatewaySite::prepare("into", Build::Module).await?;
    let (keyring, key) = (Keyring::generate()?, KeyEncryptionKey::generate(1)?);
    let directory = tempfile::TempDir::new()?;
    let file = directory.path().join("wrapped-keys.yaml");
    std::fs::write(&file, site.manifest("wrapped-keys.yaml")?)?;
    keyring.wrap_into(&file, &key)?;
    let written = std::fs::read_to_string(&file)?;
    assert_eq!(written, session(&site, Build::Module, &keyring.wrap(&key)?)?);
    let path = file.to_string_lossy();
    let checked = tools::run_limpet(&["check", "--env", &path], &[(&key.variable, &key.key)])?;
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    Ok(())
}
