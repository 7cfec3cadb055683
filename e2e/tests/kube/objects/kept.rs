//! Limpet's objects for another control plane: written when something changes, and kept as they should be.

use std::time::Duration;

use anyhow::{Context, Result};
use limpet_e2e::poll;
use serde_json::json;

use super::{KINDS, controller, namespace_with_policy, ours, until_programmed};
use crate::clusters::of_all_kinds;
use crate::site::POLICY;

#[tokio::test]
async fn objects_are_written_once_and_deleted_with_the_policy() -> Result<()> {
    let cluster = of_all_kinds().await?;
    let namespace = namespace_with_policy(cluster, "written").await?;
    let mut controller = controller(cluster, &namespace).await?;
    until_programmed(&namespace, "True/Programmed").await?;
    let written = ours(&namespace).await?;
    for kind in KINDS {
        assert!(
            written.iter().any(|object| object["kind"] == kind),
            "{kind}: {written:#?}"
        );
    }
    for object in &written {
        let owner = &object["metadata"]["ownerReferences"][0];
        assert!(
            ["Gateway", "HTTPRoute"].iter().any(|kind| owner["kind"] == *kind),
            "{object:#}"
        );
    }
    // The controller writes the policy's status only.
    for kind in ["Gateway", "HTTPRoute"] {
        let object = namespace.get(kind, "web").await?;
        let writers = object["metadata"]["managedFields"].as_array().context("no writers")?;
        assert!(
            writers.iter().all(|writer| writer["manager"] == "limpet-e2e"),
            "{object:#}"
        );
    }

    // A restarted controller changes nothing, also after other changes.
    controller.kill();
    namespace
        .merge("HTTPRoute", "web", &json!({"metadata": {"labels": {"some": "label"}}}))
        .await?;
    controller.launch()?;
    controller.until_ready().await?;
    namespace.service("other", &[("app", "other")]).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(
        ours(&namespace).await?,
        written,
        "an object was written without a reason"
    );

    namespace.delete("BackendLBPolicy", "web").await?;
    poll::until("Limpet's objects to be gone", async || {
        ours(&namespace).await.ok()?.is_empty().then_some(())
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn changes_by_others_are_undone() -> Result<()> {
    let cluster = of_all_kinds().await?;
    let namespace = namespace_with_policy(cluster, "drift").await?;
    let _controller = controller(cluster, &namespace).await?;
    until_programmed(&namespace, "True/Programmed").await?;
    let plugin = namespace.list("WasmPlugin", "").await?.remove(0);
    let name = plugin["metadata"]["name"].as_str().unwrap_or_default();
    let spec = &plugin["spec"];

    let changed = namespace
        .merge("WasmPlugin", name, &json!({"spec": {"url": "file:///elsewhere.wasm"}}))
        .await?;
    assert_ne!(changed["spec"], *spec);
    namespace
        .until("the plugin to be as before", "WasmPlugin", name, |object| {
            object["spec"] == *spec
        })
        .await?;
    let uid = &plugin["metadata"]["uid"];
    namespace.delete("WasmPlugin", name).await?;
    namespace
        .until("the plugin to be back", "WasmPlugin", name, |object| {
            object["spec"] == *spec && object["metadata"]["uid"] != *uid
        })
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_killed_controllers_writes_are_completed_by_the_next() -> Result<()> {
    let cluster = of_all_kinds().await?;
    let namespace = namespace_with_policy(cluster, "killed").await?;
    let mut controller = controller(cluster, &namespace).await?;
    until_programmed(&namespace, "True/Programmed").await?;
    let before = ours(&namespace).await?;
    let names = |objects: &[serde_json::Value]| -> Vec<(serde_json::Value, serde_json::Value)> {
        let key = |object: &serde_json::Value| (object["kind"].clone(), object["metadata"]["name"].clone());
        objects.iter().map(key).collect()
    };
    for round in 0..6 {
        namespace.delete("BackendLBPolicy", "web").await?;
        tokio::time::sleep(Duration::from_millis(40 * round)).await;
        controller.kill();
        namespace.apply(POLICY).await?;
        controller.launch()?;
        tokio::time::sleep(Duration::from_millis(150 + 60 * round)).await;
        controller.kill();
        controller.launch()?;
        controller.until_ready().await?;
    }
    poll::until("all objects, and no others", async || {
        let now = ours(&namespace).await.ok()?;
        let specs =
            |objects: &[serde_json::Value]| -> Vec<_> { objects.iter().map(|one| one["spec"].clone()).collect() };
        (names(&now) == names(&before) && specs(&now) == specs(&before)).then_some(())
    })
    .await?;
    until_programmed(&namespace, "True/Programmed").await?;
    Ok(())
}
