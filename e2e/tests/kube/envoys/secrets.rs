//! The Secrets of Envoys in their Gateways' namespaces. A refused Secret stops no other tenant.

use anyhow::{Context, Result};
use limpet_api::ObjectName;
use limpet_e2e::kube::{Cluster, Controller, Namespace};
use limpet_e2e::poll;
use limpet_model::{envoys_certificate, envoys_keys};
use serde_json::{Value, json};

use super::{SECRET, allow_in, allow_secrets, gateway_of, namespace};
use crate::kept::until_event;
use crate::mounted::texts;

const AUTHORITY: &str = "limpet-xds-authority";
const REFUSED: &str = "limpet_xds_refused_secrets";

struct Tenant(Namespace);

impl Tenant {
    async fn new(cluster: &Cluster, prefix: &str) -> Result<Self> {
        Ok(Self(cluster.namespace(prefix).await?))
    }

    fn secret(&self) -> String {
        envoys_certificate(&ObjectName::new(self.0.name(), "web"))
    }

    /// Waits until its Envoys trust only this authority.
    async fn until_trusts(&self, authority: &str) -> Result<()> {
        let trusts = |secret: &Value| field(secret, "ca.crt").as_deref() == Some(authority);
        self.0
            .until("the authority", SECRET, &self.secret(), trusts)
            .await
            .map(drop)
    }

    /// Waits for an Event on this Secret about its refusal.
    async fn until_told(&self, secret: &str, reason: &str, words: &str) -> Result<()> {
        until_event(&self.0, "Secret", secret, reason, words).await.map(drop)
    }
}

fn field(secret: &Value, name: &str) -> Option<String> {
    let all = texts(secret).ok()?;
    Some(all.into_iter().find(|(field, _)| field == name)?.1)
}

/// A controller with its own authority, and tenants whose Gateways it serves.
struct Site {
    system: Namespace,
    controller: Controller,
}

impl Site {
    async fn start(prefix: &str, tenants: &[&Tenant]) -> Result<Self> {
        let (cluster, system) = namespace(prefix).await?;
        let tenants_names = tenants.iter().map(|tenant| tenant.0.name());
        let namespaces: Vec<_> = tenants_names.chain([system.name()]).collect();
        let mut controller = Controller::prepare(cluster.server(), &system, |config| {
            config["namespaces"] = json!(namespaces);
            config["keyring"] = json!({});
            config["envoy"]["managed"] = json!({"namespace": "Gateway"});
            let tls = json!({"authority": {"phaseTime": "1s"}});
            config["xds"] = json!({"address": config["xds"]["address"], "tls": tls});
        })
        .await?;
        allow_secrets(&system).await?;
        for tenant in tenants {
            gateway_of(&tenant.0, system.name(), "web", &json!({})).await?;
        }
        controller.launch()?;
        controller.until_ready().await?;
        Ok(Self { system, controller })
    }

    /// Returns the new authority once the former one is forgotten.
    async fn rotate(&self) -> Result<String> {
        let former = self.system.get("v1/Secret", AUTHORITY).await?;
        let wish = json!({"metadata": {"annotations": {"limpet.dev/rotate": "now"}}});
        self.system.merge(SECRET, AUTHORITY, &wish).await?;
        let is_settled = |secret: &Value| {
            let signing = field(secret, "tls.crt");
            signing != field(&former, "tls.crt") && signing == field(secret, "ca.crt")
        };
        let settled = self.system.until("another authority", SECRET, AUTHORITY, is_settled);
        let settled = settled
            .await
            .with_context(|| self.controller.log().unwrap_or_default())?;
        field(&settled, "tls.crt").context("no authority")
    }

    async fn until_refused(&self, count: &str) -> Result<()> {
        let told = async || (self.controller.metric(REFUSED).await.ok()? == count).then_some(());
        let told = poll::until(&format!("{count} refused Secrets"), told).await;
        told.with_context(|| self.controller.log().unwrap_or_default())
    }
}

#[tokio::test]
async fn a_refused_secret_stops_nobody_elses_certificates() -> Result<()> {
    let cluster = Cluster::shared(limpet_e2e::kube::Release::V1_7_0).await?;
    let tenant = async |prefix| Tenant::new(cluster, prefix).await;
    let good = [
        tenant("good-a").await?,
        tenant("good-b").await?,
        tenant("good-c").await?,
    ];
    let [closed, full, taken] = [tenant("closed").await?, tenant("full").await?, tenant("taken").await?];
    let quota = json!({
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {"count/secrets": "0"}},
    });
    full.0.apply_object(&quota).await?;
    // As from the cluster's controller of quotas.
    let counted = json!({"hard": {"count/secrets": "0"}, "used": {"count/secrets": "0"}});
    full.0.merge_status("v1/ResourceQuota", "none", &counted).await?;
    let theirs = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": taken.secret()},
        "stringData": {"tls.crt": "theirs", "tls.key": "theirs"},
    });
    taken.0.apply_object(&theirs).await?;
    let all: Vec<_> = good.iter().chain([&closed, &full, &taken]).collect();
    let site = Site::start("refused", &all).await?;
    for tenant in good.iter().chain([&full, &taken]) {
        allow_in(&site.system, &tenant.0).await?;
    }

    // Half of the tenants are no reason to wait.
    site.until_refused("3").await?;
    let authority = site.rotate().await?;
    for tenant in &good {
        tenant.until_trusts(&authority).await?;
    }
    let words = "cannot list resource \"secrets\"";
    closed.until_told(&closed.secret(), "ReadRefused", words).await?;
    // One stands for all of its namespace.
    let keys = envoys_keys(&ObjectName::new(full.0.name(), "web"));
    full.until_told(&keys, "WriteRefused", "exceeded quota").await?;
    let words = format!("expected no other Secret {}/{}", taken.0.name(), taken.secret());
    taken.until_told(&taken.secret(), "WriteRefused", &words).await?;
    let left_alone = taken.0.get(SECRET, &taken.secret()).await?;
    assert_eq!(field(&left_alone, "tls.crt").as_deref(), Some("theirs"));

    // A tenant that is mended has what the others have.
    allow_in(&site.system, &closed.0).await?;
    full.0.delete("v1/ResourceQuota", "none").await?;
    taken.0.delete(SECRET, &taken.secret()).await?;
    for tenant in [&closed, &full, &taken] {
        tenant.until_trusts(&authority).await?;
    }
    site.until_refused("0").await
}
