use anyhow::Result;
use limpet_e2e::kube::{Cluster, Release};
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::browsers::Browsers;
use super::{ControlledSite, message, nothing_happened, until_connected};

/// For the filter, a changed policy is a new one. Envoy gets it before the routes that name it.
#[tokio::test]
async fn a_policy_that_changes_keeps_its_sessions() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let site = ControlledSite::start(cluster, "policies").await?;
    let crowd = site.crowd().await?;
    for hours in 1..=8 {
        let timeout = format!("{hours}h");
        let change = json!({"spec": {"sessionPersistence": {"absoluteTimeout": timeout}}});
        site.namespace.merge("BackendLBPolicy", "web", &change).await?;
        let served = async || {
            let filter = site
                .envoy
                .admin()
                .text("/config_dump?resource=ecds_filters")
                .await
                .ok()?;
            filter
                .contains(&format!(r#"\"absoluteTimeout\":\"{timeout}\""#))
                .then_some(())
        };
        poll::until(&format!("the timeout {timeout}"), served).await?;
        crowd.rounds(2).await?;
    }

    // A policy goes when no Envoy can have its routes any more.
    let alone = async || {
        let filter = site
            .envoy
            .admin()
            .text("/config_dump?resource=ecds_filters")
            .await
            .ok()?;
        (filter.matches(r#"\"absoluteTimeout\":"#).count() == 1).then_some(())
    };
    poll::until("the former policies to go", alone).await?;
    nothing_happened(crowd).await
}

#[tokio::test]
async fn a_typo_in_a_policy_ends_no_session() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let mut site = ControlledSite::start(cluster, "typo").await?;
    site.until_programmed("True/Programmed").await?;
    let remembered = |memory: &Value| memory["data"].to_string().contains("backendlbpolicy/");
    let memory = ("v1/ConfigMap", "limpet-controller-memory");
    site.namespace
        .until("the policy to be remembered", memory.0, memory.1, remembered)
        .await?;
    let crowd = site.crowd().await?;
    let before = site.updates().await?;
    let annotate = |value: Value| json!({"metadata": {"annotations": {"session.limpet.dev/strikt": value}}});
    let stays = |policy: &Value| {
        let conditions = &policy["status"]["ancestors"][0]["conditions"];
        message(conditions, "Accepted").contains("strikt") && message(conditions, "Accepted").contains("stay in effect")
    };

    let policy = ("BackendLBPolicy", "web");
    site.namespace
        .merge(policy.0, policy.1, &annotate(json!("true")))
        .await?;
    site.namespace
        .until("the typo to be said", policy.0, policy.1, stays)
        .await?;
    crowd.rounds(5).await?;
    site.controller.kill();
    site.controller.launch()?;
    site.controller.until_ready().await?;
    until_connected(&site).await?;
    site.namespace
        .until("the typo to be said again", policy.0, policy.1, stays)
        .await?;
    crowd.rounds(5).await?;
    assert_eq!(site.updates().await?, before, "Envoy got a new configuration");

    site.namespace.merge(policy.0, policy.1, &annotate(Value::Null)).await?;
    site.until_programmed("True/Programmed").await?;
    nothing_happened(crowd).await
}

/// Over a restart of the controller, which remembers the former name.
#[tokio::test]
async fn a_renamed_session_stays_on_its_pod() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let mut site = ControlledSite::start(cluster, "renamed").await?;
    let crowd = site.crowd().await?;
    for name in ["first", "second"] {
        let change = json!({"spec": {"sessionPersistence": {"sessionName": name}}});
        site.namespace.merge("BackendLBPolicy", "web", &change).await?;
        until_filter(&site, &format!(r#"\"name\":\"{name}\""#), true).await?;
        crowd.rounds(3).await?;
        site.controller.kill();
        site.controller.launch()?;
        site.controller.until_ready().await?;
        until_connected(&site).await?;
        crowd.rounds(3).await?;
    }
    let said = |policy: &Value| {
        let conditions = &policy["status"]["ancestors"][0]["conditions"];
        message(conditions, "Accepted").contains("tokens in the former cookie \"first\" and cookie \"limpet-session\"")
    };
    site.namespace
        .until("the former names to be said", "BackendLBPolicy", "web", said)
        .await?;
    nothing_happened(crowd).await
}

/// Each rule of a policy gets its own cookie. Clients with the former cookie keep their sessions.
#[tokio::test]
async fn a_policy_that_gets_and_loses_a_rule_keeps_its_sessions() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let site = ControlledSite::start(cluster, "rules").await?;
    let browsers = Browsers::gather(&site.controller).await?;
    for _ in 0..4 {
        let second = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: second}
spec:
  parentRefs: [{name: web}]
  rules: [{matches: [{path: {value: /second}}], backendRefs: [{name: web, port: 80}]}]
";
        site.namespace.apply(second).await?;
        until_filter(&site, r#"\"perScope\":true"#, true).await?;
        site.namespace.delete("HTTPRoute", "second").await?;
        until_filter(&site, r#"\"perScope\":true"#, false).await?;
    }
    browsers.leave().await
}

async fn until_filter(site: &ControlledSite, text: &str, expected: bool) -> Result<()> {
    let asked = async || {
        let filter = site
            .envoy
            .admin()
            .text("/config_dump?resource=ecds_filters")
            .await
            .ok()?;
        (filter.contains(text) == expected).then_some(())
    };
    poll::until(text, asked).await
}
