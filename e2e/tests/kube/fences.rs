//! A pod's address that another pod gets.

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Namespace, POD_PORT, Release};
use limpet_e2e::poll;
use serde_json::{Value, json};

use crate::keyring::KeyringSite;
use crate::site::site_objects;

const WEB: &[(&str, &str)] = &[("app", "web")];
const FENCES: &str = "limpet-fences";

async fn fenced(site: &KeyringSite) -> Result<u64> {
    Ok(site.envoy.admin().stats("limpet.*refused.fenced").await?.values().sum())
}

#[tokio::test]
async fn a_reused_address_does_not_bring_its_sessions() -> Result<()> {
    let mut site = KeyringSite::start_with("fences", "1m", "1h").await?;
    let mut of_a = Vec::new();
    let mut of_b = Vec::new();
    poll::until("sessions at both pods", async || {
        let (visitor, backend) = site.session().await.ok()?;
        if backend == "a" { &mut of_a } else { &mut of_b }.push(visitor);
        (of_a.len() > 2 && of_b.len() > 2).then_some(())
    })
    .await?;

    let ip = site.pods.remove(0).remove().await?;
    let _heir = site.namespace.pod_at("heir", WEB, ip).await?;
    let (mut of_heir, _) = poll::until("a session at the heir", async || {
        let (visitor, backend) = site.session().await.ok()?;
        (backend == "heir").then_some((visitor, backend))
    })
    .await?;
    // The leader writes it after it has told its Envoys.
    let has_fences = |map: &Value| map["data"]["fences.json"].as_str().is_some_and(|text| text != "[]");
    let map = site
        .namespace
        .until("the fence", "v1/ConfigMap", FENCES, has_fences)
        .await?;
    let kept = map["data"]["fences.json"].clone();
    let list: Value = serde_json::from_str(kept.as_str().context("no list")?)?;
    assert_eq!(list[0]["address"], format!("{ip}:{POD_PORT}"));
    assert_eq!(list[0]["namespace"], site.namespace.name());
    assert_eq!(list.as_array().map(Vec::len), Some(1));

    // No session reached the heir before every Envoy had the fence.
    let before = fenced(&site).await?;
    for visitor in &mut of_a {
        let old = visitor.cookie("limpet-session").map(str::to_owned);
        let answer = visitor.get("/").await?;
        ensure!(answer.status == 200 && visitor.cookie("limpet-session").map(str::to_owned) != old);
    }
    assert_eq!(fenced(&site).await? - before, of_a.len() as u64);
    for visitor in &mut of_b {
        assert_eq!(visitor.get("/").await?.backend(), Some("b"));
    }
    for _ in 0..6 {
        assert_eq!(of_heir.get("/").await?.backend(), Some("heir"));
    }

    // A restarted controller has nothing new for Envoy.
    let reloads = site.reloads().await?;
    site.controller.kill();
    site.controller.launch()?;
    site.controller.until_ready().await?;
    let connected = format!("limpet_clients{{gateway=\"{}/web\"}}", site.namespace.name());
    poll::until("Envoy to reconnect", async || {
        (site.controller.metric(&connected).await.ok()? == "1").then_some(())
    })
    .await?;
    assert_eq!(of_heir.get("/").await?.backend(), Some("heir"));
    assert_eq!(site.reloads().await?, reloads);
    assert_eq!(site.controller.metric("limpet_fences").await?, "1");
    let after = site.namespace.get("v1/ConfigMap", FENCES).await?["data"]["fences.json"].clone();
    assert_eq!(after, kept);
    Ok(())
}

const CLAIMS: u64 = 5;

/// A Service without a selector, whose endpoints are another namespace's pods under an invented uid.
async fn claim(namespace: &Namespace, site: &KeyringSite, uid: &str) -> Result<()> {
    let endpoint = |pod: &limpet_e2e::kube::Pod| {
        json!({
            "addresses": [pod.address().ip()],
            "conditions": {"ready": true},
            "targetRef": {"kind": "Pod", "name": "invented", "uid": uid},
        })
    };
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "claimed", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": POD_PORT, "protocol": "TCP"}],
        "endpoints": site.pods.iter().map(endpoint).collect::<Vec<_>>(),
    });
    namespace.apply_object(&slice).await.map(drop)
}

#[tokio::test]
async fn an_invented_owner_ends_no_session_elsewhere() -> Result<()> {
    let mut site = KeyringSite::start_with("claimed", "1m", "1h").await?;
    let other = Cluster::shared(Release::V1_2_1).await?.namespace("claiming").await?;
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"ports": [{"name": "http", "port": 80, "targetPort": POD_PORT}]},
    });
    other.apply_object(&service).await?;
    other
        .apply(&site_objects(&other).replace(other.name(), site.namespace.name()))
        .await?;
    claim(&other, &site, "invented-0").await?;
    site.controller.kill();
    site.controller
        .reconfigure(|config| config["namespaces"] = json!([site.namespace.name(), other.name()]));
    site.controller.launch()?;
    site.controller.until_ready().await?;
    let crowd = site.crowd().await?;
    crowd.rounds(3).await?;

    for number in 1..=CLAIMS {
        let uid = format!("invented-{number}");
        claim(&other, &site, &uid).await?;
        let fences = site
            .namespace
            .until("the claims to be seen", "v1/ConfigMap", FENCES, |map| {
                map["data"]["fences.json"]
                    .as_str()
                    .is_some_and(|list| list.matches(&uid).count() == site.pods.len())
            })
            .await?;
        let list: Vec<Value> = serde_json::from_str(fences["data"]["fences.json"].as_str().context("no list")?)?;
        ensure!(list.iter().all(|fence| fence["namespace"] == other.name()), "{list:?}");
        // The endpoints are the same: nothing waits.
        let clusters = site.envoy.admin().text("/clusters").await?;
        for pod in &site.pods {
            ensure!(
                clusters.contains(&format!("::{}::", pod.address())),
                "{} is held back",
                pod.name()
            );
        }
        crowd.rounds(5).await?;
    }
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.none_moved()?;
    assert_eq!(fenced(&site).await?, 0);
    Ok(())
}
