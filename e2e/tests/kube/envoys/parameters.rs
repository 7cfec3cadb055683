use anyhow::Result;
use limpet_e2e::kube::refused;
use serde_json::{Value, json};

use super::{DEPLOYMENT, SERVICE, Site, parameters, refers_to};
use crate::site::condition;

#[tokio::test]
async fn the_gateways_parameters_are_over_those_of_its_class() -> Result<()> {
    let site = Site::start(
        "parameters",
        json!({"defaults": {"replicas": 5, "service": {"type": "NodePort"}}}),
    )
    .await?;
    let name = site.namespace.name();
    let patch = json!({"spec": {"template": {"spec": {
        "containers": [
            {"name": "envoy", "env": [{"name": "A", "value": "1"}], "volumeMounts": [{"mountPath": "/x", "name": "x"}]},
            {"name": "sidecar", "image": "sidecar"},
        ],
        "volumes": [{"name": "x", "emptyDir": {}}],
    }}}});
    parameters(
        &site.namespace,
        "class",
        &json!({
            "replicas": 3,
            "envoy": {"image": "envoy-of-the-class"},
            "pod": {"nodeSelector": {"role": "edge"}, "annotations": {"a": "class", "b": "class"}},
            "patch": {"deployment": patch},
        }),
    )
    .await?;
    let reference = json!({"spec": {"parametersRef": {
        "group": "limpet.dev", "kind": "EnvoyDeployment", "name": "class", "namespace": name,
    }}});
    site.namespace.merge("GatewayClass", name, &reference).await?;
    parameters(
        &site.namespace,
        "own",
        &json!({"replicas": 1, "pod": {"annotations": {"b": "own"}}}),
    )
    .await?;
    site.gateway("web", &refers_to("own")).await?;
    let has_one = |object: &Value| object["spec"]["replicas"] == 1;
    let deployment = site.until("one", DEPLOYMENT, "web", has_one).await?;
    let template = &deployment["spec"]["template"];
    let envoy = &template["spec"]["containers"][0];
    assert_eq!(envoy["image"], "envoy-of-the-class");
    assert_eq!(template["spec"]["nodeSelector"]["role"], "edge");
    let annotations = &template["metadata"]["annotations"];
    assert_eq!((&annotations["a"], &annotations["b"]), (&json!("class"), &json!("own")));
    assert_eq!(template["spec"]["containers"][1]["name"], "sidecar");
    let has = |list: &Value, key: &str, value: &str| {
        let mut items = list.as_array().into_iter().flatten();
        items.any(|item| item[key] == value)
    };
    assert!(
        has(&envoy["env"], "name", "A") && has(&envoy["volumeMounts"], "mountPath", "/x"),
        "{envoy}"
    );
    assert!(has(&envoy["volumeMounts"], "mountPath", "/etc/limpet"), "{envoy}");
    let service = site.until("it", SERVICE, "web", |_| true).await?;
    assert_eq!(service["spec"]["type"], "NodePort");
    Ok(())
}

#[tokio::test]
async fn bad_parameters_are_named_and_what_runs_stays() -> Result<()> {
    let site = Site::start("bad-parameters", json!({})).await?;
    parameters(&site.namespace, "own", &json!({"replicas": 3})).await?;
    site.gateway("web", &refers_to("own")).await?;
    let has_three = |object: &Value| object["spec"]["replicas"] == 3;
    site.until("three", DEPLOYMENT, "web", has_three).await?;
    site.until_condition("web", "Accepted", "True/Accepted").await?;
    site.namespace.delete("EnvoyDeployment", "own").await?;
    let message = site
        .until_condition("web", "Accepted", "False/InvalidParameters")
        .await?;
    let words = format!(
        "spec.infrastructure.parametersRef: expected EnvoyDeployment {}/own, which does not exist",
        site.namespace.name()
    );
    assert!(message.contains(&words), "{message}");
    // Longer than the controller takes to write.
    site.gateway("later", &json!({})).await?;
    site.until_all_there("later").await?;
    site.until("three", DEPLOYMENT, "web", has_three).await?;

    let patch = json!({"replicas": 4, "patch": {"deployment": {"spec": {"selector": {"matchLabels": {"a": "b"}}}}}});
    parameters(&site.namespace, "own", &patch).await?;
    let says = |words: &'static str| {
        move |object: &Value| {
            let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
            conditions.any(|condition| {
                condition["message"]
                    .as_str()
                    .is_some_and(|message| message.contains(words))
            })
        }
    };
    let selector = says("spec.patch.deployment.spec.selector: remove it");
    site.namespace.until("the field", "Gateway", "web", selector).await?;
    parameters(&site.namespace, "own", &json!({"replicas": 4})).await?;
    site.until("four", DEPLOYMENT, "web", |object| object["spec"]["replicas"] == 4)
        .await?;

    let class = json!({"spec": {"parametersRef": {"group": "", "kind": "ConfigMap", "name": "x", "namespace": "y"}}});
    site.namespace
        .merge("GatewayClass", site.namespace.name(), &class)
        .await?;
    let invalid = |object: &Value| condition(&object["status"]["conditions"], "Accepted") == "False/InvalidParameters";
    site.namespace
        .until("the class", "GatewayClass", site.namespace.name(), invalid)
        .await?;
    site.namespace.until("its Gateway", "Gateway", "web", invalid).await?;
    site.until_all_there("web").await
}

