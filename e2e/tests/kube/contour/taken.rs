//! A Gateway object with the configured name of Contour's Gateway.

use anyhow::Result;
use limpet_e2e::kube::Controller;
use serde_json::json;

use super::{GATEWAY, HOST, KIND, VALID, apply, cluster, configure, root, until_answered, until_status};
use crate::kept::event;

const WEB: &[(&str, &str)] = &[("app", "web")];

#[tokio::test]
async fn a_gateway_of_contours_name_is_served_in_its_place() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = cluster.namespace("taken").await?;
    namespace.gateway_class().await?;
    namespace.service("web", WEB).await?;
    let _pod = namespace.pod("web-a", WEB).await?;
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": GATEWAY},
        "spec": {
            "gatewayClassName": namespace.name(),
            "listeners": [{"name": "http", "port": 8080, "protocol": "HTTP"}],
        },
    });
    namespace.apply_object(&gateway).await?;
    let routes = "{match: /, services: [{name: web, port: 80}]}";
    apply(&namespace, "root", &root(HOST, routes)).await?;
    let controller = Controller::start(cluster.server(), &namespace, configure).await?;
    let _envoy = controller.envoy(GATEWAY, "one").await?;
    let told = event(&namespace, "Gateway", GATEWAY, "Invalid", "contour.gateway").await?;
    assert_eq!(told["type"], "Warning");
    until_answered(&controller, "/", 404, None).await?;
    assert_eq!(namespace.get(KIND, "root").await?.get("status"), None);

    namespace.delete("Gateway", GATEWAY).await?;
    until_status(&namespace, "root", "valid", VALID).await?;
    until_answered(&controller, "/", 200, Some("web-a")).await.map(drop)
}
