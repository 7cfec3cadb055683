//! The controller reports missing verbs of `controller/deploy/rbac.yaml` in its own namespace.

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Release};
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::rights::without;
use super::{WEB, objects};
use crate::kept::until_event;
use crate::keyring::{KEK, KEYRING, request_rotation};

const FENCES: &str = "limpet-fences";
const LEASE: &str = "coordination.k8s.io/v1/Lease";

struct RestrictedController {
    namespace: Namespace,
    controller: Controller,
    rules: Value,
}

impl RestrictedController {
    async fn without(&self, verb: &str, resource: &str) -> Result<()> {
        let log = self.controller.log().unwrap_or_default();
        ensure!(
            !log.contains(&missed(verb, resource)),
            "the controller says that it lacks a verb that it has:\n{log}"
        );
        without(&self.namespace, "Role", &self.rules, verb, &[resource]).await
    }

    /// Waits until the controller reports it.
    async fn until_missed(&self, verb: &str, resource: &str) -> Result<()> {
        let words = missed(verb, resource);
        let told = async || self.controller.log().ok()?.contains(&words).then_some(());
        let told = poll::until(&format!("the controller to miss {verb} of {resource}"), told).await;
        told.with_context(|| self.controller.log().unwrap_or_default())
    }

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
async fn each_missing_verb_in_the_own_namespace_is_reported() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("own-rights").await?;
    let [a, b] = objects(&namespace).await?;
    let mut controller = Controller::prepare(cluster.server(), &namespace, |config| {
        config["keyring"] = json!({"phaseTime": "100ms"});
    })
    .await?;
    let rules = namespace.get("Role", "limpet-controller").await?["rules"].take();
    controller.environment("RUST_LOG", "warn");
    let mut restricted = RestrictedController {
        namespace,
        controller,
        rules,
    };

    // None of these objects exists yet. A replica without the Lease writes nothing.
    restricted.without("create", "leases").await?;
    restricted.controller.launch()?;
    restricted.until_missed("create", "leases").await?;
    restricted.without("create", "secrets").await?;
    restricted.until_missed("create", "secrets").await?;
    let words = missed("create", "secrets");
    until_event(&restricted.namespace, "Secret", KEK, "WriteRefused", &words).await?;
    restricted.with_all().await?;
    restricted.controller.until_ready().await?;
    restricted.without("update", "leases").await?;
    restricted.until_missed("update", "leases").await?;
    // A running watch needs no rights, and a held Lease is not read.
    for verb in ["patch", "get", "list", "watch"] {
        restricted.controller.kill();
        restricted.without(verb, "leases").await?;
        restricted.controller.launch()?;
        restricted.until_missed(verb, "leases").await?;
    }
    // It must know an address's owner before that changes.
    restricted.controller.until_ready().await?;

    restricted.without("update", "secrets").await?;
    request_rotation(&restricted.namespace, "now").await?;
    restricted.until_missed("update", "secrets").await?;
    let words = missed("update", "secrets");
    until_event(&restricted.namespace, "Secret", KEYRING, "WriteRefused", &words).await?;

    restricted.without("create", "configmaps").await?;
    let ip = a.remove().await?;
    let _heir = restricted.namespace.pod_at("heir", WEB, ip).await?;
    restricted.until_missed("create", "configmaps").await?;
    let words = missed("create", "configmaps");
    until_event(&restricted.namespace, "ConfigMap", FENCES, "WriteRefused", &words).await?;
    restricted.with_all().await?;
    let has = |fences: &Value, count: usize| {
        let text = fences["data"]["fences.json"].as_str().unwrap_or_default();
        serde_json::from_str::<Vec<Value>>(text).is_ok_and(|fences| fences.len() == count)
    };
    restricted
        .namespace
        .until("a fence", "v1/ConfigMap", FENCES, |map| has(map, 1))
        .await?;
    restricted.without("patch", "configmaps").await?;
    let ip = b.remove().await?;
    let _other_heir = restricted.namespace.pod_at("other-heir", WEB, ip).await?;
    restricted.until_missed("patch", "configmaps").await?;

    restricted.with_all().await?;
    restricted
        .namespace
        .until("both fences", "v1/ConfigMap", FENCES, |map| has(map, 2))
        .await?;
    let rotated = |secret: &Value| secret["metadata"]["annotations"]["limpet.dev/rotated"] == "now";
    restricted
        .namespace
        .until("another key", "v1/Secret", KEYRING, rotated)
        .await
        .map(drop)
}

/// An uninstallation takes the leader's rights before its process has ended. The next installation need not wait until
/// its Lease expires.
#[tokio::test]
async fn the_lease_goes_with_the_account_of_its_holder() -> Result<()> {
    const ACCOUNT: &str = "v1/ServiceAccount";
    let name = "limpet-controller";
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("account").await?;
    namespace.gateway_class().await?;
    let _former = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    let is_held = |lease: &Value| lease["spec"]["holderIdentity"].is_string();
    let former = namespace.until("a holder", LEASE, name, is_held).await?;
    let account = namespace.get(ACCOUNT, name).await?;
    let owners = &former["metadata"]["ownerReferences"];
    assert_eq!(owners[0]["uid"], account["metadata"]["uid"], "{owners}");

    namespace.delete(ACCOUNT, name).await?;
    namespace.until_gone(LEASE, name).await?;
    let _next = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    let account = namespace.get(ACCOUNT, name).await?;
    let is_next = |lease: &Value| {
        let owner = &lease["metadata"]["ownerReferences"][0]["uid"];
        is_held(lease) && *owner == account["metadata"]["uid"]
    };
    namespace.until("another holder", LEASE, name, is_next).await.map(drop)
}
