//! The key of tokens changes.

use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::PATIENCE;
use crate::site::Site;

const KEYRING: &str = "limpet-keyring";

/// Asks for a rotation, and waits until another key signs and no third one is under way.
pub(super) async fn rotation(site: &Site, number: usize) -> Result<()> {
    let change = json!({"metadata": {"annotations": {"limpet.dev/rotate": number.to_string()}}});
    let before = signing(&site.system.merge("v1/Secret", KEYRING, &change).await?)?;
    let what = format!("another key than {before} to sign");
    poll::until_within(PATIENCE, &what, async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let secret = site.system.get("v1/Secret", KEYRING).await.ok()?;
        let now = signing(&secret).ok()?;
        (now != before && has_retired(&secret, &before).ok()?).then_some(())
    })
    .await
}

fn keys(secret: &Value) -> Result<Vec<Value>> {
    let text = secret["data"]["keyring.json"].as_str().context("no keyring")?;
    let mut keyring: Value = serde_json::from_slice(&STANDARD.decode(text)?)?;
    Ok(serde_json::from_value(keyring["keys"].take())?)
}

fn signing(secret: &Value) -> Result<Value> {
    let keys = keys(secret)?;
    let key = keys.iter().find(|key| key["state"] == "signing");
    Ok(key.context("no key signs")?["id"].clone())
}

/// Whether tokens of this key are replaced.
fn has_retired(secret: &Value, id: &Value) -> Result<bool> {
    let keys = keys(secret)?;
    Ok(keys.iter().any(|key| key["id"] == *id && key["state"] == "retiring"))
}
