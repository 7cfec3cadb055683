//! Contour's `IngressRoute`s: the definitions that Limpet ships, statuses and traffic.

mod definitions;
mod delegation;
mod metrics;
mod replicas;
mod role;
mod statuses;
mod taken;
mod without_status;

use anyhow::{Context, Result};
use limpet_e2e::kube::{Client, Cluster, Controller, Namespace, Release};
use limpet_e2e::{Answer, Request, Visitor, poll};
use serde_json::{Value, json};

const INGRESS_ROUTES: &str = include_str!("../../../../controller/deploy/crds/contour/ingressroutes.yaml");
const DELEGATIONS: &str = include_str!("../../../../controller/deploy/crds/contour/tlscertificatedelegations.yaml");

const KIND: &str = "IngressRoute";
/// The Envoys' name for their Gateway.
pub(crate) const GATEWAY: &str = "contour";
pub(crate) const HOST: &str = "shop.example";

pub(crate) const VALID: &str = "valid IngressRoute";
const ORPHANED: &str = "this IngressRoute is not part of a delegation chain from a root IngressRoute";

/// With the definitions as shipped.
pub(crate) async fn cluster() -> Result<&'static Cluster> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    cluster.define(INGRESS_ROUTES).await?;
    cluster.define(DELEGATIONS).await?;
    Ok(cluster)
}

pub(crate) fn configure(config: &mut Value) {
    let namespace = config["namespaces"][0].as_str().unwrap_or_default();
    config["contour"] = json!({"gateway": format!("{namespace}/{GATEWAY}")});
}

fn object(name: &str, spec: &str) -> Result<Value> {
    let spec: Value = serde_saphyr::from_str(spec)?;
    Ok(json!({
        "apiVersion": "contour.heptio.com/v1beta1",
        "kind": KIND,
        "metadata": {"name": name},
        "spec": spec,
    }))
}

pub(crate) async fn apply(client: &Client, name: &str, spec: &str) -> Result<Value> {
    client.apply_object(&object(name, spec)?).await
}

pub(crate) fn root(fqdn: &str, routes: &str) -> String {
    format!("{{virtualhost: {{fqdn: {fqdn}}}, routes: [{routes}]}}")
}

/// Leads the delegated prefix `/blog` to this Service.
fn blog(service: &str) -> String {
    format!("{{routes: [{{match: /blog, services: [{{name: {service}, port: 80, strategy: Cookie}}]}}]}}")
}

fn status(object: &Value) -> (String, String) {
    let text = |field: &str| object["status"][field].as_str().unwrap_or_default().to_owned();
    (text("currentStatus"), text("description"))
}

pub(crate) async fn until_status(client: &Client, name: &str, state: &str, description: &str) -> Result<Value> {
    let expected = (state.to_owned(), description.to_owned());
    let what = format!("{name} to be {state}");
    client
        .until(&what, KIND, name, |object| status(object) == expected)
        .await
}

/// Nothing tells when the last write was, so this takes a while.
async fn stands_still(client: &Client, name: &str) -> Result<()> {
    let version = async || Ok::<_, anyhow::Error>(client.get(KIND, name).await?["metadata"]["resourceVersion"].clone());
    let before = version().await?;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(version().await?, before, "{name} is written again");
    Ok(())
}

async fn get(controller: &Controller, visitor: &mut Visitor, path: &str) -> Result<Answer> {
    let request = Request::get(controller.address(8080), path).header("host", HOST);
    visitor.send(request).await
}

/// Waits until new clients get this status from a backend whose name begins so.
pub(crate) async fn until_answered(
    controller: &Controller,
    path: &str,
    status: u16,
    backend: Option<&str>,
) -> Result<Visitor> {
    let mut last = None;
    let answered = async || {
        let mut visitor = Visitor::of(controller.address(8080));
        let answer = get(controller, &mut visitor, path).await.ok()?;
        let is_from = match (answer.backend(), backend) {
            (Some(is), Some(expected)) => is.starts_with(expected),
            (is, expected) => is == expected,
        };
        last = Some((answer.status, answer.backend().map(str::to_owned)));
        (answer.status == status && is_from).then_some(visitor)
    };
    let what = format!("{path} to be answered with {status} by {backend:?}");
    poll::until(&what, answered).await.with_context(|| format!("{last:?}"))
}

/// In this namespace, as the chart's value `certificates.namespaces` does.
async fn may_read_secrets(namespace: &Namespace) -> Result<()> {
    namespace.bind("limpet-certificates").await
}
