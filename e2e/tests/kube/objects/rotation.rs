//! The keyring in objects for another control plane, one of which the API server refuses.

use anyhow::{Result, ensure};
use limpet_e2e::kube::{Namespace, refused};
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::{controller_with, namespace_with_policy, until_programmed};
use crate::admission;
use crate::clusters::of_all_kinds;
use crate::kept::until_event;
use crate::keyring::{KEYRING, request_rotation, until_keys};
use crate::site::gateway_and_route;

const FULL: &str = "no plugin of this Gateway";
const PLUGIN: &str = "limpet-other";

/// Refuses the plugin of the Gateway `other`.
async fn refuse(namespace: &Namespace) -> Result<()> {
    let expression = format!(
        "request.namespace != '{}' || request.name != '{PLUGIN}'",
        namespace.name()
    );
    admission::refuse(namespace, "extensions.istio.io", &["wasmplugins"], &expression, FULL).await?;
    let plugin = json!({
        "apiVersion": "extensions.istio.io/v1alpha1",
        "kind": "WasmPlugin",
        "metadata": {"name": PLUGIN},
        "spec": {"url": "file:///any.wasm"},
    });
    poll::until("the API server to know its policy", async || {
        let answer = namespace.dry_run(&plugin).await;
        refused(answer).ok()?.message.contains(FULL).then_some(())
    })
    .await
}

#[tokio::test]
async fn a_rotation_waits_for_refused_objects_with_a_keyring() -> Result<()> {
    let cluster = of_all_kinds().await?;
    let namespace = namespace_with_policy(cluster, "refused-keys").await?;
    namespace.apply(&gateway_and_route(&namespace, "other")).await?;
    refuse(&namespace).await?;
    let change = |config: &mut Value| {
        config["keyring"] = json!({"phaseTime": "500ms"});
        config["maxIdle"] = "1h".into();
    };
    let controller = controller_with(cluster, &namespace, change).await?;
    until_programmed(&namespace, "False/Invalid").await?;

    // No phase waits for proxies without a keyring.
    request_rotation(&namespace, "first").await?;
    until_keys(&namespace, &[(1, "retiring"), (2, "signing")]).await?;

    admission::allow(&namespace).await?;
    namespace.until("the plugin", "WasmPlugin", PLUGIN, |_| true).await?;
    refuse(&namespace).await?;
    request_rotation(&namespace, "second").await?;
    let introduced = [(1, "retiring"), (2, "signing"), (3, "verifying")];
    until_keys(&namespace, &introduced).await?;
    // Its proxies would refuse tokens of the new key.
    let note = until_event(&namespace, "Secret", KEYRING, "RotationWaits", PLUGIN).await?;
    ensure!(note.contains(FULL), "{note}");
    assert_eq!(controller.metric("limpet_key_rotation_late").await?, "1");
    until_keys(&namespace, &introduced).await?;

    admission::allow(&namespace).await?;
    until_keys(&namespace, &[(1, "retiring"), (2, "retiring"), (3, "signing")]).await?;
    poll::until("the metric to say so", async || {
        (controller.metric("limpet_key_rotation_late").await.ok()? == "0").then_some(())
    })
    .await
}
