//! What fails around the controller, while clients come by: no session is lost and no request fails.

mod api_server;
mod certificates;
mod envoys;
mod objects;
mod own_rights;
mod policies;
mod regulars;
mod replicas;
mod restarts;
mod rights;
mod wire;
mod writers;
mod xds_certificates;

use std::collections::BTreeMap;

use anyhow::Result;
use limpet_e2e::kube::{Cluster, Controller, Namespace, Pod, Proxy};
use limpet_e2e::{Carrier, Crowd, Visitor, poll};
use serde_json::Value;

use crate::site::{condition, site};

const WEB: &[(&str, &str)] = &[("app", "web")];

/// The sessions of a [`Crowd`].
const SESSIONS: &str = "
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: BackendLBPolicy
metadata:
  name: web
spec:
  targetRefs: [{group: '', kind: Service, name: web}]
  sessionPersistence: {sessionName: session}
";

/// A Gateway with sessions to two pods, the controller, and an Envoy that serves.
struct Scene {
    namespace: Namespace,
    controller: Controller,
    envoy: Proxy,
    _pods: [Pod; 2],
}

impl Scene {
    async fn start(cluster: &Cluster, prefix: &str) -> Result<Self> {
        let namespace = cluster.namespace(prefix).await?;
        let pods = objects(&namespace).await?;
        let controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
        let mut envoy = controller.envoy("web", "one").await?;
        envoy.until_ready().await?;
        until_sessions(&controller).await?;
        Ok(Self {
            namespace,
            controller,
            envoy,
            _pods: pods,
        })
    }

    async fn crowd(&self) -> Result<Crowd> {
        crowd(&self.controller).await
    }

    /// Waits until Envoy redirects what [`redirect`] says.
    async fn until_redirected(&self, path: &str) -> Result<()> {
        until_redirected(&self.controller, path, true).await
    }

    async fn until_programmed(&self, expected: &str) -> Result<Value> {
        until_programmed(&self.namespace, "web", expected).await
    }

    /// What Envoy took, however often it was asked to.
    async fn updates(&self) -> Result<BTreeMap<String, u64>> {
        let counters = r"^(listener_manager\.(listener_(added|modified|removed)|lds\.update_(success|rejected))|cluster_manager\.(cluster_(added|modified|removed)|cds\.update_(success|rejected))|http\..*\.rds\..*\.(config_reload|update_rejected)|.*\.config_reload|cluster\..*\.assignment_stale)$";
        self.envoy.admin().stats(counters).await
    }
}

/// All that a Gateway with sessions consists of.
async fn objects(namespace: &Namespace) -> Result<[Pod; 2]> {
    namespace.gateway_class().await?;
    namespace.service("web", WEB).await?;
    let pods = [namespace.pod("a", WEB).await?, namespace.pod("b", WEB).await?];
    namespace.apply(&site(namespace)).await?;
    namespace.apply(SESSIONS).await?;
    Ok(pods)
}

/// Waits until a first visit begins a session.
async fn until_sessions(controller: &Controller) -> Result<()> {
    let begun = async || {
        let mut visitor = Visitor::of(controller.address(8080));
        let answer = visitor.get("/").await.ok()?;
        answer.backend()?;
        visitor.cookie("session").map(drop)
    };
    poll::until("a session", begun).await
}

async fn crowd(controller: &Controller) -> Result<Crowd> {
    Crowd::gather(12, &[Carrier::Cookie], &[controller.address(8080)]).await
}

/// Everybody has come by some times more, and nothing happened to anybody.
async fn nothing_happened(crowd: Crowd) -> Result<()> {
    crowd.rounds(3).await?;
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.none_moved()
}

/// A route that redirects a path: a change that can be told from outside.
fn redirect(name: &str) -> String {
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: {name}
spec:
  parentRefs: [{{name: web}}]
  rules:
  - matches: [{{path: {{type: PathPrefix, value: /{name}}}}}]
    filters: [{{type: RequestRedirect, requestRedirect: {{hostname: elsewhere.example, statusCode: 302}}}}]
"
    )
}

async fn until_redirected(controller: &Controller, path: &str, expected: bool) -> Result<()> {
    let asked = async || {
        let answer = Visitor::of(controller.address(8080)).get(path).await.ok()?;
        ((answer.status == 302) == expected).then_some(())
    };
    let what = if expected { "is redirected" } else { "is not redirected" };
    poll::until(&format!("{path} {what}"), asked).await
}

/// Waits until a Gateway is `Programmed` like that, and gives the Gateway.
async fn until_programmed(namespace: &Namespace, gateway: &str, expected: &str) -> Result<Value> {
    let is_so = |object: &Value| condition(&object["status"]["conditions"], "Programmed") == expected;
    namespace.until(expected, "Gateway", gateway, is_so).await
}

/// The message of a condition.
fn message<'a>(conditions: &'a Value, name: &str) -> &'a str {
    let mut found = conditions.as_array().into_iter().flatten();
    found
        .find(|condition| condition["type"] == name)
        .and_then(|condition| condition["message"].as_str())
        .unwrap_or_default()
}
