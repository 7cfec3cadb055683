//! Pods that drain by their annotation.

mod command;
mod waiting;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Release};
use limpet_e2e::{Request, Visitor, poll};
use serde_json::{Value, json};

use crate::failures::rights::{without, without_own_pods};
use crate::keyring::KeyringSite;

const WEB: &[(&str, &str)] = &[("app", "web")];
const DRAIN: &str = "session.limpet.dev/drain";
const SINCE: &str = "2026-11-23T06:00:00Z";
/// So many connections reach every worker of an Envoy, and every pod.
const MANY: usize = 24;

const STRICT: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: strict
  annotations: {session.limpet.dev/strict: 'true'}
spec:
  parentRefs: [{name: web}]
  rules:
  - matches: [{path: {type: PathPrefix, value: /strict}}]
    backendRefs: [{name: web, port: 80}]
";

async fn annotate(site: &KeyringSite, pod: &str, value: Value) -> Result<()> {
    let change = json!({"metadata": {"annotations": {DRAIN: value}}});
    site.namespace.merge("v1/Pod", pod, &change).await.map(drop)
}

async fn chosen(site: &KeyringSite, path: &str) -> Result<BTreeSet<String>> {
    let mut pods = BTreeSet::new();
    for _ in 0..MANY {
        let answer = Request::get(site.controller.address(8080), path).send().await?;
        ensure!(answer.status == 200, "{answer:?}");
        pods.insert(answer.backend().context("no backend")?.to_owned());
    }
    Ok(pods)
}

/// Waits until new clients reach exactly these pods.
async fn until_chosen(site: &KeyringSite, path: &str, pods: &[&str]) -> Result<()> {
    let mut last = None;
    let found = poll::until(&format!("new sessions at {pods:?}"), async || {
        last = Some(chosen(site, path).await);
        let chosen = last.as_ref()?.as_ref().ok()?;
        chosen.iter().eq(pods).then_some(())
    })
    .await;
    found.with_context(|| format!("{path}: the last were {last:?}"))
}

async fn at(site: &KeyringSite, path: &str, pod: &str) -> Result<Visitor> {
    poll::until("a session at the pod", async || {
        let mut visitor = Visitor::of(site.controller.address(8080));
        let answer = visitor.get(path).await.ok()?;
        let is_session = answer.backend() == Some(pod) && !answer.set_cookies().is_empty();
        is_session.then_some(visitor)
    })
    .await
}

async fn stays(visitor: &mut Visitor, path: &str, pod: &str) -> Result<()> {
    for _ in 0..10 {
        let answer = visitor.get(path).await?;
        ensure!(answer.backend() == Some(pod), "{path}: the session moved: {answer:?}");
        ensure!(answer.set_cookies().is_empty(), "{path}: {answer:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_pod_with_the_annotation_gets_no_new_session() -> Result<()> {
    let mut site = KeyringSite::start_with("drained", "1h", "1h").await?;
    site.namespace.apply(STRICT).await?;
    // Each rule of a policy has its own cookie.
    let suffixed = async || {
        let answer = Request::get(site.controller.address(8080), "/strict").send().await;
        let cookies = answer.ok()?.set_cookies();
        cookies.iter().any(|cookie| cookie.name.contains('~')).then_some(())
    };
    poll::until("sessions of each rule", suffixed).await?;
    let mut sessions = [
        (at(&site, "/", "a").await?, "/"),
        (at(&site, "/strict", "a").await?, "/strict"),
    ];

    annotate(&site, "a", json!(SINCE)).await?;
    for (visitor, path) in &mut sessions {
        until_chosen(&site, path, &["b"]).await?;
        stays(visitor, path, "a").await?;
    }
    let clusters = site.envoy.admin().text("/clusters").await?;
    let flags = format!("{}::health_flags::/eds_status_draining", site.pods[0].address());
    ensure!(clusters.contains(&flags), "{clusters}");

    // A restarted controller knows it before it serves.
    site.controller.end().await?;
    site.controller.launch()?;
    site.controller.until_ready().await?;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        for (visitor, path) in &mut sessions {
            assert_eq!(chosen(&site, path).await?, BTreeSet::from(["b".to_owned()]), "{path}");
            stays(visitor, path, "a").await?;
        }
    }

    annotate(&site, "a", Value::Null).await?;
    for (visitor, path) in &mut sessions {
        until_chosen(&site, path, &["a", "b"]).await?;
        stays(visitor, path, "a").await?;
    }

    // If all drain, all are used.
    for pod in ["a", "b"] {
        annotate(&site, pod, json!(SINCE)).await?;
    }
    let all_drain = async || {
        let clusters = site.envoy.admin().text("/clusters").await.ok()?;
        (clusters.matches("eds_status_draining").count() == 2).then_some(())
    };
    poll::until("both to drain", all_drain).await?;
    until_chosen(&site, "/", &["a", "b"]).await
}

#[tokio::test]
async fn without_the_right_to_read_pods_none_drains() -> Result<()> {
    let mut site = KeyringSite::start_with("undrained", "1h", "1h").await?;
    without_own_pods(&site.namespace).await?;
    let role = "ClusterRole limpet-controller";
    let name = site.namespace.cluster_role("limpet-controller");
    let rules = site.namespace.get("ClusterRole", &name).await?["rules"].take();
    for verb in ["list", "watch"] {
        site.controller.kill();
        without(&site.namespace, role, &rules, verb, &["pods"]).await?;
        annotate(&site, "a", Value::Null).await?;
        site.controller.launch()?;
        site.controller.until_ready().await?;
        let words = format!("cannot {verb} resource \"pods\"");
        let told = async || {
            let log = site.controller.log().ok()?;
            (log.contains(&words) && log.contains("grant list and watch on pods")).then_some(())
        };
        let told = poll::until(&format!("the controller to miss {verb}"), told).await;
        told.with_context(|| site.controller.log().unwrap_or_default())?;

        annotate(&site, "a", json!(SINCE)).await?;
        let name = format!("after-{verb}");
        let other = site.namespace.pod(&name, WEB).await?;
        until_chosen(&site, "/", &["a", &name, "b"]).await?;
        other.remove().await?;
        until_chosen(&site, "/", &["a", "b"]).await?;
    }
    let all = json!({"rules": rules});
    site.namespace.merge("ClusterRole", &name, &all).await?;
    until_chosen(&site, "/", &["b"]).await?;

    // With `sessions.enabled: false`, the controller does not ask for pods.
    let server = Cluster::shared(Release::V1_2_1).await?.server();
    let user = format!("system:serviceaccount:{}:limpet-controller", site.namespace.name());
    let asked = || {
        let requests = server.requests_of(&user)?;
        anyhow::Ok(requests.iter().filter(|request| request.uri.contains("/pods")).count())
    };
    site.controller.end().await?;
    let before = asked()?;
    ensure!(before > 0, "nothing was asked");
    site.controller
        .reconfigure(|config| config["sessions"] = json!({"enabled": false}));
    site.controller.launch()?;
    site.controller.until_ready().await?;
    until_chosen(&site, "/", &["a", "b"]).await?;
    assert_eq!(asked()?, before);
    assert_eq!(site.controller.page("/sessions").await?.status, 404);
    Ok(())
}
