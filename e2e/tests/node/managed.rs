//! Envoys that the controller keeps, on a genuine node.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limpet_api::ObjectName;
use limpet_e2e::kube::{has_condition, until_led};
use limpet_e2e::{Carrier, Crowd, Visitor, poll};
use limpet_model::envoys_name;
use serde_json::{Value, json};

use crate::site::{Site, routes, until_rolled_out};

/// The name of a class and of its parameters. The controller keeps its Envoys.
const CLASS: &str = "kept";
const DEPLOYMENT: &str = "apps/v1/Deployment";
/// The same Envoy under another name.
const OTHER_IMAGE: &str = "limpet.dev/e2e/envoy:2";

/// Applies the class with these parameters. The cluster has no load balancer, so Services have its own addresses.
async fn class(site: &Site, mut spec: Value) -> Result<()> {
    spec["service"] = json!({"type": "ClusterIP"});
    site.system().apply_object(&parameters(CLASS, &spec)).await?;
    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GatewayClass",
        "metadata": {"name": CLASS},
        "spec": {
            "controllerName": "limpet.dev/controller",
            "parametersRef": {
                "group": "limpet.dev",
                "kind": "EnvoyDeployment",
                "name": CLASS,
                "namespace": "limpet-system",
            },
        },
    });
    site.default().apply_object(&class).await.map(drop)
}

fn parameters(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "limpet.dev/v1alpha1",
        "kind": "EnvoyDeployment",
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// A Gateway with its routes and parameters.
async fn apply(site: &Site, name: &str, spec: &Value) -> Result<()> {
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
    default.apply_object(&routes(name, "/cookie")).await.map(drop)
}

/// As [`apply`]. Returns the address in the Gateway's status once its Envoys serve there.
async fn gateway(site: &Site, name: &str, spec: &Value) -> Result<SocketAddr> {
    apply(site, name, spec).await?;
    let (default, system) = (site.default(), site.system());
    system
        .until("its Deployment", DEPLOYMENT, &envoys(name), |_| true)
        .await?;
    until_rolled_out(&system, &envoys(name)).await?;
    let is_programmed = |gateway: &Value| has_condition(gateway, "Programmed");
    let gateway = default
        .until("acknowledgements", "Gateway", name, is_programmed)
        .await?;
    let address = gateway["status"]["addresses"][0]["value"].as_str();
    let address = SocketAddr::new(address.context("no address")?.parse()?, 80);
    until_led(address).await?;
    Ok(address)
}

fn envoys(gateway: &str) -> String {
    envoys_name(&ObjectName::new("default", gateway))
}

/// Deletes a Gateway, and waits until its Envoys are gone.
async fn remove(site: &Site, gateway: &str) -> Result<()> {
    site.default().delete("HTTPRoute", gateway).await?;
    site.default().delete("Gateway", gateway).await?;
    site.system().until_gone(DEPLOYMENT, &envoys(gateway)).await
}

/// kube-proxy leads each connection to any Envoy.
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
    let site = Site::shared().await?;
    class(site, json!({})).await?;
    for (name, filter) in [("wasm", "Wasm"), ("module", "Module")] {
        let address = gateway(site, name, &json!({"filter": filter})).await?;
        sessions_hold(address).await.context(filter)?;
        remove(site, name).await?;
    }
    Ok(())
}

#[tokio::test]
async fn another_image_of_envoy_costs_no_request_and_no_session() -> Result<()> {
    let site = Site::shared().await?;
    class(site, json!({})).await?;
    let address = gateway(site, "rollout", &json!({})).await?;
    let envoys = envoys("rollout");
    let crowd = Crowd::gather(20, &Carrier::ALL, &[address]).await?;
    crowd.rounds(3).await?;
    class(site, json!({"envoy": {"image": OTHER_IMAGE}})).await?;
    let has_image = |object: &Value| object["spec"]["template"]["spec"]["containers"][0]["image"] == OTHER_IMAGE;
    site.system().until("the image", DEPLOYMENT, &envoys, has_image).await?;
    until_rolled_out(&site.system(), &envoys).await?;
    crowd.rounds(3).await?;
    let journeys = crowd.leave().await;
    remove(site, "rollout").await?;
    journeys.none_failed()?;
    journeys.none_exposed()?;
    journeys.none_moved()
}

/// A rollout has ten seconds, and the controller looks every ten.
const TOLD: Duration = Duration::from_secs(120);

#[tokio::test]
async fn pods_that_no_node_takes_are_told_and_former_ones_serve() -> Result<()> {
    let site = Site::shared().await?;
    class(site, json!({})).await?;
    let address = gateway(site, "stuck", &json!({})).await?;
    let nowhere = json!({
        "pod": {"nodeSelector": {"limpet.dev/nowhere": "true"}},
        "patch": {"deployment": {"spec": {"progressDeadlineSeconds": 10}}},
    });
    class(site, nowhere).await?;
    let default = site.default();
    let told = async || {
        let events = default.list("events.k8s.io/v1/Event", "").await.ok()?;
        let about = |event: &&Value| event["regarding"]["name"] == "stuck" && event["reason"] == "EnvoysNotUpdated";
        events.iter().find(about)?["note"].as_str().map(str::to_owned)
    };
    let note = poll::until_within(TOLD, "an Event on the Gateway", told).await?;
    ensure!(
        note.contains(&envoys("stuck")) && note.contains("timed out progressing"),
        "{note}"
    );
    sessions_hold(address).await?;
    let stuck = default.get("Gateway", "stuck").await?;
    ensure!(has_condition(&stuck, "Programmed"), "{stuck:#}");

    // One that never had any.
    apply(site, "nowhere", &json!({})).await?;
    let told = async || {
        let gateway = default.get("Gateway", "nowhere").await.ok()?;
        let mut conditions = gateway["status"]["conditions"].as_array()?.iter();
        let without = conditions.find(|condition| condition["reason"] == "NoResources")?;
        without["message"].as_str().map(str::to_owned)
    };
    let message = poll::until_within(TOLD, "the Gateway to say it", told).await?;
    ensure!(
        message.contains(&envoys("nowhere")) && message.contains("timed out progressing"),
        "{message}"
    );
    remove(site, "nowhere").await?;

    class(site, json!({})).await?;
    until_rolled_out(&site.system(), &envoys("stuck")).await?;
    remove(site, "stuck").await
}
