//! The objects are as they should be, and stay so.

use anyhow::{Result, ensure};
use limpet_e2e::kube::Controller;
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::{DEPLOYMENT, KINDS, SERVICE, Site, parameters, refers_to};

#[tokio::test]
async fn a_gateway_gets_its_envoys_and_takes_them_with_it() -> Result<()> {
    let site = Site::start("envoys", json!({})).await?;
    site.gateway(
        "web",
        &json!({"infrastructure": {"labels": {"team": "shop"}, "annotations": {"cost": "1"}}}),
    )
    .await?;
    site.gateway("other", &json!({})).await?;
    for gateway in ["web", "other"] {
        site.until_all_there(gateway).await?;
    }
    for kind in KINDS {
        let object = site.until("it to be there", kind, "web", |_| true).await?;
        let (labels, annotations) = (&object["metadata"]["labels"], &object["metadata"]["annotations"]);
        assert_eq!(labels["gateway.networking.k8s.io/gateway-name"], "web", "{kind}");
        assert_eq!(labels["limpet.dev/gateway-namespace"], site.namespace.name(), "{kind}");
        assert_eq!(
            (&labels["team"], &annotations["cost"]),
            (&json!("shop"), &json!("1")),
            "{kind}"
        );
    }
    let deployment = site.until("it", DEPLOYMENT, "web", |_| true).await?;
    let pod = &deployment["spec"]["template"];
    assert_eq!(pod["metadata"]["labels"]["team"], "shop");
    assert_eq!(pod["metadata"]["annotations"]["cost"], "1");
    assert_eq!(deployment["spec"]["replicas"], 2);
    let service = site.until("it", SERVICE, "web", |_| true).await?;
    let port = &service["spec"]["ports"][0];
    assert_eq!((&port["port"], &port["targetPort"]), (&json!(8080), &json!(8080)));

    site.namespace.delete("Gateway", "web").await?;
    for kind in KINDS {
        site.namespace.until_gone(kind, &site.envoys("web")).await?;
    }
    site.until_all_there("other").await?;
    // Without its class, a Gateway is served as before.
    site.namespace.delete("GatewayClass", site.namespace.name()).await?;
    let is_told = |gateway: &Value| gateway["status"]["conditions"].to_string().contains(" is gone");
    site.namespace.until("the message", "Gateway", "other", is_told).await?;
    site.until_all_there("other").await?;
    site.namespace.delete("Gateway", "other").await?;
    for kind in KINDS {
        site.namespace.until_gone(kind, &site.envoys("other")).await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_others_change_is_repaired_and_the_rest_stays() -> Result<()> {
    let site = Site::start("drift", json!({})).await?;
    site.gateway("web", &json!({})).await?;
    site.until_all_there("web").await?;
    let name = site.envoys("web");
    let change = json!({
        "metadata": {"labels": {"somebody": "else"}},
        "spec": {"template": {"spec": {"containers": [{"name": "envoy", "image": "other"}]}}},
    });
    site.namespace.merge(DEPLOYMENT, &name, &change).await?;
    let change = json!({"spec": {"ports": [{"name": "x", "port": 99}]}});
    site.namespace.merge(SERVICE, &name, &change).await?;
    let has_image = |object: &Value| {
        let image = &object["spec"]["template"]["spec"]["containers"][0]["image"];
        image.as_str().is_some_and(|image| image.contains("envoyproxy"))
    };
    let repaired = site.until("the image", DEPLOYMENT, "web", has_image).await?;
    assert_eq!(repaired["metadata"]["labels"]["somebody"], "else");
    let has_port = |object: &Value| {
        let mut ports = object["spec"]["ports"].as_array().into_iter().flatten();
        ports.any(|port| port["port"] == 8080 && port["targetPort"] == 8080)
    };
    site.until("the port", SERVICE, "web", has_port).await?;
    for kind in KINDS {
        let uid = site.namespace.get(kind, &name).await?["metadata"]["uid"].clone();
        site.namespace.delete(kind, &name).await?;
        let is_another = |object: &Value| object["metadata"]["uid"] != uid;
        site.until("another one", kind, "web", is_another).await?;
    }
    Ok(())
}

/// The API server rewrites quantities and drops empty values, which must not lead to endless writes.
#[tokio::test]
async fn what_the_api_server_writes_its_own_way_settles() -> Result<()> {
    let resources = json!({"requests": {"cpu": "0.5", "memory": "1024Mi"}, "limits": {"memory": "2048Mi"}});
    let patch = json!({"spec": {"template": {"spec": {"hostNetwork": false, "tolerations": [], "nodeSelector": {}}}}});
    let site = Site::start(
        "quantities",
        json!({"defaults": {"envoy": {"resources": resources}, "patch": {"deployment": patch}}}),
    )
    .await?;
    site.gateway("web", &json!({})).await?;
    site.until_all_there("web").await?;
    let deployment = site.namespace.get(DEPLOYMENT, &site.envoys("web")).await?;
    let resources = &deployment["spec"]["template"]["spec"]["containers"][0]["resources"];
    assert_eq!(resources["requests"]["cpu"], "500m");
    let written = || {
        site.controller
            .log()
            .map(|log| log.matches("\"Deployment\"").count() + log.matches("Deployment").count())
    };
    let before = written()?;
    // Longer than the controller waits for its next look.
    tokio::time::sleep(std::time::Duration::from_secs(12)).await;
    assert_eq!(written()?, before, "it was written again:\n{}", site.controller.log()?);
    Ok(())
}

#[tokio::test]
async fn an_autoscaler_decides_how_many_pods_there_are() -> Result<()> {
    let site = Site::start("autoscaling", json!({})).await?;
    parameters(
        &site.namespace,
        "scaled",
        &json!({"autoscaling": {"minReplicas": 3, "maxReplicas": 9}}),
    )
    .await?;
    site.gateway("web", &refers_to("scaled")).await?;
    site.gateway("foreign", &json!({})).await?;
    let autoscaler = "autoscaling/v2/HorizontalPodAutoscaler";
    let own = site.until("an autoscaler", autoscaler, "web", |_| true).await?;
    assert_eq!(own["spec"]["maxReplicas"], 9);
    let foreign = site.envoys("foreign");
    site.until_all_there("foreign").await?;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": foreign});
    let theirs = json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "theirs"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 9},
    });
    site.namespace.apply_object(&theirs).await?;
    for gateway in ["web", "foreign"] {
        let name = site.envoys(gateway);
        let scale = json!({"spec": {"replicas": 7}});
        site.namespace.merge(DEPLOYMENT, &name, &scale).await?;
        // This makes the controller write the object.
        site.namespace
            .merge(
                DEPLOYMENT,
                &name,
                &json!({"spec": {"minReadySeconds": 1, "strategy": {"rollingUpdate": {"maxSurge": 2}}}}),
            )
            .await?;
        let repaired = |object: &Value| object["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 1;
        let object = site.until("the repair", DEPLOYMENT, gateway, repaired).await?;
        assert_eq!(object["spec"]["replicas"], 7, "{gateway}");
    }
    // An unwanted autoscaler goes, and the number is the controller's again.
    parameters(&site.namespace, "scaled", &json!({"replicas": 4})).await?;
    site.namespace.until_gone(autoscaler, &site.envoys("web")).await?;
    site.until("four", DEPLOYMENT, "web", |object| object["spec"]["replicas"] == 4)
        .await?;
    ensure!(
        site.namespace.find(autoscaler, "theirs").await?.is_some(),
        "somebody else's is gone"
    );
    Ok(())
}

#[tokio::test]
async fn only_the_leader_keeps_envoys_and_the_next_one_goes_on() -> Result<()> {
    let mut site = Site::start("leaders", json!({})).await?;
    let change = |config: &mut Value| config["envoy"]["managed"] = json!({});
    let other = Controller::start(site.cluster.server(), &site.namespace, change).await?;
    site.gateway("web", &json!({})).await?;
    site.until_all_there("web").await?;
    let wrote = |controller: &Controller| controller.log().is_ok_and(|log| log.contains("written"));
    ensure!(wrote(&site.controller) && !wrote(&other), "both write");
    site.controller.end().await?;
    let name = site.envoys("web");
    site.namespace.delete(SERVICE, &name).await?;
    poll::until("the other replica", async || {
        site.namespace.find(SERVICE, &name).await.ok().flatten()
    })
    .await?;
    // It logs after the API server has answered.
    poll::until("the other replica's log", async || wrote(&other).then_some(())).await
}