#[tokio::test]
async fn the_definition_refuses_what_cannot_be() -> Result<()> {
    let site = Site::start("definition", json!({})).await?;
    for (spec, words) in [
        (
            json!({"replicas": 1, "autoscaling": {"maxReplicas": 2}}),
            "replicas is expected only without autoscaling",
        ),
        (
            json!({"autoscaling": {"minReplicas": 3, "maxReplicas": 2}}),
            "minReplicas is expected to be at most",
        ),
        (
            json!({"serviceRef": {"name": "a"}}),
            "serviceRef is expected only with managed: false",
        ),
        (json!({"filter": "Lua"}), "spec.filter"),
        (
            json!({"drainTime": "1h1s"}),
            "drainTime is expected to be from 1s to 1h",
        ),
        (json!({"replicas": -1}), "spec.replicas"),
        (json!({"drainTime": "30"}), "spec.drainTime"),
        (json!({"metricsPort": 0}), "spec.metricsPort"),
        (
            json!({"metricsPort": 19001}),
            "metricsPort is expected not to be Envoy's own",
        ),
        (json!({"service": {"type": "Loadbalancer"}}), "spec.service.type"),
        (
            json!({"envoy": {"resources": {"limits": {"memory": "1Gx"}}}}),
            "spec.envoy.resources.limits.memory",
        ),
        (
            json!({"limpet": {"resources": {"requests": {"cpu": "-1"}}}}),
            "spec.limpet.resources.requests.cpu",
        ),
        (
            json!({"envoy": {"resources": {"requests": {"cpu": -1}}}}),
            "spec.envoy.resources.requests.cpu",
        ),
        (json!({"envoy": {"image": "a b"}}), "spec.envoy.image"),
        (json!({"pod": {"labels": {"team": "a b"}}}), "spec.pod.labels.team"),
        (
            json!({"managed": false, "serviceRef": {"name": "A_b"}}),
            "spec.serviceRef.name",
        ),
        (json!({"replica": 2}), ".spec.replica: field not declared"),
        (
            json!({"envoy": {"resources": {"limit": {"memory": "1Gi"}}}}),
            ".spec.envoy.resources.limit: field not declared",
        ),
    ] {
        let text = match refused(parameters(&site.namespace, "bad", &spec).await) {
            Ok(refusal) => refusal.to_string(),
            Err(error) => format!("{error:#}"),
        };
        assert!(text.contains(words), "{spec}: {text}");
    }
    for spec in [
        json!({}),
        json!({"replicas": 0, "drainTime": "1m30s", "filter": "Module", "service": {"type": "NodePort"}}),
        json!({
            "envoy": {"image": "envoy:1", "resources": {
                "requests": {"cpu": 1, "memory": "256Mi"},
                "limits": {"cpu": "1.5", "memory": "1e9", "example.com/gpu": "2"},
                "claims": [{"name": "a", "request": "b"}],
            }},
            "limpet": {"resources": {"requests": {"cpu": "10m"}}},
            "pod": {"labels": {"team": "shop", "none": ""}, "nodeSelector": {"example.com/pool": "edge"}},
        }),
        json!({"managed": false, "serviceRef": {"name": "web", "namespace": "shop"}}),
    ] {
        parameters(&site.namespace, "good", &spec).await?;
    }
    Ok(())
}
