//! The controller's keyring in a Secret.

use anyhow::{Context, Result};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine};
use limpet_e2e::kube::Namespace;
use serde_json::{Value, json};

pub(crate) const KEYRING: &str = "limpet-keyring";
/// The Secret, and its field, which is also the variable in Envoy's environment.
const KEY_ENCRYPTION_KEY: (&str, &str) = ("limpet-key-encryption-key", "LIMPET_KEK_1");

pub(crate) async fn environment(namespace: &Namespace) -> Result<(&'static str, String)> {
    let (secret, field) = KEY_ENCRYPTION_KEY;
    let secret = namespace.get("v1/Secret", secret).await?;
    let text = decoded(&secret, field)?;
    Ok((field, String::from_utf8(text)?))
}

/// The states of keys, such as `1 signing, 2 verifying`.
pub(crate) async fn states(namespace: &Namespace) -> Result<String> {
    let secret = namespace.get("v1/Secret", KEYRING).await?;
    let document: Value = serde_json::from_slice(&decoded(&secret, "keyring.json")?)?;
    let keys = document["keys"].as_array().context("no keys")?.iter();
    let states = keys.map(|key| format!("{} {}", key["id"], key["state"].as_str().unwrap_or("?")));
    Ok(states.collect::<Vec<_>>().join(", "))
}

pub(crate) async fn rotate(namespace: &Namespace) -> Result<()> {
    let change = json!({"metadata": {"annotations": {"limpet.dev/rotate": "demo"}}});
    namespace.merge("v1/Secret", KEYRING, &change).await.map(drop)
}

/// The id of a token's key: its second byte, which is not encrypted (`docs/reference/token.md`).
pub(crate) fn of_token(token: &str) -> Result<u8> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token)?;
    bytes.get(1).copied().context("the token is too short")
}

pub(crate) fn forged(token: &str) -> Result<String> {
    let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(token)?;
    *bytes.last_mut().context("the token is empty")? ^= 1;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

fn decoded(secret: &Value, field: &str) -> Result<Vec<u8>> {
    let text = secret["data"][field].as_str();
    let text = text.with_context(|| format!("the Secret {} has no {field}", secret["metadata"]["name"]))?;
    Ok(BASE64_STANDARD.decode(text)?)
}
