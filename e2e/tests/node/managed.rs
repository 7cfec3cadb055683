//! Envoys that the controller keeps, on a genuine node.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use limpet_api::ObjectName;
use limpet_e2e::{Carrier, Crowd, Visitor};
use limpet_model::envoys_name;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::site::{Site, deployed, restart, routes, until_rolled_out};

/// A GatewayClass whose Envoys the controller keeps. Those of the class `limpet` are by hand.
const CLASS: &str = "managed";
const CONTROLLER: &str = "limpet-controller";
/// The same Envoy under another name.
const OTHER_IMAGE: &str = "limpet.dev/e2e/envoy:2";

/// Lets the controller keep Envoys.
async fn managed() -> Result<&'static Site> {
    static MANAGED: OnceCell<()> = OnceCell::const_new();
    let site = Site::shared().await?;
    MANAGED.get_or_try_init(async || configure(site).await).await?;
    Ok(site)
}

async fn configure(site: &Site) -> Result<()> {
    let (default, system) = (site.default(), site.system());
    default.define(&deployed("crds/envoydeployments.yaml")?).await?;
    let by_hand = parameters("by-hand", &json!({"managed": false}));
    system.apply_object(&by_hand).await?;
    let reference = json!({"spec": {"parametersRef": {
        "group": "limpet.dev", "kind": "EnvoyDeployment", "name": "by-hand", "namespace": "limpet-system",
    }}});
    default.merge("GatewayClass", "limpet", &reference).await?;
    let map = system.get("v1/ConfigMap", CONTROLLER).await?;
    let config = map["data"]["controller.yaml"].as_str().context("no configuration")?;
    let mut config: Value = serde_saphyr::from_str(config)?;
    config["envoy"]["managed"] = json!({"defaults": {"service": {"type": "ClusterIP"}}});
    let change = json!({"data": {"controller.yaml": config.to_string()}});
    system.merge("v1/ConfigMap", CONTROLLER, &change).await?;
    restart(&system, CONTROLLER).await?;
    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GatewayClass",
        "metadata": {"name": CLASS},
        "spec": {"controllerName": "limpet.dev/controller"},
    });
    default.apply_object(&class).await.map(drop)
}

fn parameters(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "limpet.dev/v1alpha1",
        "kind": "EnvoyDeployment",
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// Applies a Gateway with its routes and its parameters. Returns the address in its status once its Envoys serve there.
async fn gateway(site: &Site, name: &str, spec: &Value) -> Result<SocketAddr> {
    let default = site.default();
    default.apply_object(&parameters(name, spec)).await?;
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": name},
        "spec": {
            "gatewayClassName": CLASS,
            // A port for which a process needs a privilege.
            "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
            "infrastructure": {
                "parametersRef": {"group": "limpet.dev", "kind": "EnvoyDeployment", "name": name},
            },
        },
    });
    default.apply_object(&gateway).await?;
    default.apply_object(&routes(name)).await?;
    let envoys = envoys(name);
    site.system()
        .until("its Deployment", "apps/v1/Deployment", &envoys, |_| true)
        .await?;
    until_rolled_out(&site.system(), &envoys).await?;
    let is_programmed = |gateway: &Value| {
        let mut conditions = gateway["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|condition| condition["type"] == "Programmed" && condition["status"] == "True")
    };
    let gateway = default
        .until("acknowledgements", "Gateway", name, is_programmed)
        .await?;
    let address = gateway["status"]["addresses"][0]["value"]
        .as_str()
        .context("no address")?;
    Ok(SocketAddr::new(address.parse()?, 80))
}

fn envoys(gateway: &str) -> String {
    envoys_name(&ObjectName::new("default", gateway))
}

/// Each request has a connection of its own, which kube-proxy leads to any of the Envoys.
async fn sessions_hold(address: SocketAddr) -> Result<()> {
    let mut pods = BTreeSet::new();
    for _ in 0..10 {
        let mut visitor = Visitor::of(address);
        let pod = visitor.get("/cookie").await?.backend().context("no pod")?.to_owned();
        for _ in 0..10 {
            let again = visitor.get("/cookie").await?;
            ensure!(again.backend() == Some(&pod), "the session of {pod}: {again:?}");
        }
        pods.insert(pod);
    }
    ensure!(pods.len() > 1, "all sessions are on {pods:?}");
    Ok(())
}

#[tokio::test]
async fn envoys_that_are_kept_serve_at_the_gateways_address() -> Result<()> {
    let site = managed().await?;
    for (name, filter) in [("wasm", "Wasm"), ("module", "Module")] {
        let address = gateway(site, name, &json!({"filter": filter})).await?;
        sessions_hold(address).await.context(filter)?;
        site.default().delete("Gateway", name).await?;
        site.system().until_gone("apps/v1/Deployment", &envoys(name)).await?;
    }
    Ok(())
}

#[tokio::test]
async fn another_image_of_envoy_costs_no_request_and_no_session() -> Result<()> {
    let site = managed().await?;
    let address = gateway(site, "rollout", &json!({})).await?;
    let envoys = envoys("rollout");
    let crowd = Crowd::gather(20, &Carrier::ALL, &[address]).await?;
    crowd.rounds(3).await?;
    // A Gateway of another namespace may not say that.
    let image = json!({"spec": {"parametersRef": {
        "group": "limpet.dev", "kind": "EnvoyDeployment", "name": "other-image", "namespace": "limpet-system",
    }}});
    let other = parameters("other-image", &json!({"envoy": {"image": OTHER_IMAGE}}));
    site.system().apply_object(&other).await?;
    site.default().merge("GatewayClass", CLASS, &image).await?;
    let has_image = |object: &Value| object["spec"]["template"]["spec"]["containers"][0]["image"] == OTHER_IMAGE;
    site.system()
        .until("the image", "apps/v1/Deployment", &envoys, has_image)
        .await?;
    until_rolled_out(&site.system(), &envoys).await?;
    crowd.rounds(3).await?;
    let journeys = crowd.leave().await;
    site.default().delete("Gateway", "rollout").await?;
    journeys.none_failed()?;
    journeys.none_exposed()?;
    journeys.none_moved()
}
