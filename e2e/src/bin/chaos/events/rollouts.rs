//! Deployments are restarted and scaled.

use anyhow::Result;
use limpet_e2e::kube::Client;
use serde_json::json;

use crate::site::{CONTROLLER, Site, WEB, until_rolled_out};

const DEPLOYMENT: &str = "apps/v1/Deployment";

/// As `kubectl rollout restart`, until it is done.
async fn restart(client: &Client, deployment: &str, number: usize) -> Result<()> {
    let change = json!({"spec": {"template": {"metadata": {"annotations": {
        "kubectl.kubernetes.io/restartedAt": number.to_string(),
    }}}}});
    client.merge(DEPLOYMENT, deployment, &change).await?;
    until_rolled_out(client, deployment).await
}

pub(super) async fn application(site: &Site, number: usize) -> Result<()> {
    restart(&site.default, WEB, number).await
}

pub(super) async fn envoys(site: &Site, number: usize) -> Result<()> {
    restart(&site.system, &site.envoys, number).await
}

pub(super) async fn controller(site: &Site, number: usize) -> Result<()> {
    restart(&site.system, CONTROLLER, number).await
}

pub(super) async fn scaling(site: &Site) -> Result<()> {
    // The other events need the last number.
    for replicas in [10, 2, 3] {
        let change = json!({"spec": {"replicas": replicas}});
        site.default.merge(DEPLOYMENT, WEB, &change).await?;
        until_rolled_out(&site.default, WEB).await?;
    }
    Ok(())
}
