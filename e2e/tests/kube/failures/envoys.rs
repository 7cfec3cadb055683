//! An Envoy loses its connection, is slow, or refuses its configuration.

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use limpet_e2e::kube::{Cluster, Controller, Proxy, Release};
use limpet_e2e::{Crowd, poll};
use serde_json::json;

use super::wire::Wire;
use super::{
    ControlledSite, WEB, crowd, message, nothing_happened, objects, redirect, until_programmed, until_redirected,
    until_sessions,
};

#[tokio::test]
async fn a_disconnected_envoy_keeps_serving_and_catches_up() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("cut").await?;
    let _pods = objects(&namespace).await?;
    let controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    let way = SocketAddr::new(namespace.next_address()?, 18000);
    let mut wire = Wire::lay(way, controller.xds()).await?;
    let mut envoy = controller.envoy_by("web", "one", way).await?;
    envoy.until_ready().await?;
    until_sessions(&controller).await?;
    until_programmed(&namespace, "web", "True/Programmed").await?;
    let crowd = crowd(&controller).await?;

    wire.cut().await;
    let gateway = until_programmed(&namespace, "web", "False/Pending").await?;
    assert_eq!(
        message(&gateway["status"]["conditions"], "Programmed"),
        "No Envoy of this Gateway is connected"
    );
    namespace.apply(&redirect("meanwhile")).await?;
    crowd.rounds(5).await?;
    wire.mend().await?;
    until_redirected(&controller, "/meanwhile", true).await?;
    until_programmed(&namespace, "web", "True/Programmed").await?;
    nothing_happened(crowd).await
}

async fn until_pods(envoy: &Proxy, count: u64) -> Result<()> {
    let known = async || {
        let stats = envoy
            .admin()
            .stats(r"^cluster\..*web.*\.membership_total$")
            .await
            .ok()?;
        (!stats.is_empty() && stats.values().all(|known| *known == count)).then_some(())
    };
    poll::until(&format!("{count} pods"), known).await
}

#[tokio::test]
async fn a_slow_envoy_delays_no_other() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let site = ControlledSite::start(cluster, "slow").await?;
    let (namespace, controller) = (&site.namespace, &site.controller);
    // Another Gateway with two Envoys, which share its port.
    let second = format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: second}}
spec:
  gatewayClassName: {}
  listeners: [{{name: http, port: 8081, protocol: HTTP}}]
",
        namespace.name()
    );
    namespace.apply(&second).await?;
    let parents = json!({"spec": {"parentRefs": [{"name": "web"}, {"name": "second"}]}});
    namespace.merge("HTTPRoute", "web", &parents).await?;
    let mut slow = controller.envoy("second", "slow").await?;
    slow.until_ready().await?;
    let mut quick = controller.envoy("second", "quick").await?;
    quick.until_ready().await?;
    for envoy in [&site.envoy, &slow, &quick] {
        until_pods(envoy, 2).await?;
    }
    until_programmed(namespace, "second", "True/Programmed").await?;
    let crowd: Crowd = site.crowd().await?;

    slow.process().pause()?;
    let mut pods = Vec::new();
    for number in 3..6 {
        pods.push(namespace.pod(&format!("pod-{number}"), WEB).await?);
        namespace
            .endpoints("web", |endpoints| endpoints.len() as u64 == number)
            .await?;
        let told = Instant::now();
        until_pods(&site.envoy, number).await?;
        until_pods(&quick, number).await?;
        ensure!(told.elapsed() < Duration::from_secs(3), "{:?}", told.elapsed());
    }
    let gateway = until_programmed(namespace, "second", "False/Pending").await?;
    assert_eq!(
        message(&gateway["status"]["conditions"], "Programmed"),
        "Of 2 connected Envoys, 1 have acknowledged the configuration"
    );
    site.until_programmed("True/Programmed").await?;

    slow.process().go_on()?;
    until_pods(&slow, 5).await?;
    until_programmed(namespace, "second", "True/Programmed").await?;
    nothing_happened(crowd).await
}

#[tokio::test]
async fn an_envoys_refusal_is_reported_and_harms_nothing_else() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let site = ControlledSite::start(cluster, "refused").await?;
    let namespace = &site.namespace;
    site.until_programmed("True/Programmed").await?;
    let crowd = site.crowd().await?;

    let taken = TcpListener::bind(site.controller.address(8081))?;
    let listeners = |port: u16| {
        json!({"spec": {"listeners": [
            {"name": "http", "port": 8080, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "Same"}}},
            {"name": "more", "port": port, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "Same"}}},
        ]}})
    };
    namespace.merge("Gateway", "web", &listeners(8081)).await?;
    let gateway = site.until_programmed("False/Invalid").await?;
    let words = message(&gateway["status"]["conditions"], "Programmed");
    assert!(words.starts_with("Envoy one refused Listener"), "{words}");
    assert!(words.contains("cannot bind") && words.contains(":8081"), "{words}");
    assert_eq!(
        site.controller
            .metric("limpet_xds_responses_total{type=\"Listener\",answer=\"refused\"}")
            .await?,
        "1",
        "the listener was sent again"
    );
    // All else continues, also changes.
    namespace.apply(&redirect("meanwhile")).await?;
    site.until_redirected("/meanwhile").await?;

    // Only the port becomes free. The listener is sent every half minute, which is also how long tests wait.
    drop(taken);
    if site.until_programmed("True/Programmed").await.is_err() {
        site.until_programmed("True/Programmed").await?;
    }
    site.envoy.listener("http-8081").await?;
    nothing_happened(crowd).await
}
