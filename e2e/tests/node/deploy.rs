//! The manifests as they are shipped.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::has_condition;
use serde_json::Value;

use crate::site::Site;

/// They are ready, because the site is. Each has its configuration over mutual TLS from either replica.
#[tokio::test]
async fn the_deployed_envoys_serve_their_gateway() -> Result<()> {
    let site = Site::shared().await?;
    let is_programmed = |gateway: &Value| has_condition(gateway, "Programmed");
    site.default()
        .until("acknowledgements", "Gateway", "web", is_programmed)
        .await
        .map(drop)
}

#[tokio::test]
async fn a_session_through_the_envoy_service_keeps_its_pod() -> Result<()> {
    let site = Site::shared().await?;
    let mut pods = BTreeSet::new();
    for path in ["/cookie", "/header"] {
        for _ in 0..10 {
            let mut visitor = site.visitor();
            let first = visitor.get(path).await?;
            let pod = first.backend().context("no pod")?.to_owned();
            let token = first.header("x-session").map(str::to_owned);
            // kube-proxy leads each connection to any Envoy.
            for _ in 0..10 {
                let mut request = limpet_e2e::Request::get(site.envoys(), path);
                if let Some(token) = &token {
                    request = request.header("x-session", token);
                }
                let again = visitor.send(request).await?;
                ensure!(again.backend() == Some(&pod), "{path}: the session of {pod}: {again:?}");
            }
            pods.insert(pod);
        }
    }
    ensure!(pods.len() == 3, "all sessions are on {pods:?}");
    Ok(())
}
