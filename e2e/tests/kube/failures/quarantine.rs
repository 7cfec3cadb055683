//! What Envoy refuses in spite of all checks costs the route that it came from, and nobody else.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Pod, Proxy, Release};
use limpet_e2e::{Answer, Request, poll};
use serde_json::Value;
use tokio::task::JoinSet;

use super::{message, objects};
use crate::site::condition;

const OTHERS: usize = 50;
/// What `limpet-outputs` spoils with the feature `refused-on-purpose`.
const BAD_ACTION: &str = "/limpet-test-refused-action";
const BAD_MATCH: &str = "/limpet-test-refused-match";

/// Answers with its version, and has another rule with this path.
fn route(name: &str, version: &str, other: &str) -> String {
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}}}
spec:
  parentRefs: [{{name: web}}]
  hostnames: [{name}.example]
  rules:
  - backendRefs: [{{name: web, port: 80}}]
    filters: [{{type: ResponseHeaderModifier, responseHeaderModifier: {{set: [{{name: x-version, value: '{version}'}}]}}}}]
  - backendRefs: [{{name: web, port: 80}}]
    matches: [{{path: {{type: PathPrefix, value: {other}}}}}]
---
"
    )
}

/// A Gateway with a wildcard route and 50 others, and a client of each of these.
struct Street {
    namespace: Namespace,
    controller: Controller,
    web: SocketAddr,
    envoys: Vec<Proxy>,
    clients: JoinSet<Result<usize>>,
    done: Arc<AtomicBool>,
    _pods: [Pod; 2],
}

impl Street {
    async fn start(prefix: &str) -> Result<Self> {
        let cluster = Cluster::shared(Release::V1_2_1).await?;
        let namespace = cluster.namespace(prefix).await?;
        let pods = objects(&namespace).await?;
        let others: String = (0..OTHERS)
            .map(|number| route(&format!("other-{number}"), "1", "/other"))
            .collect();
        namespace.apply(&others).await?;
        let controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
        let web = controller.address(8080);
        let mut street = Self {
            namespace,
            controller,
            web,
            envoys: Vec::new(),
            clients: JoinSet::new(),
            done: Arc::default(),
            _pods: pods,
        };
        street.add_envoys("first").await?;
        for number in 0..OTHERS {
            let (host, done) = (format!("other-{number}.example"), Arc::clone(&street.done));
            street.until(&host, "/", 200, Some("1")).await?;
            street.clients.spawn(visit(web, host, done));
        }
        Ok(street)
    }

    /// Two Envoys that share the port with those before, one for each form of the protocol.
    async fn add_envoys(&mut self, name: &str) -> Result<()> {
        let delta = self.controller.envoy("web", &format!("{name}-delta")).await?;
        let world = self
            .controller
            .envoy_of_the_world("web", &format!("{name}-world"))
            .await?;
        for mut envoy in [delta, world] {
            envoy.until_ready().await?;
            self.envoys.push(envoy);
        }
        Ok(())
    }

    async fn get(&self, host: &str, path: &str) -> Result<Answer> {
        Request::get(self.web, path).header("host", host).send().await
    }

    /// Waits until every Envoy is likely to answer so.
    async fn until(&self, host: &str, path: &str, status: u16, version: Option<&str>) -> Result<()> {
        poll::until(&format!("{host}{path}: {status} {version:?}"), async || {
            for _ in 0..8 * self.envoys.len() {
                let answer = self.get(host, path).await.ok()?;
                if answer.status != status || answer.header("x-version") != version {
                    return None;
                }
            }
            Some(())
        })
        .await
    }

    async fn until_said(&self, name: &str, accepted: &str, said: &str) -> Result<Value> {
        let said = |route: &Value| {
            let conditions = &route["status"]["parents"][0]["conditions"];
            let whole = conditions.to_string();
            condition(conditions, "Accepted") == accepted && whole.contains(said)
        };
        self.namespace.until("a status", "HTTPRoute", name, said).await
    }

    /// Not one request of the other hosts has failed, and each Envoy has answered some.
    async fn leave(mut self) -> Result<()> {
        for envoy in &self.envoys {
            envoy.admin().until_some("http.http-8080.downstream_rq_2xx").await?;
        }
        self.done.store(true, Ordering::Relaxed);
        while let Some(visits) = self.clients.join_next().await {
            ensure!(visits?? > 10, "a client was too slow to see anything");
        }
        Ok(())
    }
}

/// Sends requests on new connections until `done`.
async fn visit(web: SocketAddr, host: String, done: Arc<AtomicBool>) -> Result<usize> {
    let mut visits = 0;
    while !done.load(Ordering::Relaxed) {
        let answer = Request::get(web, "/").header("host", &host).send().await;
        let answer = answer.with_context(|| format!("visit {visits} of {host}"))?;
        let version = answer.header("x-version").context("an answer of another route")?;
        ensure!(answer.status == 200, "{host} {version}: {}", answer.status);
        visits += 1;
        tokio::time::sleep(std::time::Duration::from_millis(40)).await;
    }
    Ok(visits)
}

#[tokio::test]
async fn what_envoy_refuses_costs_its_own_route_alone() -> Result<()> {
    let mut street = Street::start("street").await?;
    let namespace = &street.namespace;
    namespace.apply(&route("bad", "1", "/other")).await?;
    street.until("bad.example", "/", 200, Some("1")).await?;

    // A former version is served on, and a neighbour's change arrives.
    namespace.apply(&route("bad", "2", BAD_ACTION)).await?;
    let said = "Fall Back: Envoy refuses generation 2, so generation 1 stays in use";
    let bad = street.until_said("bad", "True/Accepted", said).await?;
    let conditions = &bad["status"]["parents"][0]["conditions"];
    assert_eq!(condition(conditions, "PartiallyInvalid"), "True/UnsupportedValue");
    let words = message(conditions, "PartiallyInvalid");
    assert!(words.contains("limpet.test"), "Envoy's words: {words}");
    namespace.apply(&route("other-0", "2", "/other")).await?;
    street.until("other-0.example", "/", 200, Some("2")).await?;
    street.until("bad.example", "/", 200, Some("1")).await?;

    // What has no former version is answered with 500, or not at all, and not by the wildcard route.
    namespace.apply(&route("worse", "1", BAD_ACTION)).await?;
    namespace.apply(&route("worst", "1", BAD_MATCH)).await?;
    let said = "Envoy refuses generation 1, so its requests are answered with status 500";
    street.until_said("worse", "False/UnsupportedValue", said).await?;
    street.until("worse.example", "/", 500, None).await?;
    let said = "Envoy refuses generation 1, so it is not served";
    street.until_said("worst", "False/UnsupportedValue", said).await?;
    street.until("worst.example", "/", 404, None).await?;

    // New Envoys get the rest from their first request on, and a new controller finds the same.
    street.add_envoys("second").await?;
    street.until("bad.example", "/", 200, Some("1")).await?;
    street.until("worse.example", "/", 500, None).await?;
    // The mark ends with the change.
    let namespace = &street.namespace;
    namespace.apply(&route("bad", "3", "/other")).await?;
    namespace.apply(&route("worse", "2", "/other")).await?;
    street.until("bad.example", "/", 200, Some("3")).await?;
    street.until("worse.example", "/", 200, Some("2")).await?;
    street.until_said("worse", "True/Accepted", "").await?;
    let good = |route: &Value| !route["status"].to_string().contains("PartiallyInvalid");
    namespace.until("no mark", "HTTPRoute", "bad", good).await?;
    street.leave().await
}
