//! Envoys of `IngressRoute`s, whose Gateway is no object.

use anyhow::Result;
use serde_json::json;

use super::AuthoritySite;
use crate::contour::{GATEWAY, HOST, apply, cluster, configure, root, until_answered};
use limpet_e2e::kube::Controller;

const WEB: &[(&str, &str)] = &[("app", "web")];

#[tokio::test]
async fn envoys_of_ingress_routes_have_a_certificate_as_well() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = cluster.namespace("authority").await?;
    namespace.service("web", WEB).await?;
    let pods = [namespace.pod("a", WEB).await?, namespace.pod("b", WEB).await?];
    apply(
        &namespace,
        "root",
        &root(HOST, "{match: /, services: [{name: web, port: 80}]}"),
    )
    .await?;
    let controller = Controller::start(cluster.server(), &namespace, |config| {
        configure(config);
        config["xds"] = json!({"address": config["xds"]["address"], "tls": {"authority": {}}});
    })
    .await?;
    let site = AuthoritySite {
        namespace,
        controller,
        _pods: pods,
    };
    let mut envoy = site.envoy(GATEWAY, GATEWAY).await?;
    envoy.proxy.until_ready().await?;
    until_answered(&site.controller, "/", 200, Some("")).await.map(drop)
}
