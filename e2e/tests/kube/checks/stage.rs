//! A cluster's Gateway that `limpet controller` serves, with two Envoys and pods of two versions of a shop.

use std::sync::LazyLock;

use anyhow::{Context, Result};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Pod, Proxy, Release};
use limpet_e2e::{Answer, Request, Visitor, poll};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

use crate::site::condition;

/// The pods of the first version.
pub(crate) const V1: [&str; 2] = ["a", "b"];
/// The pods of the second.
pub(crate) const V2: [&str; 2] = ["c", "d"];
/// So many connections reach every worker of both Envoys.
const EVERY_WORKER: usize = 24;

/// What the shared stages live on: a test's own runtime ends with the test.
static RUNTIME: LazyLock<std::io::Result<Runtime>> = LazyLock::new(Runtime::new);

/// A Gateway `web` with the port 8080, and its Envoys: all of them listen at one address, so each connection is any one's.
pub(crate) struct Stage {
    pub(crate) namespace: Namespace,
    pub(crate) controller: Controller,
    pub(crate) envoys: [Proxy; 2],
    _pods: Vec<Pod>,
}

impl Stage {
    /// The one that all checks of a release share. Each has routes, policies and Services of its own.
    pub(crate) async fn shared(release: Release) -> Result<&'static Self> {
        static STAGES: [OnceCell<Stage>; 3] = [const { OnceCell::const_new() }; 3];
        let at = Release::ALL.iter().position(|known| *known == release);
        let stage = STAGES.get(at.context("no such release")?).context("no such release")?;
        let start = async || {
            let runtime = RUNTIME
                .as_ref()
                .map_err(|error| anyhow::anyhow!("no runtime: {error}"))?;
            let runtime = runtime.handle().clone();
            // On a thread that may wait: what is awaited there cannot be sent to another.
            tokio::task::spawn_blocking(move || runtime.block_on(Self::start(release, "checks", |_| ()))).await?
        };
        stage.get_or_try_init(start).await
    }

    /// One of a test's own. `change` may change the controller's configuration.
    pub(crate) async fn start(
        release: Release,
        prefix: &str,
        change: impl FnOnce(&mut Value) + Send + 'static,
    ) -> Result<Self> {
        let cluster = Cluster::shared(release).await?;
        let namespace = cluster.namespace(prefix).await?;
        namespace.gateway_class().await?;
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

    /// Two Services, `<prefix>-v1` and `<prefix>-v2`, of the pods of both versions.
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

    /// An `HTTPRoute` with these rules, or other rules for it.
    pub(crate) async fn route(&self, name: &str, rules: &[Value]) -> Result<()> {
        self.annotated_route(name, rules, &json!({})).await
    }

    /// As [`Stage::route`], with annotations of ours: without their prefix.
    pub(crate) async fn annotated_route(&self, name: &str, rules: &[Value], annotations: &Value) -> Result<()> {
        let annotations = annotations.as_object().context("no annotations")?;
        let annotations: serde_json::Map<_, _> = annotations
            .iter()
            .map(|(name, value)| (format!("session.limpet.dev/{name}"), value.clone()))
            .collect();
        let route = json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"parentRefs": [{"name": "web"}], "rules": rules},
        });
        self.namespace.apply_object(&route).await.map(drop)
    }

    /// A client without cookies.
    pub(crate) fn visitor(&self) -> Visitor {
        Visitor::of(self.controller.address(8080))
    }

    /// A GET request.
    pub(crate) fn get(&self, path: &str) -> Request {
        Request::get(self.controller.address(8080), path)
    }

    /// Waits until new clients are answered like this by every worker of both Envoys.
    pub(crate) async fn until(&self, what: &str, path: &str, check: impl Fn(&Answer) -> bool) -> Result<()> {
        self.until_asked(what, || self.get(path), check).await
    }

    /// As [`Stage::until`], for any request.
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

    /// Waits until new clients of a path get a session.
    pub(crate) async fn until_sessions(&self, path: &str) -> Result<()> {
        let begins = |answer: &Answer| answer.status == 200 && answer.set_cookies().len() == 1;
        self.until("sessions to begin", path, begins).await
    }

    /// The sum of a counter of the filter's over both Envoys, whatever the policy is called: `refused.expired`, for example.
    pub(crate) async fn count(&self, outcome: &str) -> Result<u64> {
        let mut sum = 0;
        for envoy in &self.envoys {
            let stats = envoy.admin().stats(&format!("{outcome}$")).await?;
            sum += stats.values().sum::<u64>();
        }
        Ok(sum)
    }
}

/// A rule for a path and what is below it, to Services by their weights.
pub(crate) fn rule(path: &str, backends: &[(&str, u32)]) -> Value {
    let backends: Vec<Value> = backends
        .iter()
        .map(|(name, weight)| json!({"name": name, "port": 80, "weight": weight}))
        .collect();
    json!({"matches": [{"path": {"type": "PathPrefix", "value": path}}], "backendRefs": backends})
}

/// Whether a pod of these answered.
pub(crate) fn is_from(pods: [&str; 2], answer: &Answer) -> bool {
    answer.backend().is_some_and(|backend| pods.contains(&backend))
}

/// A condition of a route's one parent, or of a policy's one ancestor: `status/reason`, and its message.
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
