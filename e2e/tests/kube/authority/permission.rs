use anyhow::Result;
use limpet_e2e::kube::Client;
use limpet_e2e::poll;
use serde_json::json;

use super::{AUTHORITY, AuthoritySite, TlsEnvoy};
use crate::failures::{crowd, nothing_happened, until_programmed, until_sessions};

async fn other(client: &Client, class: &str) -> Result<()> {
    client
        .apply(&format!(
            "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: other}}
spec:
  gatewayClassName: {class}
  listeners: [{{name: http, port: 8081, protocol: HTTP}}]
"
        ))
        .await
}

#[tokio::test]
async fn a_gateways_secret_is_enough_for_its_envoy() -> Result<()> {
    let site = AuthoritySite::start("authority", json!({})).await?;
    let mut envoy = site.envoy("web", "web").await?;
    envoy.proxy.until_ready().await?;
    until_sessions(&site.controller).await?;
    until_programmed(&site.namespace, "web", "True/Programmed").await?;
    for name in [AUTHORITY, &site.secret("web")] {
        let secret = site.namespace.get("v1/Secret", name).await?;
        assert_eq!(secret["type"], "kubernetes.io/tls", "{name}");
        assert_eq!(
            secret["metadata"]["labels"]["app.kubernetes.io/managed-by"], "limpet",
            "{name}"
        );
    }
    // Only what is deleted goes.
    other(&site.namespace, site.namespace.name()).await?;
    let second = site.secret("other");
    site.namespace
        .until("its Secret", "v1/Secret", &second, |_| true)
        .await?;
    site.namespace.delete("Gateway", "other").await?;
    site.namespace.until_gone("v1/Secret", &second).await?;
    site.namespace.get("v1/Secret", &site.secret("web")).await?;
    Ok(())
}

#[tokio::test]
async fn a_certificate_of_another_gateway_gets_nothing() -> Result<()> {
    let site = AuthoritySite::start("stolen", json!({})).await?;
    other(&site.namespace, site.namespace.name()).await?;
    let mut envoy = site.envoy("web", "web").await?;
    envoy.proxy.until_ready().await?;
    until_sessions(&site.controller).await?;
    let crowd = crowd(&site.controller).await?;

    let namespace = site.namespace.name();
    let words = format!(
        "the certificate is not for the Gateway {namespace}/web: expected spiffe://limpet.dev/gateway/{namespace}/web \
         among the URIs of its subject's alternative names, found spiffe://limpet.dev/gateway/{namespace}/other"
    );
    let clients = format!("limpet_clients{{gateway=\"{namespace}/web\"}}");
    for protocol in ["DELTA_GRPC", "GRPC"] {
        let before = turned_away(&site).await?;
        let thief = TlsEnvoy::start(&site, "web", "other", site.controller.xds(), protocol).await?;
        // Envoy logs why its streams ended. The stream for reports of load is not counted.
        let told = async || {
            let log = thief.proxy.log().ok()?.replace("%20", " ");
            let mut streams = log.lines().filter(|line| line.contains("AggregatedResources"));
            streams.any(|line| line.contains(&words)).then_some(())
        };
        poll::until("the refusal in Envoy's log", told).await?;
        assert!(turned_away(&site).await? > before, "{protocol}");
        assert_eq!(
            thief.proxy.admin().stat("listener_manager.lds.update_success").await?,
            0
        );
        assert_eq!(thief.proxy.admin().stat("cluster_manager.cds.update_success").await?, 0);
        assert_eq!(site.controller.metric(&clients).await?, "1", "{protocol}");
    }
    let log = site.controller.log()?;
    assert!(
        log.contains("a stream was turned away") && log.contains(&words),
        "{log}"
    );

    // For its own Gateway, the certificate is good.
    let mut own = site.envoy("other", "other").await?;
    own.proxy.until_ready().await?;
    until_programmed(&site.namespace, "other", "True/Programmed").await?;
    nothing_happened(crowd).await
}

async fn turned_away(site: &AuthoritySite) -> Result<u64> {
    let metric = "limpet_xds_turned_away_total{reason=\"permission\"}";
    Ok(site.controller.metric(metric).await?.parse()?)
}
