//! The API server, with Istio's own definitions, accepts the golden cases' objects, and istiod can read them.

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::Istiod;
use limpet_e2e::{poll, tools};
use serde_json::{Value, json};

/// istiod's message about a patch that it ignores.
const UNREADABLE: &str = "failed to build envoy filter value";

#[tokio::test]
async fn istio_can_read_every_golden_object() -> Result<()> {
    let istiod = Istiod::shared().await?;
    let namespace = istiod.cluster().namespace("golden").await?;
    let folder = tools::checkout().join("controller/tests/golden/istio");
    let mut applied = 0;
    for case in std::fs::read_dir(folder)? {
        let case = case?.path();
        let text = std::fs::read_to_string(case.join("out.yaml"))?;
        let document: Value = serde_saphyr::from_str(&text)?;
        for object in document["objects"].as_array().into_iter().flatten() {
            let mut object = object.clone();
            object["metadata"]["namespace"] = namespace.name().into();
            let taken = namespace.apply_object(&object).await;
            taken.with_context(|| format!("{}: {}", case.display(), object["metadata"]["name"]))?;
            applied += 1;
        }
    }
    ensure!(applied > 20, "{applied} objects");

    // istiod cannot read the last object: when it reports it, it has read all others.
    let broken = json!({
        "apiVersion": "networking.istio.io/v1alpha3",
        "kind": "EnvoyFilter",
        "metadata": {"name": "broken"},
        "spec": {"configPatches": [{
            "applyTo": "HTTP_ROUTE",
            "match": {"context": "GATEWAY"},
            "patch": {
                "operation": "MERGE",
                "value": {"typed_per_filter_config": {"x": {"@type": "type.googleapis.com/x.Y"}}},
            },
        }]},
    });
    namespace.apply_object(&broken).await?;
    let complaint = format!("{}/", namespace.name());
    let complaints = || -> Result<Vec<String>> {
        let log = istiod.log()?;
        let lines = log
            .lines()
            .filter(|line| line.contains(UNREADABLE) && line.contains(&complaint));
        Ok(lines.map(str::to_owned).collect())
    };
    let read = async || {
        complaints()
            .ok()?
            .iter()
            .any(|line| line.contains("/broken "))
            .then_some(())
    };
    poll::until("istiod to read the last object", read).await?;
    let others: Vec<String> = complaints()?
        .into_iter()
        .filter(|line| !line.contains("/broken "))
        .collect();
    ensure!(others.is_empty(), "{others:#?}");
    Ok(())
}
