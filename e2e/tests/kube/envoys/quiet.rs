//! A fresh start causes no Warnings.

use anyhow::Result;
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::{SERVICE, Site};
use crate::site::condition;

/// As `kubectl apply` of several files does it: the route precedes its Service, and the load balancer's address comes
/// last.
#[tokio::test]
async fn a_fresh_start_has_no_warnings() -> Result<()> {
    let site = Site::start("quiet", json!({})).await?;
    let namespace = &site.namespace;
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "shop"},
        "spec": {"parentRefs": [{"name": "web"}], "rules": [{"backendRefs": [{"name": "shop", "port": 80}]}]},
    });
    namespace.apply_object(&route).await?;
    site.gateway("web", &json!({})).await?;
    site.until_all_there("web").await?;
    let resolves = |expected: &'static str| {
        move |route: &Value| condition(&route["status"]["parents"][0]["conditions"], "ResolvedRefs") == expected
    };
    namespace
        .until(
            "the missing Service",
            "HTTPRoute",
            "shop",
            resolves("False/BackendNotFound"),
        )
        .await?;
    namespace.service("shop", &[("app", "shop")]).await?;
    namespace
        .until("the Service", "HTTPRoute", "shop", resolves("True/ResolvedRefs"))
        .await?;
    site.until_condition("web", "Programmed", "False/AddressNotAssigned")
        .await?;
    let ingress = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.8"}]}});
    namespace.merge_status(SERVICE, &site.envoys("web"), &ingress).await?;
    site.until_condition("web", "Programmed", "False/Pending").await?;

    // A lasting mistake is reported, after all earlier reports.
    let mut other = route.clone();
    other["metadata"]["name"] = "wrong".into();
    other["spec"]["rules"][0]["backendRefs"][0]["name"] = "gone".into();
    namespace.apply_object(&other).await?;
    let warnings = async || -> Result<Vec<Value>> {
        let events = namespace.list("events.k8s.io/v1/Event", "").await?;
        Ok(events.into_iter().filter(|event| event["type"] == "Warning").collect())
    };
    let told = async || (!warnings().await.ok()?.is_empty()).then_some(());
    poll::until("the Event", told).await?;
    for event in warnings().await? {
        assert_eq!(event["regarding"]["name"], "wrong", "{event:#}");
    }
    let log = site.controller.log()?;
    let is_warning = |line: &&str| line.contains(" WARN ") || line.contains(" ERROR ");
    let lines: Vec<_> = log.lines().filter(is_warning).collect();
    assert!(lines.len() == 1 && lines[0].contains("gone"), "{lines:#?}");
    Ok(())
}
