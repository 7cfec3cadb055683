//! Secrets of certificates that are deleted, damaged, or may not be written.

use std::time::Duration;

use anyhow::{Context, Result};
use base64::prelude::{BASE64_STANDARD, Engine};
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::{AUTHORITY, AuthoritySite};
use crate::failures::rights::without;
use crate::failures::until_sessions;
use crate::kept::until_event;

/// The Secrets of Gateways are read once a minute.
const LOOK: Duration = Duration::from_secs(100);

fn damage(field: &str) -> Value {
    json!({"data": {field: BASE64_STANDARD.encode("damaged")}})
}

#[tokio::test]
async fn a_lost_authority_is_made_again_and_a_damaged_one_is_told() -> Result<()> {
    let site = AuthoritySite::start("lost", json!({})).await?;
    let first = site.namespace.get("v1/Secret", AUTHORITY).await?;
    let made_again =
        |secret: &Value| secret["metadata"]["uid"] != first["metadata"]["uid"] && secret["data"] == first["data"];
    site.namespace.delete("v1/Secret", AUTHORITY).await?;
    let again = site
        .namespace
        .until("the same", "v1/Secret", AUTHORITY, made_again)
        .await?;

    site.namespace.merge("v1/Secret", AUTHORITY, &damage("tls.crt")).await?;
    let words = "data[tls.crt]: expected the certificate of one authority";
    until_event(&site.namespace, "Secret", AUTHORITY, "Invalid", words).await?;
    let mut envoy = site.envoy("web", "web").await?;
    envoy.proxy.until_ready().await?;
    until_sessions(&site.controller).await?;

    let second = again["metadata"]["uid"].clone();
    site.namespace.delete("v1/Secret", AUTHORITY).await?;
    let whole = |secret: &Value| secret["metadata"]["uid"] != second && secret["data"] == first["data"];
    site.namespace
        .until("the same", "v1/Secret", AUTHORITY, whole)
        .await
        .map(drop)
}

#[tokio::test]
async fn a_damaged_secret_of_a_gateway_is_written_again() -> Result<()> {
    let site = AuthoritySite::start("damaged", json!({})).await?;
    let name = site.secret("web");
    let namespace = &site.namespace;
    let good = namespace.until("its Secret", "v1/Secret", &name, |_| true).await?;
    namespace.merge("v1/Secret", &name, &damage("tls.key")).await?;
    let mended = poll::until_within(LOOK, "another certificate", async || {
        let now = namespace.get("v1/Secret", &name).await.ok()?;
        (now["data"]["tls.key"] != damage("tls.key")["data"]["tls.key"]).then_some(now)
    })
    .await?;
    assert_eq!(mended["data"]["ca.crt"], good["data"]["ca.crt"]);
    namespace.delete("v1/Secret", &name).await?;
    poll::until_within(LOOK, "the Secret", async || {
        namespace.find("v1/Secret", &name).await.ok().flatten()
    })
    .await?;
    let mut envoy = site.envoy("web", "web").await?;
    envoy.proxy.until_ready().await?;
    until_sessions(&site.controller).await
}

#[tokio::test]
async fn without_rights_on_secrets_an_event_says_so() -> Result<()> {
    let site = AuthoritySite::start("no-secrets", json!({})).await?;
    let (namespace, secret) = (&site.namespace, site.secret("web"));
    namespace.until("its Secret", "v1/Secret", &secret, |_| true).await?;
    let rules = namespace.get("Role", "limpet-controller").await?["rules"].take();
    without(namespace, "Role", &rules, "patch", &["secrets"]).await?;
    namespace.delete("v1/Secret", &secret).await?;
    let words = "cannot patch resource \"secrets\"";
    let told = poll::until_within(LOOK, "the refusal in the log", async || {
        site.controller.log().ok()?.contains(words).then_some(())
    })
    .await;
    told.with_context(|| site.controller.log().unwrap_or_default())?;
    until_event(namespace, "Secret", &secret, "WriteRefused", words).await?;
    let granted = json!({"rules": rules});
    namespace.merge("Role", "limpet-controller", &granted).await?;
    namespace
        .until("its Secret", "v1/Secret", &secret, |_| true)
        .await
        .map(drop)
}
