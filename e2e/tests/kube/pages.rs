//! The API server takes the objects of users' pages, strict about fields, also Istio's and Envoy Gateway's kinds.

use std::fs;

use anyhow::{Context, Result, ensure};
use limpet_e2e::tools;
use limpet_repo_tests::Page;
use serde_json::{Value, json};

use crate::clusters;

fn objects(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    let is_object = |document: &Value| !document["apiVersion"].is_null() && !document["kind"].is_null();
    if documents.iter().all(is_object) {
        return Ok(documents);
    }
    Ok(Vec::new())
}

#[tokio::test]
async fn the_api_server_takes_every_object_of_the_pages() -> Result<()> {
    let cluster = clusters::of_all_kinds().await?;
    let mut taken = 0;
    for path in limpet_repo_tests::with_tested_blocks()? {
        let page = Page::parse(&fs::read_to_string(tools::checkout().join(&path))?);
        for block in page.blocks.iter().filter(|block| block.language == "yaml") {
            let at = || format!("{}:{}", path.display(), block.line);
            let objects = objects(&block.text).with_context(at)?;
            if objects.is_empty() {
                continue;
            }
            let namespace = cluster.namespace("page").await?;
            for mut object in objects {
                object["metadata"]["namespace"] = json!(namespace.name());
                namespace.apply_object(&object).await.with_context(at)?;
                taken += 1;
            }
        }
    }
    ensure!(taken > 10, "{taken} objects");
    Ok(())
}
