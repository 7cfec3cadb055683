//! Certificates and their authority change while Envoys run.

use anyhow::{Context, Result};
use limpet_e2e::kube::{Cluster, Namespace, Release};
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::{AUTHORITY, AuthoritySite, TlsEnvoy, replica};
use crate::failures::{crowd, nothing_happened, redirect, until_programmed, until_redirected, until_sessions};
use crate::mounted::texts;

async fn field(namespace: &Namespace, secret: &str, name: &str) -> Result<String> {
    let all = texts(&namespace.get("v1/Secret", secret).await?)?;
    let found = all.into_iter().find(|(field, _)| field == name);
    Ok(found.with_context(|| format!("{secret} has no {name}"))?.1)
}

fn is_settled(secret: &Value) -> bool {
    texts(secret).is_ok_and(|all| {
        let value = |name: &str| all.iter().find(|(field, _)| field == name).map(|(_, value)| value);
        value("ca.crt").is_some() && value("ca.crt") == value("tls.crt")
    })
}

#[tokio::test]
async fn an_authority_changes_while_envoys_come_and_go() -> Result<()> {
    let settings = json!({"phaseTime": "2s"});
    let mut site = AuthoritySite::start("rotated", settings.clone()).await?;
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let second = replica(cluster, &site.namespace, settings).await?;
    let mut first_envoy = site.envoy("web", "web").await?;
    first_envoy.proxy.until_ready().await?;
    until_sessions(&site.controller).await?;
    let crowd = crowd(&site.controller).await?;
    let former = field(&site.namespace, AUTHORITY, "tls.crt").await?;

    let wish = json!({"metadata": {"annotations": {"limpet.dev/rotate": "now"}}});
    site.namespace.merge("v1/Secret", AUTHORITY, &wish).await?;
    let begun = |secret: &Value| !secret["data"]["next.crt"].is_null();
    site.namespace.until("phase 1", "v1/Secret", AUTHORITY, begun).await?;
    // The leader ends amid a phase, whose state is in the Secret.
    site.controller.end().await?;
    // A new Envoy connects in any phase. It listens where no other one does.
    let xds = second.xds();
    let connected = format!("limpet_clients{{gateway=\"{}/web\"}}", site.namespace.name());
    let mut rounds = 0;
    while !is_settled(&site.namespace.get("v1/Secret", AUTHORITY).await?) {
        let new = TlsEnvoy::start(&site, "web", "web", xds, "DELTA_GRPC").await?;
        let there = async || (second.metric(&connected).await.ok()? != "0").then_some(());
        poll::until("a new Envoy to be connected", there).await?;
        drop(new);
        rounds += 1;
    }
    assert!(rounds > 0, "the rotation was over before an Envoy came");
    assert_ne!(field(&site.namespace, AUTHORITY, "tls.crt").await?, former);

    // The former one is forgotten. An Envoy that has run all the time reconnects with its folder's new content.
    let own = site.secret("web");
    let trusted = |secret: &Value| texts(secret).is_ok_and(|all| !all.iter().any(|(_, text)| text.contains(&former)));
    site.namespace
        .until("no former authority", "v1/Secret", &own, trusted)
        .await?;
    site.controller.launch()?;
    site.controller.until_ready().await?;
    site.namespace.apply(&redirect("rotated")).await?;
    until_redirected(&site.controller, "/rotated", true).await?;
    nothing_happened(crowd).await
}

#[tokio::test]
async fn an_envoy_goes_on_while_its_certificate_is_renewed() -> Result<()> {
    let settings = json!({"life": "10m", "certificateLife": "20s", "phaseTime": "1s"});
    let mut site = AuthoritySite::start("own-renewed", settings).await?;
    let mut envoy = site.envoy("web", "web").await?;
    envoy.proxy.until_ready().await?;
    until_sessions(&site.controller).await?;
    let crowd = crowd(&site.controller).await?;
    let secret = site.secret("web");
    let first = field(&site.namespace, &secret, "tls.crt").await?;

    // Until the first one has ended, at the second renewal.
    let mut certificates = vec![first];
    while certificates.len() < 3 {
        let is_new = |secret: &Value| {
            texts(secret).is_ok_and(|all| all.iter().all(|(_, text)| Some(text) != certificates.last()))
        };
        site.namespace
            .until("another certificate", "v1/Secret", &secret, is_new)
            .await?;
        certificates.push(field(&site.namespace, &secret, "tls.crt").await?);
    }
    let metric = "limpet_xds_certificate_expiry_seconds{certificate=\"server\"}";
    let left: f64 = site.controller.metric(metric).await?.parse()?;
    assert!(left > 0.0 && left < 20.0, "{left}");
    site.controller.end().await?;
    site.controller.launch()?;
    site.controller.until_ready().await?;
    site.namespace.apply(&redirect("renewed")).await?;
    until_redirected(&site.controller, "/renewed", true).await?;
    until_programmed(&site.namespace, "web", "True/Programmed").await?;
    nothing_happened(crowd).await
}
