use anyhow::Result;
use limpet_e2e::kube::Release;
use serde_json::json;

use super::{HOST, TLS_PORT, TlsSite, grant, session_sticks, trust, until_answered, visitor};
use crate::certificates::Authority;

const URI: &str = "spiffe://cluster.local/ns/shop/sa/web";

#[tokio::test]
async fn a_backend_of_another_authority_is_not_reached() -> Result<()> {
    let site = TlsSite::prepare(Release::V1_7_0, "tls-ca", |authority| authority.sign(HOST)).await?;
    grant(&site.namespace).await?;
    trust(&site.namespace, &Authority::new("another")?).await?;
    site.demand(json!({})).await?;
    let (controller, _envoy) = site.start().await?;
    until_answered(&controller, 503).await?;
    site.until_status("True/Accepted", "True/ResolvedRefs").await?;
    trust(&site.namespace, &site.authority).await?;
    until_answered(&controller, 200).await?;
    trust(&site.namespace, &Authority::new("another")?).await?;
    until_answered(&controller, 503).await?;
    site.never_plain()
}

#[tokio::test]
async fn a_backend_of_another_name_is_not_reached() -> Result<()> {
    let site = TlsSite::prepare(Release::V1_7_0, "tls-name", |authority| authority.sign("other.example")).await?;
    grant(&site.namespace).await?;
    trust(&site.namespace, &site.authority).await?;
    site.demand(json!({})).await?;
    let (controller, _envoy) = site.start().await?;
    until_answered(&controller, 503).await?;
    let name = |name: &str| json!({"subjectAltNames": [{"type": "Hostname", "hostname": name}]});
    site.demand(name("other.example")).await?;
    until_answered(&controller, 200).await?;
    session_sticks(&mut visitor(&controller)).await?;
    site.demand(name("third.example")).await?;
    until_answered(&controller, 503).await?;
    let asked: Vec<_> = site.tls().into_iter().map(|(name, _)| name).collect();
    assert_eq!(asked, [Some(HOST.to_owned())], "the server name stays the hostname");
    site.never_plain()
}

#[tokio::test]
async fn a_backend_may_be_known_by_a_uri() -> Result<()> {
    let site = TlsSite::prepare(Release::V1_6_1, "tls-uri", |authority| authority.sign_uri(URI)).await?;
    grant(&site.namespace).await?;
    trust(&site.namespace, &site.authority).await?;
    let uri = |uri: &str| json!({"subjectAltNames": [{"type": "URI", "uri": uri}]});
    site.demand(uri("spiffe://cluster.local/ns/shop/sa/other")).await?;
    let (controller, _envoy) = site.start().await?;
    until_answered(&controller, 503).await?;
    site.demand(uri(URI)).await?;
    until_answered(&controller, 200).await?;
    site.never_plain()
}

#[tokio::test]
async fn http2_is_spoken_over_tls_by_alpn() -> Result<()> {
    let site = TlsSite::trusted(Release::V1_7_0, "tls-h2").await?;
    site.demand(json!({})).await?;
    let port = |protocol: &str| {
        let port = json!({"name": "https", "port": 80, "targetPort": TLS_PORT, "appProtocol": protocol});
        json!({"spec": {"ports": [port]}})
    };
    site.namespace
        .merge("v1/Service", "web", &port("kubernetes.io/h2c"))
        .await?;
    let (controller, _envoy) = site.start().await?;
    until_answered(&controller, 200).await?;
    session_sticks(&mut visitor(&controller)).await?;
    assert_eq!(site.tls(), [(Some(HOST.to_owned()), Some("h2".to_owned()))].into());
    site.namespace.merge("v1/Service", "web", &port("HTTPS")).await?;
    let spoken = async || {
        visitor(&controller).get("/").await.ok()?;
        let tls = site.tls();
        tls.contains(&(Some(HOST.to_owned()), Some("http/1.1".to_owned())))
            .then_some(())
    };
    limpet_e2e::poll::until("HTTP/1.1", spoken).await?;
    site.never_plain()
}

#[tokio::test]
async fn an_x_backend_is_reached_over_tls() -> Result<()> {
    let site = TlsSite::trusted(Release::V1_7_0, "tls-x").await?;
    let backend = json!({
        "apiVersion": "gateway.networking.x-k8s.io/v1alpha1",
        "kind": "XBackend",
        "metadata": {"name": "web"},
        "spec": {
            "type": "EndpointSelector",
            "endpointSelector": {"matchLabels": {"app": "web"}},
            "port": {"number": TLS_PORT},
            "sessionPersistence": {"type": "Cookie", "cookie": {"name": "limpet-session"}},
        },
    });
    site.namespace.bind("limpet-xbackends").await?;
    site.namespace.apply_object(&backend).await?;
    let reference = json!({"group": "gateway.networking.x-k8s.io", "kind": "XBackend", "name": "web"});
    let rules = json!([{"backendRefs": [reference]}]);
    site.namespace
        .merge("HTTPRoute", "web", &json!({"spec": {"rules": rules}}))
        .await?;
    site.demand(json!({})).await?;
    let target = json!([{"group": "gateway.networking.x-k8s.io", "kind": "XBackend", "name": "web"}]);
    let target = json!({"spec": {"targetRefs": target}});
    site.namespace.merge("BackendTLSPolicy", "web", &target).await?;
    let (controller, _envoy) = site.start().await?;
    until_answered(&controller, 200).await?;
    session_sticks(&mut visitor(&controller)).await?;
    site.until_status("True/Accepted", "True/ResolvedRefs").await?;
    site.never_plain()
}
