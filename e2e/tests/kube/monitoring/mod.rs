//! The dashboard and the alerts of `controller/deploy/monitoring`, in a genuine Prometheus.

mod alerts;
mod dashboard;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use limpet_e2e::tools;
use serde_json::Value;

fn folder() -> PathBuf {
    tools::checkout().join("controller/deploy/monitoring")
}

fn rules_file() -> PathBuf {
    folder().join("limpet.rules.yaml")
}

/// The dashboard's queries with their panels' titles, for all namespaces and Services.
fn queries() -> Result<Vec<(String, String)>> {
    let text = fs::read_to_string(folder().join("limpet.dashboard.json"))?;
    let dashboard: Value = serde_json::from_str(&text)?;
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().context("no panels")? {
        let title = panel["title"].as_str().context("no title")?;
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().context("no query")?;
            let chosen = query.replace("$namespace", ".*").replace("$service", ".*");
            queries.push((title.to_owned(), chosen));
        }
    }
    Ok(queries)
}
