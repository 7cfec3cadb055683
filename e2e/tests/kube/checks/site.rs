//! A Gateway of `limpet controller`, with two Envoys and the pods of two versions of an application.

use std::sync::LazyLock;

use anyhow::{Context, Result};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Pod, Proxy, Release};
use limpet_e2e::{Answer, Request, Visitor, poll};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

use crate::site::condition;

pub(crate) const V1: [&str; 2] = ["a", "b"];
pub(crate) const V2: [&str; 2] = ["c", "d"];
/// This many connections reach every worker of both Envoys.
const EVERY_WORKER: usize = 24;

/// The shared sites' runtime: a test's own ends with the test.
static RUNTIME: LazyLock<std::io::Result<Runtime>> = LazyLock::new(Runtime::new);

/// A Gateway `web` with port 8080 and two Envoys at one address: a connection may reach either.
pub(crate) struct GatewaySite {
    pub(crate) namespace: Namespace,
    pub(crate) controller: Controller,
    pub(crate) envoys: [Proxy; 2],
    _pods: Vec<Pod>,
}

impl GatewaySite {
    /// All checks of a release share it. Each has its own routes, policies and Services.
    pub(crate) async fn shared(release: Release) -> Result<&'static Self> {
        static SITES: [OnceCell<GatewaySite>; 3] = [const { OnceCell::const_new() }; 3];
        let at = Release::ALL.iter().position(|known| *known == release);
        let site = SITES.get(at.context("no such release")?).context("no such release")?;
        let start = async || {
            let runtime = RUNTIME
                .as_ref()
                .map_err(|error| anyhow::anyhow!("no runtime: {error}"))?;
            let runtime = runtime.handle().clone();
            // On a blocking thread, because the future is not `Send`.
            tokio::task::spawn_blocking(move || runtime.block_on(Self::start(release, "checks", |_| ()))).await?
        };
        site.get_or_try_init(start).await
    }

    /// For one test. `change` may change the controller's configuration.
    pub(crate) async fn start(
        release: Release,
        prefix: &str,
        change: impl FnOnce(&mut Value) + Send + 'static,
    ) -> Result<Self> {
        let cluster = Cluster::shared(release).await?;
        let namespace = cluster.namespace(prefix).await?;
        namespace.gateway_class().await?;
        namespace.bind("limpet-xbackends").await?;
        let gateway = json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "metadata": {"name": "web"},
            "spec": {
                "gatewayClassName": namespace.name(),
                "listeners": [{"name": "http", "port": 8080, "protocol": "HTTP"}],
            },
        });
        namespace.apply_object(&gateway).await?;
        let mut pods = Vec::new();
        for (version, names) in [("v1", V1), ("v2", V2)] {
            for name in names {
                pods.push(namespace.pod(name, &[("app", version)]).await?);
            }
        }
        let controller = Controller::start(cluster.server(), &namespace, change).await?;
        let (mut one, mut two) = tokio::try_join!(controller.envoy("web", "one"), controller.envoy("web", "two"))?;
        one.until_ready().await?;
        two.until_ready().await?;
        Ok(Self {
            namespace,
            controller,
            envoys: [one, two],
            _pods: pods,
        })
    }

    pub(crate) async fn services(&self, prefix: &str) -> Result<[String; 2]> {
        let names = ["v1", "v2"].map(|version| format!("{prefix}-{version}"));
        for (name, version) in names.iter().zip(["v1", "v2"]) {
            self.namespace.service(name, &[("app", version)]).await?;
        }
        for name in &names {
            self.namespace.endpoints(name, |endpoints| endpoints.len() == 2).await?;
        }
        Ok(names)
    }

    pub(crate) async fn route(&self, name: &str, rules: &[Value]) -> Result<()> {
        self.annotated_route(name, rules, &json!({})).await
    }

    /// As [`GatewaySite::route`], with annotations, named without their prefix.
    pub(crate) async fn annotated_route(&self, name: &str, rules: &[Value], annotations: &Value) -> Result<()> {
        let route = json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": {"name": name, "annotations": prefixed(annotations)},
            "spec": {"parentRefs": [{"name": "web"}], "rules": rules},
        });
        self.namespace.apply_object(&route).await.map(drop)
    }

    pub(crate) fn visitor(&self) -> Visitor {
        Visitor::of(self.controller.address(8080))
    }

    pub(crate) fn get(&self, path: &str) -> Request {
        Request::get(self.controller.address(8080), path)
    }

    /// Waits until every worker of both Envoys answers new clients as `check` says.
    pub(crate) async fn until(&self, what: &str, path: &str, check: impl Fn(&Answer) -> bool) -> Result<()> {
        self.until_asked(what, || self.get(path), check).await
    }

    pub(crate) async fn until_asked(
        &self,
        what: &str,
        request: impl Fn() -> Request,
        check: impl Fn(&Answer) -> bool,
    ) -> Result<()> {
        let mut last = None;
        let found = poll::until(what, async || {
            for _ in 0..EVERY_WORKER {
                let answer = request().send().await.ok()?;
                let good = check(&answer);
                last = Some((answer.status, answer.headers));
                good.then_some(())?;
            }
            Some(())
        })
        .await;
        found.with_context(|| format!("the last answer was {last:?}"))
    }

    pub(crate) async fn until_sessions(&self, path: &str) -> Result<()> {
        let begins = |answer: &Answer| answer.status == 200 && answer.set_cookies().len() == 1;
        self.until("sessions to begin", path, begins).await
    }

    pub(super) async fn until_endpoints(&self, service: &str, count: usize) -> Result<()> {
        let cluster = format!("/{service}/");
        poll::until(&format!("{count} endpoints of {service}"), async || {
            for envoy in &self.envoys {
                let clusters = envoy.admin().text("/clusters").await.ok()?;
                let is_endpoint = |line: &&str| line.contains(&cluster) && line.contains("::weight::");
                (clusters.lines().filter(is_endpoint).count() == count).then_some(())?;
            }
            Some(())
        })
        .await
    }

    /// The filter's counter over both Envoys and all policies: `refused.expired`, for example.
    pub(crate) async fn count(&self, outcome: &str) -> Result<u64> {
        let mut sum = 0;
        for envoy in &self.envoys {
            let stats = envoy.admin().stats(&format!("{outcome}$")).await?;
            sum += stats.values().sum::<u64>();
        }
        Ok(sum)
    }
}

