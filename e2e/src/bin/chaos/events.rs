//! What happens to the cluster.

use anyhow::Result;
use limpet_e2e::kube::Client;
use serde_json::json;

use crate::site::{Site, WEB, until_rolled_out};

/// `kubectl rollout restart`, until it is done.
async fn restart(client: &Client, deployment: &str, number: usize) -> Result<()> {
    let change = json!({"spec": {"template": {"metadata": {"annotations": {
        "kubectl.kubernetes.io/restartedAt": number.to_string(),
    }}}}});
    client.merge("apps/v1/Deployment", deployment, &change).await?;
    until_rolled_out(client, deployment).await
}

/// A rolling update of the application.
pub(crate) async fn application_rollout(site: &Site, number: usize) -> Result<()> {
    restart(&site.default, WEB, number).await
}
