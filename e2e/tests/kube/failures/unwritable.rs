//! The API server refuses the controller's writes, as when its disk is full or a quota is used.

use anyhow::{Result, ensure};
use hyper::Method;
use limpet_e2e::kube::{Cluster, Namespace, Release, refused};
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::clocks::end;
use crate::admission;
use crate::kept::until_event;
use crate::keyring::{KEYRING, KeyringSite, request_rotation};

const WEB: &[(&str, &str)] = &[("app", "web")];
const FENCES: &str = "limpet-fences";
const NO_SPACE: &str = "no space is left";

/// Refuses what the controller keeps in the namespace.
async fn refuse_writes(namespace: &Namespace) -> Result<()> {
    let account = format!("system:serviceaccount:{}:limpet-controller", namespace.name());
    let expression = format!("request.userInfo.username != '{account}'");
    admission::refuse(namespace, "", &["configmaps", "secrets"], &expression, NO_SPACE).await
}

#[tokio::test]
async fn refused_writes_are_events_and_harm_no_session() -> Result<()> {
    let mut site = KeyringSite::start_with("full", "300ms", "1h").await?;
    refuse_writes(&site.namespace).await?;
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let account = cluster
        .server()
        .service_account(site.namespace.name(), "limpet-controller")
        .await?;
    let controller = site.namespace.as_user(account);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "any"}});
    let path = format!("/api/v1/namespaces/{}/configmaps?dryRun=All", site.namespace.name());
    poll::until("the API server to know its policy", async || {
        let answer = controller
            .call(Method::POST, &path, "application/json", Some(&map))
            .await;
        refused(answer).ok()?.message.contains(NO_SPACE).then_some(())
    })
    .await?;
    request_rotation(&site.namespace, "now").await?;
    until_event(&site.namespace, "Secret", KEYRING, "WriteRefused", NO_SPACE).await?;
    let crowd = site.crowd().await?;
    crowd.rounds(3).await?;

    // The fence cannot be written. The address waits for it in vain, but not for ever.
    let ip = end(&mut site).await?;
    let _heir = site.namespace.pod_at("heir", WEB, ip).await?;
    until_event(&site.namespace, "ConfigMap", FENCES, "WriteRefused", NO_SPACE).await?;
    poll::until("a session at the heir", async || {
        let (_, backend) = site.session().await.ok()?;
        (backend == "heir").then_some(())
    })
    .await?;
    let counted = site.controller.metric("limpet_unacknowledged_fences_total").await?;
    ensure!(counted == "1", "{counted}");
    crowd.rounds(3).await?;

    admission::allow(&site.namespace).await?;
    let has = |map: &Value| {
        map["data"]["fences.json"]
            .as_str()
            .is_some_and(|list| list.contains("notBefore"))
    };
    site.namespace.until("the fence", "v1/ConfigMap", FENCES, has).await?;
    let journeys = crowd.leave().await;
    journeys.none_failed()
}
