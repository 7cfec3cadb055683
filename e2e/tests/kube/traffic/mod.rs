//! Retries, mirrors and CORS of rules beside sessions.

mod cors;
mod mirrors;
mod retries;

use anyhow::Result;
use limpet_e2e::kube::Pod;
use serde_json::{Value, json};

use crate::checks::{GatewaySite, rule};

async fn two_pods(site: &GatewaySite, name: &str) -> Result<[Pod; 2]> {
    site.namespace.service(name, &[("app", name)]).await?;
    let start = async |letter: &str| site.namespace.pod(&format!("{name}-{letter}"), &[("app", name)]).await;
    let pods = [start("a").await?, start("b").await?];
    site.namespace.endpoints(name, |endpoints| endpoints.len() == 2).await?;
    Ok(pods)
}

/// Its path and its sessions' cookie have this name.
fn with_sessions(name: &str, backends: &[(&str, u32)]) -> Value {
    let mut rule = rule(&format!("/{name}"), backends);
    rule["sessionPersistence"] = json!({"type": "Cookie", "cookie": {"name": name}});
    rule
}
