//! The node itself.

use anyhow::Result;
use limpet_e2e::kube::Node;
use serde_json::json;

#[tokio::test]
async fn a_pod_runs() -> Result<()> {
    let node = Node::shared().await?;
    let admin = node.admin();
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pause"},
        "spec": {"containers": [{"name": "pause", "image": "limpet.dev/e2e/pause:1"}]},
    });
    admin.apply_object(&pod).await?;
    admin
        .until("the pod", "v1/Pod", "pause", |pod| pod["status"]["phase"] == "Running")
        .await?;
    Ok(())
}
