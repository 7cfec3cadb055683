//! `BackendTLSPolicy`: TLS from Envoys to backends, and never plain text instead.

mod definitions;
mod front;
mod verified;

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use front::{Front, Seen, TLS_PORT};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Pod, Proxy, Release};
use limpet_e2e::{Carrier, Crowd, Visitor, poll};
use serde_json::{Value, json};

use crate::certificates::{Authority, Certificate};
use crate::site::{condition, site_objects};

const WEB: &[(&str, &str)] = &[("app", "web")];
const HOST: &str = "web.internal.example";

struct TlsSite {
    cluster: &'static Cluster,
    release: Release,
    namespace: Namespace,
    pods: Vec<(Pod, Front)>,
    authority: Authority,
}

impl TlsSite {
    /// There is no policy for TLS yet.
    async fn prepare(release: Release, prefix: &str, sign: impl Fn(&Authority) -> Result<Certificate>) -> Result<Self> {
        let cluster = Cluster::shared(release).await?;
        let namespace = cluster.namespace(prefix).await?;
        let authority = Authority::new("backends")?;
        let pods = backends(&namespace, || sign(&authority)).await?;
        namespace.apply(&site_objects(&namespace)).await?;
        let session = if release == Release::V1_7_0 {
            json!({"type": "Cookie", "cookie": {"name": "limpet-session"}})
        } else {
            json!({"sessionName": "limpet-session"})
        };
        let rules = json!([{"backendRefs": [{"name": "web", "port": 80}], "sessionPersistence": session}]);
        namespace
            .merge("HTTPRoute", "web", &json!({"spec": {"rules": rules}}))
            .await?;
        Ok(Self {
            cluster,
            release,
            namespace,
            pods,
            authority,
        })
    }

    async fn trusted(release: Release, prefix: &str) -> Result<Self> {
        let site = Self::prepare(release, prefix, |authority| authority.sign(HOST)).await?;
        grant(&site.namespace).await?;
        trust(&site.namespace, &site.authority).await?;
        Ok(site)
    }

    async fn start(&self) -> Result<(Controller, Proxy)> {
        self.start_with(|_| ()).await
    }

    /// `change` changes the controller's configuration.
    async fn start_with(&self, change: impl FnOnce(&mut Value)) -> Result<(Controller, Proxy)> {
        let controller = Controller::start(self.cluster.server(), &self.namespace, change).await?;
        let mut envoy = controller.envoy("web", "one").await?;
        envoy.until_ready().await?;
        Ok((controller, envoy))
    }

    /// Applies the policy with these fields of `validation` besides `authorities`.
    async fn demand(&self, fields: Value) -> Result<()> {
        let version = if self.release == Release::V1_2_1 {
            "v1alpha3"
        } else {
            "v1"
        };
        self.namespace.apply_object(&policy(version, fields)).await.map(drop)
    }

    /// Waits for these conditions `Accepted` and `ResolvedRefs`. Returns the latter's message.
    async fn until_status(&self, accepted: &str, resolved: &str) -> Result<String> {
        let is_so = |object: &Value| {
            let conditions = &object["status"]["ancestors"][0]["conditions"];
            condition(conditions, "Accepted") == accepted && condition(conditions, "ResolvedRefs") == resolved
        };
        let policy = self.namespace.until(accepted, "BackendTLSPolicy", "web", is_so).await?;
        let conditions = policy["status"]["ancestors"][0]["conditions"].as_array();
        let resolved = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == "ResolvedRefs");
        Ok(resolved
            .and_then(|condition| condition["message"].as_str())
            .unwrap_or_default()
            .to_owned())
    }

    fn seen(&self) -> Vec<Seen> {
        self.pods.iter().map(|(_, front)| front.seen()).collect()
    }

    fn plain(&self) -> usize {
        self.seen().iter().map(|seen| seen.plain).sum()
    }

    fn tls(&self) -> BTreeSet<(Option<String>, Option<String>)> {
        self.seen().into_iter().flat_map(|seen| seen.tls).collect()
    }

    fn never_plain(&self) -> Result<()> {
        ensure!(self.plain() == 0, "plain text reached a backend: {:?}", self.seen());
        Ok(())
    }
}

