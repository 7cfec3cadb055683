//! Failures around the controller while clients send requests: no session is lost and no request fails.

mod api_server;
mod browsers;
mod builds;
mod certificates;
mod clocks;
mod envoys;
mod gone_class;
mod keyless;
mod liar;
mod objects;
mod own_rights;
mod pods;
mod policies;
mod quarantine;
mod replicas;
mod restarts;
pub(crate) mod rights;
mod stopped;
mod token;
mod unwritable;
mod wire;
mod writers;
mod xds_certificates;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Pod, Proxy};
use limpet_e2e::{Carrier, Crowd, Visitor, poll};
use serde_json::Value;

use crate::site::{condition, site_objects};

const WEB: &[(&str, &str)] = &[("app", "web")];

/// The policies of a [`Crowd`]'s sessions.
const SESSIONS: &str = "
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: BackendLBPolicy
metadata:
  name: web
spec:
  targetRefs: [{group: '', kind: Service, name: web}]
  sessionPersistence: {sessionName: limpet-session}
";

struct ControlledSite {
    namespace: Namespace,
    controller: Controller,
    envoy: Proxy,
    _pods: [Pod; 2],
}

impl ControlledSite {
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

    /// Waits until Envoy has [`redirect`].
    async fn until_redirected(&self, path: &str) -> Result<()> {
        until_redirected(&self.controller, path, true).await
    }

    async fn until_programmed(&self, expected: &str) -> Result<Value> {
        until_programmed(&self.namespace, "web", expected).await
    }

    async fn updates(&self) -> Result<BTreeMap<String, u64>> {
        updates(&self.envoy).await
    }
}

async fn until_connected(site: &ControlledSite) -> Result<()> {
    let name = format!("limpet_clients{{gateway=\"{}/web\"}}", site.namespace.name());
    let connected = async || site.controller.metric(&name).await.ok().filter(|count| count == "1");
    poll::until("Envoy to reconnect", connected).await?;
    site.until_programmed("True/Programmed").await.map(drop)
}

/// The counts of accepted and refused configurations by kind, once they no longer change.
async fn updates(envoy: &Proxy) -> Result<BTreeMap<String, u64>> {
    let counters = concat!(
        r"^(listener_manager\.(listener_(added|modified|removed)|lds\.update_(success|rejected))",
        r"|cluster_manager\.(cluster_(added|modified|removed)|cds\.update_(success|rejected))",
        r"|http\..*\.rds\..*\.(config_reload|update_rejected)|.*\.config_reload|cluster\..*\.assignment_stale)$",
    );
    let mut last = envoy.admin().stats(counters).await?;
    // `Programmed` comes with the first routes, and more may follow. Envoy counts them a moment later.
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = envoy.admin().stats(counters).await?;
        if now == last {
            return Ok(now);
        }
        last = now;
    }
    bail!("the configuration of an Envoy does not stop changing: {last:?}")
}

pub(crate) async fn objects(namespace: &Namespace) -> Result<[Pod; 2]> {
    namespace.gateway_class().await?;
    namespace.service("web", WEB).await?;
    let pods = [namespace.pod("a", WEB).await?, namespace.pod("b", WEB).await?];
    namespace.apply(&site_objects(namespace)).await?;
    namespace.apply(SESSIONS).await?;
    Ok(pods)
}

pub(crate) async fn until_sessions(controller: &Controller) -> Result<()> {
    let begun = async || {
        let mut visitor = Visitor::of(controller.address(8080));
        let answer = visitor.get("/").await.ok()?;
        answer.backend()?;
        visitor.cookie("limpet-session").map(drop)
    };
    poll::until("a session", begun).await
}

pub(crate) async fn crowd(controller: &Controller) -> Result<Crowd> {
    Crowd::gather(12, &[Carrier::Cookie], &[controller.address(8080)]).await
}

/// A few more visits of every client show that no request failed and no session moved.
pub(crate) async fn nothing_happened(crowd: Crowd) -> Result<()> {
    crowd.rounds(3).await?;
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.none_moved()
}

/// A route that redirects a path: a change that clients can see.
pub(crate) fn redirect(name: &str) -> String {
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

pub(crate) async fn until_redirected(controller: &Controller, path: &str, expected: bool) -> Result<()> {
    let asked = async || {
        let answer = Visitor::of(controller.address(8080)).get(path).await.ok()?;
        ((answer.status == 302) == expected).then_some(())
    };
    let what = if expected { "is redirected" } else { "is not redirected" };
    poll::until(&format!("{path} {what}"), asked).await
}

/// Waits for this `Programmed`. Returns the Gateway.
pub(crate) async fn until_programmed(namespace: &Namespace, gateway: &str, expected: &str) -> Result<Value> {
    let is_so = |object: &Value| condition(&object["status"]["conditions"], "Programmed") == expected;
    namespace.until(expected, "Gateway", gateway, is_so).await
}

fn message<'a>(conditions: &'a Value, name: &str) -> &'a str {
    let mut found = conditions.as_array().into_iter().flatten();
    found
        .find(|condition| condition["type"] == name)
        .and_then(|condition| condition["message"].as_str())
        .unwrap_or_default()
}
