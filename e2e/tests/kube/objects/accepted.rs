//! The API server accepts every object of the golden cases, with the vendors' definitions, and refuses unknown fields.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::Namespace;
use limpet_e2e::tools;
use serde_json::Value;

use crate::clusters::of_all_kinds;

fn cases(output: &str) -> Result<Vec<PathBuf>> {
    let folder = tools::checkout().join("controller/tests/golden").join(output);
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut cases: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    cases.retain(|case| case.is_dir());
    cases.sort();
    Ok(cases)
}

async fn try_all(output: &str, namespace: &Namespace) -> Result<usize> {
    let mut count = 0;
    for case in cases(output)? {
        let file = case.join("in.yaml");
        let file = file.to_str().context("a path")?;
        let mut arguments = vec!["render", "--target", output, "-o", "json", "-f", file];
        let config = case.join("config.yaml");
        if config.is_file() {
            arguments.extend(["--config", config.to_str().context("a path")?]);
        }
        let rendered = tools::run_limpet(&arguments, &[])?;
        ensure!(
            rendered.status.code().is_some_and(|code| code < 3),
            "{file}: {}",
            String::from_utf8_lossy(&rendered.stderr)
        );
        let list: Value = serde_json::from_slice(&rendered.stdout).with_context(|| file.to_owned())?;
        for object in list["items"].as_array().context("no list")? {
            let mut object = object.clone();
            object["metadata"]["namespace"] = namespace.name().into();
            let applied = namespace.apply_object(&object).await;
            applied.with_context(|| format!("{file}: {} {}", object["kind"], object["metadata"]["name"]))?;
            count += 1;
        }
    }
    Ok(count)
}

#[tokio::test]
async fn the_api_server_accepts_istios_objects() -> Result<()> {
    let namespace = of_all_kinds().await?.namespace("accepted").await?;
    let count = try_all("istio", &namespace).await?;
    assert!(count > 10, "{count} objects");
    Ok(())
}

#[tokio::test]
async fn the_api_server_accepts_envoy_gateways_objects() -> Result<()> {
    let namespace = of_all_kinds().await?.namespace("accepted").await?;
    let count = try_all("envoy-gateway", &namespace).await?;
    assert!(count > 5, "{count} objects");
    Ok(())
}
