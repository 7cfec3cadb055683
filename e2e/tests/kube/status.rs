use anyhow::{Context, Result};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Release};
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

/// A policy that no route reaches has no ancestor, and a route to a missing Gateway no parent.
#[tokio::test]
async fn what_has_no_place_in_a_status_is_an_event() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("without").await?;
    namespace.gateway_class().await?;
    namespace.service("web", &[("app", "web")]).await?;
    namespace.service("other", &[("app", "other")]).await?;
    namespace.apply(&site_objects(&namespace)).await?;
    let policy = |name: &str, target: &str| {
        format!(
            "
---
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: BackendLBPolicy
metadata: {{name: {name}}}
spec: {{targetRefs: [{{{target}}}], sessionPersistence: {{sessionName: {name}}}}}
"
        )
    };
    let lost = "
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: lost}
spec: {parentRefs: [{name: wbe}], rules: [{backendRefs: [{name: web, port: 80}]}]}
";
    let core = policy("core", "group: core, kind: Service, name: web");
    let objects = [
        policy("pod", "group: '', kind: Pod, name: web"),
        policy("gone", "group: '', kind: Service, name: nobody"),
        policy("unused", "group: '', kind: Service, name: other"),
        core,
        lost.to_owned(),
    ];
    namespace.apply(&objects.concat()).await?;
    let mut controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;

    // A rule leads to the Service, so this one has a status.
    let invalid = |object: &Value| {
        let conditions = &object["status"]["ancestors"][0]["conditions"];
        condition(conditions, "Accepted") == "False/Invalid"
    };
    namespace
        .until("the policy to say so", "BackendLBPolicy", "core", invalid)
        .await?;
    let expected = [
        ("lost", "NoMatchingParent"),
        ("pod", "Invalid"),
        ("gone", "TargetNotFound"),
        ("unused", "NoRoute"),
    ];
    let told = async || {
        for (name, reason) in expected {
            (events(&namespace, name, reason).await.ok()? > 0).then_some(())?;
        }
        Some(())
    };
    poll::until("the Events", told).await?;
    // Once each, despite changes and restarts.
    namespace.delete("Service", "other").await?;
    let changed = async || (events(&namespace, "unused", "TargetNotFound").await.ok()? > 0).then_some(());
    poll::until("the Event about the change", changed).await?;
    let words = format!("expected an existing Service, found {}/nobody", namespace.name());
    assert_eq!(controller.log()?.matches(&words).count(), 1, "{}", controller.log()?);
    namespace.service("other", &[("app", "other")]).await?;
    controller.end().await?;
    controller.launch()?;
    controller.until_ready().await?;
    poll::until("the Events", told).await?;
    for (name, reason) in expected {
        assert_eq!(events(&namespace, name, reason).await?, 1, "{name}");
    }
    for name in ["pod", "gone", "unused"] {
        let policy = namespace.get("BackendLBPolicy", name).await?;
        assert!(
            policy["status"]["ancestors"].as_array().is_none_or(Vec::is_empty),
            "{policy}"
        );
    }
    Ok(())
}

async fn events(namespace: &Namespace, name: &str, reason: &str) -> Result<usize> {
    let events = namespace.list("events.k8s.io/v1/Event", "").await?;
    let is = |event: &&Value| event["regarding"]["name"] == name && event["reason"] == reason;
    Ok(events.iter().filter(is).count())
}

/// A missing target is reported, although the policy's other target has sessions.
#[tokio::test]
async fn a_target_that_comes_and_goes_is_told_each_time() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_6_1).await?;
    let namespace = cluster.namespace("target").await?;
    namespace.gateway_class().await?;
    namespace.service("web", &[("app", "web")]).await?;
    namespace.apply(&site_objects(&namespace)).await?;
    let policy = "
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackendTrafficPolicy
metadata: {name: web}
spec:
  targetRefs: [{group: '', kind: Service, name: web}, {group: '', kind: Service, name: gone}]
  sessionPersistence: {sessionName: web}
";
    namespace.apply(policy).await?;
    let controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    let words = format!("expected an existing Service, found {}/gone", namespace.name());
    let events = async || {
        let events = namespace.list("events.k8s.io/v1/Event", "").await?;
        let is = |event: &&Value| {
            let note = event["note"].as_str().unwrap_or_default();
            event["regarding"]["name"] == "web" && event["reason"] == "TargetNotFound" && note.contains(&words)
        };
        anyhow::Ok(events.iter().filter(is).count())
    };
    poll::until("the Event", async || (events().await.ok()? == 1).then_some(())).await?;
    let lines = || controller.log().map_or(0, |log| log.matches(&words).count());
    let is_accepted = |named: bool| {
        let words = &words;
        move |object: &Value| {
            let conditions = &object["status"]["ancestors"][0]["conditions"];
            let message = conditions.to_string();
            condition(conditions, "Accepted") == "True/Accepted" && message.contains(words.as_str()) == named
        }
    };
    for round in 1..=2 {
        let kind = "XBackendTrafficPolicy";
        namespace
            .until("the policy to say so", kind, "web", is_accepted(true))
            .await?;
        poll::until("the line in the log", async || (lines() == round).then_some(())).await?;
        namespace.service("gone", &[("app", "web")]).await?;
        namespace.until("the target", kind, "web", is_accepted(false)).await?;
        assert_eq!(lines(), round);
        namespace.delete("Service", "gone").await?;
    }
    poll::until("the line in the log", async || (lines() == 3).then_some(())).await?;
    assert_eq!(events().await?, 1, "the same Event is written once while it exists");
    Ok(())
}

#[tokio::test]
async fn a_gateway_does_not_get_what_cannot_be_had() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    let namespace = cluster.namespace("addresses").await?;
    namespace.gateway_class().await?;
    let class = namespace.name();
    for (name, fields) in [
        ("unusable", "addresses: [{value: 192.0.2.9}]"),
        ("named", "addresses: [{type: NamedAddress, value: pool}]"),
        (
            "parameters",
            "infrastructure: {parametersRef: {group: '', kind: ConfigMap, name: x}}",
        ),
    ] {
        let gateway = format!(
            "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: {name}}}
spec: {{gatewayClassName: {class}, listeners: [{{name: http, port: 8080, protocol: HTTP}}], {fields}}}
"
        );
        namespace.apply(&gateway).await?;
    }
    let _controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    for (name, accepted, programmed) in [
        ("unusable", "True/Accepted", "False/AddressNotUsable"),
        ("named", "False/UnsupportedAddress", "False/Invalid"),
        ("parameters", "False/InvalidParameters", "False/Invalid"),
    ] {
        let told = |object: &Value| {
            let conditions = &object["status"]["conditions"];
            condition(conditions, "Accepted") == accepted && condition(conditions, "Programmed") == programmed
        };
        namespace
            .until(&format!("{name} to say so"), "Gateway", name, told)
            .await?;
    }
    Ok(())
}
