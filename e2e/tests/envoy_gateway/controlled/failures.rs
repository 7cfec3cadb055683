//! What cannot be done, and where it is told.

use anyhow::{Context, Result};
use serde_json::json;

use super::Shop;

#[tokio::test]
async fn a_module_that_the_envoys_are_not_given_is_told() -> Result<()> {
    let shop = Shop::open("module-by-controller").await?;
    let namespace = &shop.site.namespace;
    let proxy = namespace.get("EnvoyProxy", "limpet").await?;
    namespace
        .merge("EnvoyProxy", "limpet", &json!({"spec": {"dynamicModules": null}}))
        .await?;
    // The route fails closed.
    shop.site.until("500", |answer| answer.status == 500).await?;
    let message = shop.until_programmed("False/Invalid").await?;
    assert!(message.contains("Envoy Gateway says Invalid"), "{message}");
    assert!(message.contains("not registered"), "{message}");

    let back = json!({"spec": {"dynamicModules": proxy["spec"]["dynamicModules"]}});
    namespace.merge("EnvoyProxy", "limpet", &back).await?;
    shop.until_programmed("True/Programmed").await?;
    shop.site.until_sessions().await
}

#[tokio::test]
async fn a_policy_of_somebody_elses_for_the_rule_counts_and_is_told() -> Result<()> {
    let mut shop = Shop::open("theirs-by-controller").await?;
    let namespace = &shop.site.namespace;
    let ours = namespace
        .list("EnvoyExtensionPolicy", "app.kubernetes.io/managed-by=limpet")
        .await?;
    let name = ours[0]["metadata"]["name"].as_str().context("no policy")?;
    shop.controller.kill();
    namespace.delete("EnvoyExtensionPolicy", name).await?;
    // An older one goes before one that is made later.
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
    shop.site.until("their policy", is_theirs).await?;
    let written = namespace.get("EnvoyExtensionPolicy", "theirs").await?["spec"].clone();
    shop.controller.launch()?;
    shop.controller.until_ready().await?;

    let message = shop.until_programmed("False/Invalid").await?;
    assert!(message.contains(name), "{message}");
    assert!(message.contains("Conflicted"), "{message}");
    let namespace = &shop.site.namespace;
    assert_eq!(namespace.get("EnvoyExtensionPolicy", "theirs").await?["spec"], written);
    shop.site.until("their policy", is_theirs).await?;

    namespace.delete("EnvoyExtensionPolicy", "theirs").await?;
    shop.site.until_sessions().await?;
    shop.until_programmed("True/Programmed").await?;
    Ok(())
}

/// Ours for a rule does not put one for the whole Gateway out of force.
#[tokio::test]
async fn a_policy_for_the_gateway_goes_on() -> Result<()> {
    let shop = Shop::open("gateway-by-controller").await?;
    let theirs = "
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyExtensionPolicy
metadata: {name: theirs}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: web}]
  lua: [{type: Inline, inline: 'function envoy_on_response(handle) handle:headers():add(\"x-theirs\", \"yes\") end'}]
";
    shop.site.namespace.apply(theirs).await?;
    shop.site
        .until_policy("EnvoyExtensionPolicy", "theirs", "Accepted", "True/Accepted")
        .await?;
    shop.site
        .until("both", |answer| {
            answer.header("x-theirs").is_some() && answer.set_cookie("session").is_some()
        })
        .await
}
