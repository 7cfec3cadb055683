//! Configurations that cannot work, and where the controller reports them.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use super::ControlledSite;

#[tokio::test]
async fn a_module_that_the_envoys_lack_is_reported() -> Result<()> {
    let controlled = ControlledSite::start("module-by-controller").await?;
    let namespace = &controlled.site.namespace;
    let proxy = namespace.get("EnvoyProxy", "limpet").await?;
    namespace
        .merge("EnvoyProxy", "limpet", &json!({"spec": {"dynamicModules": null}}))
        .await?;
    // The route fails closed.
    controlled.site.until("500", |answer| answer.status == 500).await?;
    let message = controlled.until_programmed("False/Invalid").await?;
    assert!(message.contains("Envoy Gateway says Invalid"), "{message}");
    assert!(message.contains("not registered"), "{message}");

    let back = json!({"spec": {"dynamicModules": proxy["spec"]["dynamicModules"]}});
    namespace.merge("EnvoyProxy", "limpet", &back).await?;
    controlled.until_programmed("True/Programmed").await?;
    controlled.site.until_sessions().await
}

#[tokio::test]
async fn another_policy_for_the_rule_takes_precedence_and_is_reported() -> Result<()> {
    let mut controlled = ControlledSite::start("theirs-by-controller").await?;
    let namespace = &controlled.site.namespace;
    let ours = namespace
        .list("EnvoyExtensionPolicy", "app.kubernetes.io/managed-by=limpet")
        .await?;
    let name = ours[0]["metadata"]["name"].as_str().context("no policy")?;
    controlled.controller.kill();
    namespace.delete("EnvoyExtensionPolicy", name).await?;
    // An older policy takes precedence.
    let theirs = "
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyExtensionPolicy
metadata: {name: theirs}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop, sectionName: all}]
  lua: [{type: Inline, inline: 'function envoy_on_response(handle) handle:headers():add(\"x-theirs\", \"yes\") end'}]
";
    namespace.apply(theirs).await?;
    let is_theirs = |answer: &limpet_e2e::Answer| answer.header("x-theirs").is_some();
    controlled.site.until("their policy", is_theirs).await?;
    let written = namespace.get("EnvoyExtensionPolicy", "theirs").await?["spec"].clone();
    // Envoy Gateway compares ages in seconds, and then names.
    tokio::time::sleep(Duration::from_secs(1)).await;
    controlled.controller.launch()?;
    controlled.controller.until_ready().await?;

    let message = controlled.until_programmed("False/Invalid").await?;
    assert!(message.contains(name), "{message}");
    assert!(message.contains("Conflicted"), "{message}");
    let namespace = &controlled.site.namespace;
    assert_eq!(namespace.get("EnvoyExtensionPolicy", "theirs").await?["spec"], written);
    controlled.site.until("their policy", is_theirs).await?;

    namespace.delete("EnvoyExtensionPolicy", "theirs").await?;
    controlled.site.until_sessions().await?;
    controlled.until_programmed("True/Programmed").await?;
    Ok(())
}

/// Limpet's policy for a rule does not disable it.
#[tokio::test]
async fn a_policy_for_the_gateway_stays_in_effect() -> Result<()> {
    let controlled = ControlledSite::start("gateway-by-controller").await?;
    let theirs = "
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyExtensionPolicy
metadata: {name: theirs}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: web}]
  lua: [{type: Inline, inline: 'function envoy_on_response(handle) handle:headers():add(\"x-theirs\", \"yes\") end'}]
";
    controlled.site.namespace.apply(theirs).await?;
    controlled
        .site
        .until_policy("EnvoyExtensionPolicy", "theirs", "Accepted", "True/Accepted")
        .await?;
    controlled
        .site
        .until("both", |answer| {
            answer.header("x-theirs").is_some() && answer.set_cookie("limpet-session").is_some()
        })
        .await
}

/// If this fails, Envoy Gateway leads requests to `XBackend`s, and they can have sessions.
#[tokio::test]
async fn envoy_gateway_leads_nothing_to_an_x_backend() -> Result<()> {
    let controlled = ControlledSite::start("x-backend").await?;
    let namespace = &controlled.site.namespace;
    let backend = json!({"group": "gateway.networking.x-k8s.io", "kind": "XBackend", "name": "shop", "port": null});
    let rules = json!({"spec": {"rules": [{"name": "all", "backendRefs": [backend]}]}});
    namespace.merge("HTTPRoute", "shop", &rules).await?;
    let refused = |route: &serde_json::Value| {
        let conditions = route["status"]["parents"][0]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|condition| condition["type"] == "ResolvedRefs" && condition["reason"] == "InvalidKind")
    };
    namespace
        .until("the route to be refused", "HTTPRoute", "shop", refused)
        .await?;
    controlled.site.until("500", |answer| answer.status == 500).await
}