/// Two pods of the Service `web` with certificates, and the rest of a site.
async fn backends(namespace: &Namespace, mut sign: impl FnMut() -> Result<Certificate>) -> Result<Vec<(Pod, Front)>> {
    namespace.gateway_class().await?;
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "https", "port": 80, "targetPort": TLS_PORT}]},
    });
    namespace.apply_object(&service).await?;
    let mut pods = Vec::new();
    for name in ["a", "b"] {
        let pod = namespace.pod(name, WEB).await?;
        let front = Front::start(&pod, &sign()?).await?;
        pods.push((pod, front));
    }
    Ok(pods)
}

/// The right to read each `ConfigMap` of the namespace.
async fn grant(namespace: &Namespace) -> Result<()> {
    namespace.bind("limpet-authorities").await
}

/// Applies the `ConfigMap` `authorities` with this authority's certificate.
async fn trust(namespace: &Namespace, authority: &Authority) -> Result<()> {
    let config_map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "authorities"},
        "data": {"ca.crt": authority.certificate},
    });
    namespace.apply_object(&config_map).await.map(drop)
}

fn policy(version: &str, fields: Value) -> Value {
    let mut validation = json!({
        "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "authorities"}],
        "hostname": HOST,
    });
    if let (Some(all), Value::Object(fields)) = (validation.as_object_mut(), fields) {
        all.extend(fields);
        all.retain(|_, field| !field.is_null());
    }
    json!({
        "apiVersion": format!("gateway.networking.k8s.io/{version}"),
        "kind": "BackendTLSPolicy",
        "metadata": {"name": "web"},
        "spec": {"targetRefs": [{"group": "", "kind": "Service", "name": "web"}], "validation": validation},
    })
}

async fn until_answered(controller: &Controller, status: u16) -> Result<()> {
    let mut last = None;
    let answered = async || {
        let answer = Visitor::of(controller.address(8080)).get("/").await.ok()?;
        last = Some((answer.status, String::from_utf8_lossy(&answer.body).into_owned()));
        (answer.status == status).then_some(())
    };
    let answered = poll::until(&format!("status {status}"), answered).await;
    answered.with_context(|| format!("the last answer was {last:?}"))
}

async fn session_sticks(visitor: &mut Visitor) -> Result<String> {
    let first = visitor
        .get("/")
        .await?
        .backend()
        .map(str::to_owned)
        .context("no backend")?;
    ensure!(visitor.cookie("limpet-session").is_some(), "no session");
    for _ in 0..10 {
        let answer = visitor.get("/").await?;
        ensure!(
            answer.backend() == Some(first.as_str()),
            "{:?} instead of {first:?}",
            answer.backend()
        );
    }
    Ok(first)
}

fn visitor(controller: &Controller) -> Visitor {
    Visitor::of(controller.address(8080))
}

#[tokio::test]
async fn a_policy_leads_to_backends_over_tls_with_sessions() -> Result<()> {
    for release in Release::ALL {
        let site = TlsSite::trusted(release, "tls").await?;
        site.demand(json!({})).await?;
        let (controller, _envoy) = site.start().await?;
        until_answered(&controller, 200).await?;
        session_sticks(&mut visitor(&controller)).await?;
        site.until_status("True/Accepted", "True/ResolvedRefs").await?;
        site.never_plain()?;
        let expected = (Some(HOST.to_owned()), Some("http/1.1".to_owned()));
        assert_eq!(site.tls(), [expected].into());
    }
    Ok(())
}

