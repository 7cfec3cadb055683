//! Mutual TLS within the mesh: sidecars that Istio injects into the pods behind the gateway.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Request, poll};
use serde_json::{Value, json};

use crate::site::{ROLLOUT, Site};

/// Pods take only mutual TLS.
const STRICT: &str = "
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: strict}
spec: {mtls: {mode: STRICT}}
";

/// Its pods' sidecars refuse all but mutual TLS.
async fn site(name: &'static str) -> Result<Site> {
    let site = Site::start(name, &json!({"istio-injection": "enabled"})).await?;
    let pods = site.client.list("v1/Pod", "app=shop").await?;
    ensure!(pods.len() == 3 && pods.iter().all(has_sidecar), "{pods:#?}");
    let address = pods[0]["status"]["podIP"].as_str().context("no address")?.parse()?;
    let pod = SocketAddr::new(address, 8000);
    // Until it is demanded, pods take both.
    ensure!(Request::get(pod, "/").send().await?.status == 200);
    site.client.apply(STRICT).await?;
    let refused = async || Request::get(pod, "/").send().await.err().map(drop);
    poll::until("the pod to refuse plain text", refused).await?;
    site.sessions().await?;
    Ok(site)
}

fn has_sidecar(pod: &Value) -> bool {
    let containers = ["containers", "initContainers"];
    let mut containers = containers
        .iter()
        .filter_map(|list| pod["spec"][*list].as_array())
        .flatten();
    containers.any(|container| container["name"] == "istio-proxy")
}

#[tokio::test]
async fn sessions_hold_with_mutual_tls_in_the_mesh() -> Result<()> {
    let site = site("mutual-tls").await?;
    site.check_sessions_hold().await?;
    // The sidecar names the certificate that it saw.
    let seen = site.visit(&mut site.visitor()).await?.seen()?;
    let gateway = format!("URI=spiffe://cluster.local/ns/{}/sa/web-istio", site.name);
    let certificates = seen.all("x-forwarded-client-cert");
    ensure!(certificates.iter().any(|said| said.ends_with(&gateway)), "{seen:?}");
    site.end().await
}

#[tokio::test]
async fn a_pod_with_a_sidecar_keeps_sessions_while_it_drains() -> Result<()> {
    let site = site("drained").await?;
    let mut visitor = site.visitor();
    let pod = site.visit(&mut visitor).await?.backend().context("no pod")?.to_owned();
    site.client.delete("v1/Pod", &pod).await?;
    let mut journey = vec![pod.clone()];
    let gone = async || {
        let answer = visitor.send(site.request()).await.ok()?;
        let place = answer.backend().map_or(answer.status.to_string(), str::to_owned);
        if journey.last() != Some(&place) {
            journey.push(place);
        }
        site.client.find("v1/Pod", &pod).await.ok()?.is_none().then_some(())
    };
    poll::until_within(ROLLOUT, "the pod to be gone", gone).await?;
    let last = site.visit(&mut visitor).await?;
    let last = last.backend().context("no pod")?;
    // A sidecar outlives its application for a moment, and answers in its place.
    journey.retain(|place| place != "503");
    ensure!(
        journey == [&pod, last],
        "the session was at {journey:?}, then at {last}"
    );
    site.end().await
}