pub(crate) fn prefixed(annotations: &Value) -> Value {
    let annotations = annotations.as_object().into_iter().flatten();
    let prefixed = annotations.map(|(name, value)| (format!("session.limpet.dev/{name}"), value.clone()));
    prefixed.collect::<serde_json::Map<_, _>>().into()
}

pub(crate) fn rule(path: &str, backends: &[(&str, u32)]) -> Value {
    let backends: Vec<Value> = backends
        .iter()
        .map(|(name, weight)| json!({"name": name, "port": 80, "weight": weight}))
        .collect();
    json!({"matches": [{"path": {"type": "PathPrefix", "value": path}}], "backendRefs": backends})
}

pub(crate) fn is_from(pods: [&str; 2], answer: &Answer) -> bool {
    answer.backend().is_some_and(|backend| pods.contains(&backend))
}

/// A condition of the only parent or ancestor: `status/reason`, and its message.
pub(crate) fn stated(object: &Value, name: &str) -> (String, String) {
    let status = &object["status"];
    let of = if status["parents"].is_array() {
        &status["parents"]
    } else {
        &status["ancestors"]
    };
    let conditions = &of[0]["conditions"];
    let all = conditions.as_array().into_iter().flatten();
    let found = all
        .filter(|condition| condition["type"] == name)
        .find_map(|condition| condition["message"].as_str());
    (condition(conditions, name), found.unwrap_or_default().to_owned())
}
