use anyhow::Result;
use limpet_e2e::{Build, poll};
use serde_json::Value;

use crate::site::EnvoyGatewaySite;

/// The objects that the README says to delete.
const OBJECTS: [(&str, &str); 4] = [
    ("EnvoyExtensionPolicy", "shop-session"),
    ("EnvoyPatchPolicy", "shop-draining"),
    ("ClientTrafficPolicy", "limpet"),
    ("BackendTrafficPolicy", "shop-retries"),
];

/// The parts of Envoy's configuration that mention Limpet.
pub(crate) fn traces(dump: &str) -> Result<Vec<String>> {
    let dump: Value = serde_json::from_str(dump)?;
    let mut found = Vec::new();
    collect(&dump, &mut String::new(), &mut found);
    Ok(found)
}

fn collect(value: &Value, path: &mut String, found: &mut Vec<String>) {
    let mut below = |name: &str, value: &Value| {
        let length = path.len();
        path.push('/');
        path.push_str(name);
        if name.contains("limpet") || name.contains("stateful_session") || name == "override_host_status" {
            found.push(path.clone());
        }
        collect(value, path, found);
        path.truncate(length);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| below(name, value)),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .for_each(|(index, value)| below(&index.to_string(), value)),
        Value::String(text) if text.contains("limpet") => found.push(format!("{path}: {text}")),
        _ => {}
    }
}

async fn everything_goes(build: Build) -> Result<()> {
    let (site, envoy) = EnvoyGatewaySite::start("removal", build).await?;
    site.namespace.apply(&site.manifest("draining.yaml")?).await?;
    site.until_policy("EnvoyPatchPolicy", "shop-draining", "Programmed", "True/Programmed")
        .await?;
    let dump = async || envoy.admin().text("/config_dump?include_eds").await;
    assert!(
        !traces(&dump().await?)?.is_empty(),
        "Envoy's configuration does not mention Limpet"
    );

    // After `kubectl apply`, operators delete Limpet's own objects, and undo the marked parts of the others.
    for (kind, name) in OBJECTS {
        if site.namespace.find(kind, name).await?.is_some() {
            site.namespace.delete(kind, name).await?;
        }
    }
    let undo = serde_json::json!({"spec": {"infrastructure": null}});
    site.namespace.merge("Gateway", "web", &undo).await?;
    let route = site.namespace.get("HTTPRoute", "shop").await?;
    let mut rule = route["spec"]["rules"][0].clone();
    for field in ["sessionPersistence", "filters"] {
        rule.as_object_mut().map(|rule| rule.remove(field));
    }
    let undo = serde_json::json!({"spec": {"rules": [rule]}});
    site.namespace.merge("HTTPRoute", "shop", &undo).await?;
    site.namespace.delete("EnvoyProxy", "limpet").await?;

    let mut last = Vec::new();
    let gone = poll::until("no trace", async || {
        last = traces(&dump().await.ok()?).ok()?;
        last.is_empty().then_some(())
    })
    .await;
    assert!(gone.is_ok(), "not removed: {last:#?}");
    site.until("no more sessions", |answer| {
        answer.status == 200 && answer.set_cookies().is_empty()
    })
    .await
}

#[tokio::test]
async fn everything_can_be_removed_with_the_module() -> Result<()> {
    everything_goes(Build::Module).await
}

#[tokio::test]
async fn everything_can_be_removed_with_wasm() -> Result<()> {
    everything_goes(Build::Wasm).await
}