#[tokio::test]
async fn without_its_config_map_a_backend_is_not_reached() -> Result<()> {
    let site = TlsSite::prepare(Release::V1_7_0, "tls-map", |authority| authority.sign(HOST)).await?;
    site.demand(json!({})).await?;
    let (controller, _envoy) = site.start().await?;
    let refused = ("False/NoValidCACertificate", "False/InvalidCACertificateRef");
    until_answered(&controller, 500).await?;
    let words = site.until_status(refused.0, refused.1).await?;
    assert!(words.contains("grant list and watch on it"), "{words}");
    let route = |object: &Value| {
        let conditions = &object["status"]["parents"][0]["conditions"];
        condition(conditions, "ResolvedRefs") == "False/InvalidBackendTLSPolicy"
    };
    site.namespace
        .until("the route's status", "HTTPRoute", "web", route)
        .await?;

    grant(&site.namespace).await?;
    let missing = async || {
        let words = site.until_status(refused.0, refused.1).await.ok()?;
        words.contains("which does not exist").then_some(())
    };
    poll::until("the right", missing).await?;
    let garbage = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "authorities"},
        "data": {"ca.crt": "none"},
    });
    site.namespace.apply_object(&garbage).await?;
    let garbage = async || {
        let words = site.until_status(refused.0, refused.1).await.ok()?;
        words.contains("expected certificates in PEM").then_some(())
    };
    poll::until("the ConfigMap", garbage).await?;

    trust(&site.namespace, &site.authority).await?;
    until_answered(&controller, 200).await?;
    let mut visitor = visitor(&controller);
    let backend = session_sticks(&mut visitor).await?;
    site.namespace.delete("v1/ConfigMap", "authorities").await?;
    until_answered(&controller, 500).await?;
    site.until_status(refused.0, refused.1).await?;
    trust(&site.namespace, &site.authority).await?;
    until_answered(&controller, 200).await?;
    assert_eq!(session_sticks(&mut visitor).await?, backend, "the session goes on");
    site.never_plain()
}

#[tokio::test]
async fn a_policy_switches_a_running_backend_to_tls() -> Result<()> {
    let site = TlsSite::trusted(Release::V1_7_0, "tls-switch").await?;
    let (controller, _envoy) = site.start().await?;
    until_answered(&controller, 200).await?;
    let mut visitor = visitor(&controller);
    let backend = session_sticks(&mut visitor).await?;
    assert!(site.plain() > 0 && site.tls().is_empty(), "{:?}", site.seen());

    site.demand(json!({})).await?;
    let reached = async || {
        visitor.get("/").await.ok()?;
        (!site.tls().is_empty()).then_some(())
    };
    poll::until("TLS", reached).await?;
    let plain = site.plain();
    for _ in 0..20 {
        assert_eq!(session_sticks(&mut visitor).await?, backend, "the session goes on");
    }
    assert_eq!(site.plain(), plain);
    Ok(())
}

#[tokio::test]
async fn a_controller_that_restarts_keeps_backends_on_tls() -> Result<()> {
    let site = TlsSite::trusted(Release::V1_7_0, "tls-restart").await?;
    site.demand(json!({})).await?;
    let (mut controller, _envoy) = site.start().await?;
    until_answered(&controller, 200).await?;
    let crowd = Crowd::gather(12, &[Carrier::Cookie], &[controller.address(8080)]).await?;
    for _ in 0..3 {
        controller.kill();
        controller.launch()?;
        controller.until_ready().await?;
        crowd.rounds(3).await?;
    }
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.none_moved()?;
    site.never_plain()
}

#[tokio::test]
async fn system_authorities_are_a_file_of_envoys() -> Result<()> {
    let site = TlsSite::trusted(Release::V1_7_0, "tls-system").await?;
    let folder = tempfile::TempDir::with_prefix("limpet-e2e-")?;
    let file = folder.path().join("system.crt");
    let (controller, first) = site
        .start_with(|config| config["envoy"]["systemAuthorities"] = json!(file))
        .await?;
    until_answered(&controller, 200).await?;
    // Envoy must not continue in plain text, as after it refuses a cluster.
    site.demand(json!({"caCertificateRefs": null, "wellKnownCACertificates": "System"}))
        .await?;
    until_answered(&controller, 503).await?;
    let plain = site.plain();
    let refused = |object: &Value| condition(&object["status"]["conditions"], "Programmed") == "False/Invalid";
    site.namespace.until("the refusal", "Gateway", "web", refused).await?;
    until_answered(&controller, 503).await?;
    std::fs::write(&file, &site.authority.certificate)?;
    // An Envoy that starts now reads the file.
    drop(first);
    let mut envoy = controller.envoy("web", "two").await?;
    envoy.until_ready().await?;
    until_answered(&controller, 200).await?;
    assert_eq!(site.plain(), plain);
    Ok(())
}
