use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::Refusal;
use limpet_e2e::{poll, tools};
use serde_json::{Value, json};

use super::{OURS, controller, namespace_with_policy, ours, until_programmed};
use crate::clusters::of_all_kinds;
use crate::definitions;
use crate::site::condition;

#[tokio::test]
async fn an_object_of_another_owner_is_left_alone_and_reported() -> Result<()> {
    let cluster = of_all_kinds().await?;
    let namespace = namespace_with_policy(cluster, "taken").await?;
    let mut first = controller(cluster, &namespace).await?;
    until_programmed(&namespace, "True/Programmed").await?;
    let plugin = namespace.list("WasmPlugin", "").await?.remove(0);
    let name = plugin["metadata"]["name"].as_str().context("no name")?.to_owned();
    first.kill();
    namespace.delete("WasmPlugin", &name).await?;
    let theirs = json!({
        "apiVersion": "extensions.istio.io/v1alpha1",
        "kind": "WasmPlugin",
        "metadata": {"name": name},
        "spec": {"url": "file:///theirs.wasm", "pluginConfig": {"theirs": true}},
    });
    let theirs = namespace.apply_object(&theirs).await?;
    first.launch()?;
    first.until_ready().await?;

    let message = until_programmed(&namespace, "False/Invalid").await?;
    assert!(
        message.contains(&format!("WasmPlugin {}/{name}", namespace.name())),
        "{message}"
    );
    assert_eq!(namespace.get("WasmPlugin", &name).await?, theirs);
    assert!(!ours(&namespace).await?.is_empty());

    namespace.delete("WasmPlugin", &name).await?;
    until_programmed(&namespace, "True/Programmed").await?;
    assert_eq!(namespace.get("WasmPlugin", &name).await?["spec"], plugin["spec"]);
    Ok(())
}

/// Readers of JSON limit levels, and a plugin's configuration may have more.
#[tokio::test]
async fn an_object_of_many_levels_stops_no_write() -> Result<()> {
    let cluster = of_all_kinds().await?;
    let namespace = namespace_with_policy(cluster, "levels").await?;
    let mut controller = controller(cluster, &namespace).await?;
    until_programmed(&namespace, "True/Programmed").await?;
    let plugin = namespace.list("WasmPlugin", OURS).await?.remove(0);
    controller.kill();
    let deep = (0..200).fold(json!({}), |inner, _| json!({"a": inner}));
    let theirs = json!({
        "apiVersion": "extensions.istio.io/v1alpha1",
        "kind": "WasmPlugin",
        "metadata": {"name": "deep", "labels": plugin["metadata"]["labels"]},
        "spec": {"url": "file:///theirs.wasm", "pluginConfig": deep},
    });
    // Too many levels for this client as well.
    let applied = namespace.apply_object(&theirs).await;
    let refusal = applied.as_ref().err().and_then(|error| error.downcast_ref::<Refusal>());
    ensure!(refusal.is_none(), "{refusal:?}");
    let name = plugin["metadata"]["name"].as_str().context("no name")?;
    namespace.delete("WasmPlugin", name).await?;
    controller.launch()?;
    controller.until_ready().await?;
    // It has our labels, so it goes, and the list can be read.
    poll::until("our plugin alone", async || {
        let there = namespace.list("WasmPlugin", OURS).await.ok()?;
        (there.len() == 1 && there[0]["metadata"]["name"] == name).then_some(())
    })
    .await
}

#[tokio::test]
async fn a_missing_kind_is_reported_and_noticed_when_it_comes() -> Result<()> {
    // No other test of this cluster has Istio's kinds.
    let cluster = definitions::shipped().await?;
    let namespace = namespace_with_policy(cluster, "missing").await?;
    let controller = controller(cluster, &namespace).await?;
    let message = until_programmed(&namespace, "False/Invalid").await?;
    for kind in ["wasmplugins.extensions.istio.io", "envoyfilters.networking.istio.io"] {
        assert!(message.contains(kind), "{message}");
    }
    let definitions = std::fs::read_to_string(tools::istio_definitions()?)?;
    cluster.define(&definitions).await?;
    until_programmed(&namespace, "True/Programmed").await?;
    let log = controller.log()?;
    assert!(!log.contains("panic"), "{log}");
    Ok(())
}

#[tokio::test]
async fn proxies_that_lack_the_key_encryption_key_are_named() -> Result<()> {
    let cluster = of_all_kinds().await?;
    let namespace = namespace_with_policy(cluster, "environment").await?;
    let controller = controller(cluster, &namespace).await?;
    let variable = controller.key_encryption_key().variable.clone();
    let pod = |name: &str, env: Value| {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"gateway.networking.k8s.io/gateway-name": "web"}},
            "spec": {"containers": [{"name": "istio-proxy", "image": "proxy", "env": env}]},
        })
    };
    namespace
        .apply_object(&pod("web-1", json!([{"name": "OTHER", "value": "x"}])))
        .await?;
    let message = until_programmed(&namespace, "False/Invalid").await?;
    for part in [variable.as_str(), "istio-proxy", &format!("{}/web-1", namespace.name())] {
        assert!(message.contains(part), "{message}");
    }
    // The objects exist nevertheless, so proxies with the key work.
    assert!(!ours(&namespace).await?.is_empty());
    namespace.delete_now("Pod", "web-1").await?;
    namespace
        .apply_object(&pod("web-2", json!([{"name": variable, "value": "x"}])))
        .await?;
    until_programmed(&namespace, "True/Programmed").await?;
    Ok(())
}

#[tokio::test]
async fn gateways_of_unknown_classes_get_nothing() -> Result<()> {
    let cluster = of_all_kinds().await?;
    let namespace = namespace_with_policy(cluster, "unknown").await?;
    let controller = controller(cluster, &namespace).await?;
    until_programmed(&namespace, "True/Programmed").await?;
    let missing = format!("{}-others", namespace.name());
    let other = json!({"spec": {"gatewayClassName": missing}});
    namespace.merge("Gateway", "web", &other).await?;
    poll::until("Limpet's objects to be gone", async || {
        ours(&namespace).await.ok()?.is_empty().then_some(())
    })
    .await?;
    // No other controller reports a class that does not exist.
    let unknown = |policy: &Value| {
        let entry = &policy["status"]["ancestors"][0];
        condition(&entry["conditions"], "Accepted") == "False/TargetNotFound"
    };
    namespace.until("its class", "BackendLBPolicy", "web", unknown).await?;
    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GatewayClass",
        "metadata": {"name": missing},
        "spec": {"controllerName": "example.com/somebody-else"},
    });
    namespace.apply_object(&class).await?;
    let no_entry = |policy: &Value| policy["status"]["ancestors"].as_array().is_none_or(Vec::is_empty);
    namespace
        .until("Limpet's entry to be gone", "BackendLBPolicy", "web", no_entry)
        .await?;
    drop(controller);
    Ok(())
}
