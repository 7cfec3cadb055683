//! A `GatewayClass` goes before its Gateways, as with the release that brought it.

use anyhow::Result;
use limpet_e2e::kube::{Cluster, Release};
use serde_json::Value;

use super::{ControlledSite, message, nothing_happened, redirect, until_connected};

#[tokio::test]
async fn without_its_class_a_gateway_is_served_as_before() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let mut site = ControlledSite::start(cluster, "classless").await?;
    site.until_programmed("True/Programmed").await?;
    let before = site.updates().await?;
    let crowd = site.crowd().await?;
    let class = site.namespace.get("Gateway", "web").await?["spec"]["gatewayClassName"].clone();
    let class = class.as_str().unwrap_or_default();
    let is_gone = |gateway: &Value| message(&gateway["status"]["conditions"], "Accepted").contains(" is gone");
    let until_told = async |site: &ControlledSite, expected: bool| {
        let told = |gateway: &Value| is_gone(gateway) == expected;
        site.namespace.until("what the class is", "Gateway", "web", told).await
    };

    cluster.server().admin().delete("GatewayClass", class).await?;
    until_told(&site, true).await?;
    crowd.rounds(5).await?;
    site.controller.kill();
    site.controller.launch()?;
    site.controller.until_ready().await?;
    until_connected(&site).await?;
    until_told(&site, true).await?;
    crowd.rounds(5).await?;
    assert_eq!(site.updates().await?, before, "Envoy got a new configuration");
    site.namespace.apply(&redirect("meanwhile")).await?;
    site.until_redirected("/meanwhile").await?;

    site.namespace.gateway_class().await?;
    until_told(&site, false).await?;
    nothing_happened(crowd).await
}
