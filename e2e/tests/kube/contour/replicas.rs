use anyhow::Result;
use limpet_e2e::kube::{Cluster, Controller, Namespace};
use limpet_e2e::poll;
use serde_json::json;

use super::{HOST, KIND, ORPHANED, VALID, apply, blog, cluster, configure, root, stands_still, until_status};

async fn replica(cluster: &Cluster, namespace: &Namespace) -> Result<Controller> {
    Controller::start(cluster.server(), namespace, |config| {
        configure(config);
        config["keyring"] = json!({});
    })
    .await
}

#[tokio::test]
async fn the_next_leader_goes_on_with_the_statuses() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = cluster.namespace("leaders").await?;
    namespace.service("web", &[("app", "web")]).await?;
    apply(
        &namespace,
        "root",
        &root(HOST, "{match: /blog, delegate: {name: blog}}"),
    )
    .await?;
    apply(&namespace, "blog", &blog("web")).await?;
    let mut leader = replica(cluster, &namespace).await?;
    let next = replica(cluster, &namespace).await?;
    until_status(&namespace, "blog", "valid", VALID).await?;
    assert_eq!(next.metric("limpet_leader").await?, "0");

    leader.end().await?;
    poll::until("another leader", async || {
        (next.metric("limpet_leader").await.ok()? == "1").then_some(())
    })
    .await?;
    for name in ["root", "blog"] {
        stands_still(&namespace, name).await?;
    }
    namespace.delete(KIND, "root").await?;
    until_status(&namespace, "blog", "orphaned", ORPHANED).await.map(drop)
}
