//! A verb less than `controller/deploy/rbac.yaml` grants for what the controller keeps in its own namespace is missed, and said.

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Release};
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::rights::without;
use super::{WEB, objects};
use crate::kept::until_event;
use crate::keyring::{KEK, KEYRING, wish};

const FENCES: &str = "limpet-fences";

/// A controller whose role a test changes.
struct Stage {
    namespace: Namespace,
    controller: Controller,
    rules: Value,
}

impl Stage {
    /// Takes a verb away.
    async fn without(&self, verb: &str, resource: &str) -> Result<()> {
        let log = self.controller.log().unwrap_or_default();
        ensure!(
            !log.contains(&missed(verb, resource)),
            "it is missed though it is there:\n{log}"
        );
        without(&self.namespace, "Role", &self.rules, verb, &[resource]).await
    }

    /// Waits until the controller misses it.
    async fn until_missed(&self, verb: &str, resource: &str) -> Result<()> {
        let words = missed(verb, resource);
        let told = async || self.controller.log().ok()?.contains(&words).then_some(());
        let told = poll::until(&format!("the controller to miss {verb} of {resource}"), told).await;
        told.with_context(|| self.controller.log().unwrap_or_default())
    }

    /// Gives all of them back.
    async fn with_all(&self) -> Result<()> {
        let rules = json!({"rules": self.rules});
        self.namespace
            .merge("Role", "limpet-controller", &rules)
            .await
            .map(drop)
    }
}

fn missed(verb: &str, resource: &str) -> String {
    format!("cannot {verb} resource \"{resource}\"")
}

#[tokio::test]
async fn every_verb_for_secrets_config_maps_and_leases_is_missed_when_it_is_not_there() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("own-rights").await?;
    let [a, b] = objects(&namespace).await?;
    let mut controller = Controller::prepare(cluster.server(), &namespace, |config| {
        config["keyring"] = json!({"phaseTime": "100ms"});
    })
    .await?;
    let rules = namespace.get("Role", "limpet-controller").await?["rules"].take();
    controller.environment("RUST_LOG", "warn");
    let mut stage = Stage {
        namespace,
        controller,
        rules,
    };

    // Nothing of all this is there yet. Who may not take the Lease writes nothing else.
    stage.without("create", "leases").await?;
    stage.controller.launch()?;
    stage.until_missed("create", "leases").await?;
    stage.without("create", "secrets").await?;
    stage.until_missed("create", "secrets").await?;
    let words = missed("create", "secrets");
    until_event(&stage.namespace, "Secret", KEK, "WriteRefused", &words).await?;
    stage.with_all().await?;
    stage.controller.until_ready().await?;
    for verb in ["patch", "get", "update"] {
        stage.without(verb, "leases").await?;
        stage.until_missed(verb, "leases").await?;
    }

    stage.without("update", "secrets").await?;
    wish(&stage.namespace, "now").await?;
    stage.until_missed("update", "secrets").await?;
    let words = missed("update", "secrets");
    until_event(&stage.namespace, "Secret", KEYRING, "WriteRefused", &words).await?;

    // An address that another pod gets.
    stage.without("create", "configmaps").await?;
    let ip = a.remove().await?;
    let _heir = stage.namespace.pod_at("heir", WEB, ip).await?;
    stage.until_missed("create", "configmaps").await?;
    let words = missed("create", "configmaps");
    until_event(&stage.namespace, "ConfigMap", FENCES, "WriteRefused", &words).await?;
    stage.with_all().await?;
    let has = |fences: &Value, count: usize| {
        let text = fences["data"]["fences.json"].as_str().unwrap_or_default();
        serde_json::from_str::<Vec<Value>>(text).is_ok_and(|fences| fences.len() == count)
    };
    stage
        .namespace
        .until("a fence", "v1/ConfigMap", FENCES, |map| has(map, 1))
        .await?;
    stage.without("update", "configmaps").await?;
    let ip = b.remove().await?;
    let _other_heir = stage.namespace.pod_at("other-heir", WEB, ip).await?;
    stage.until_missed("update", "configmaps").await?;

    // With all of them, all of it is done.
    stage.with_all().await?;
    stage
        .namespace
        .until("both fences", "v1/ConfigMap", FENCES, |map| has(map, 2))
        .await?;
    let rotated = |secret: &Value| secret["metadata"]["annotations"]["limpet.dev/rotated"] == "now";
    stage
        .namespace
        .until("another key", "v1/Secret", KEYRING, rotated)
        .await
        .map(drop)
}
