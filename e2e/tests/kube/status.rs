//! The statuses that the controller writes.

use anyhow::{Context, Result};
use limpet_e2e::kube::{Cluster, Controller, Release};
use limpet_e2e::poll;
use limpet_model::SUPPORTED_FEATURES;
use serde_json::{Value, json};

use crate::site::{condition, site_objects};

#[tokio::test]
async fn every_object_has_a_status() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    let namespace = cluster.namespace("status").await?;
    namespace.gateway_class().await?;
    namespace.apply(&site_objects(&namespace)).await?;
    let controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;

    let accepted = |object: &Value| condition(&object["status"]["conditions"], "Accepted") == "True/Accepted";
    let class = namespace
        .until("the class", "GatewayClass", namespace.name(), accepted)
        .await?;
    let features = class["status"]["supportedFeatures"].as_array().context("no features")?;
    let claimed: Vec<_> = features.iter().filter_map(|feature| feature["name"].as_str()).collect();
    assert_eq!(claimed, SUPPORTED_FEATURES);
    let gateway = namespace.until("the Gateway", "Gateway", "web", accepted).await?;
    let listener = &gateway["status"]["listeners"][0];
    assert_eq!(
        (&listener["name"], &listener["attachedRoutes"]),
        (&json!("http"), &json!(1))
    );
    let conditions = &gateway["status"]["conditions"];
    assert_eq!(
        condition(conditions, "Programmed"),
        "False/Pending",
        "the Gateway is programmed without an Envoy"
    );
    assert_eq!(condition(&listener["conditions"], "Programmed"), "False/Pending");

    let parent = |object: &Value| object["status"]["parents"][0].clone();
    let unresolved =
        |object: &Value| condition(&parent(object)["conditions"], "ResolvedRefs") == "False/BackendNotFound";
    let route = namespace
        .until("the route to name the missing Service", "HTTPRoute", "web", unresolved)
        .await?;
    assert_eq!(parent(&route)["controllerName"], namespace.controller_name());
    namespace.service("web", &[("app", "web")]).await?;
    let resolved = |object: &Value| condition(&parent(object)["conditions"], "ResolvedRefs") == "True/ResolvedRefs";
    let after = namespace.until("the Service", "HTTPRoute", "web", resolved).await?;
    let time = |object: &Value, name: &str| {
        let conditions = parent(object)["conditions"].clone();
        let found = conditions
            .as_array()
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == name);
        found.map(|found| found["lastTransitionTime"].clone())
    };
    assert_eq!(
        time(&route, "Accepted"),
        time(&after, "Accepted"),
        "the time of its acceptance changed"
    );

    // The controller writes a status only if it changes.
    let settled = async || {
        let before = namespace.get("HTTPRoute", "web").await.ok()?;
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let after = namespace.get("HTTPRoute", "web").await.ok()?;
        (before == after).then_some(())
    };
    poll::until("no more writes", settled).await?;
    let log = controller.log().context("the controller is gone")?;
    assert!(!log.contains("ERROR"), "{log}");
    Ok(())
}

/// GEP-1364: a route is accepted if some of its traffic is routed as configured.
#[tokio::test]
async fn a_route_without_a_rule_to_follow_is_not_accepted() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    let namespace = cluster.namespace("refused").await?;
    namespace.gateway_class().await?;
    namespace.service("web", &[("app", "web")]).await?;
    let gateway = site_objects(&namespace);
    let (gateway, _) = gateway.split_once("---").context("a Gateway and a route")?;
    namespace.apply(gateway).await?;
    let refused = "{filters: [{type: ExtensionRef, extensionRef: {group: a.b, kind: C, name: d}}]}";
    let good = "{backendRefs: [{name: web, port: 80}]}";
    for (name, rules) in [("none", refused.to_owned()), ("some", format!("{refused}, {good}"))] {
        let route = format!(
            "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}}}
spec: {{parentRefs: [{{name: web}}], hostnames: [{name}.example], rules: [{rules}]}}
"
        );
        namespace.apply(&route).await?;
    }
    let _controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;

    let is = |object: &Value, name: &str, expected: &str| {
        condition(&object["status"]["parents"][0]["conditions"], name) == expected
    };
    let none = |object: &Value| is(object, "Accepted", "False/UnsupportedValue") && is(object, "PartiallyInvalid", "");
    namespace
        .until("the refused route to say so", "HTTPRoute", "none", none)
        .await?;
    let some = |object: &Value| {
        is(object, "Accepted", "True/Accepted") && is(object, "PartiallyInvalid", "True/UnsupportedValue")
    };
    namespace
        .until("the other route to say so", "HTTPRoute", "some", some)
        .await?;
    let attached = |object: &Value| object["status"]["listeners"][0]["attachedRoutes"] == 1;
    namespace
        .until("the accepted route to be counted alone", "Gateway", "web", attached)
        .await?;
    Ok(())
}
