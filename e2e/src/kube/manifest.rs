//! Manifests.

use anyhow::{Context, Result};
use serde_json::Value;

pub(super) fn objects(yaml: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).context("a manifest is not YAML")?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}
