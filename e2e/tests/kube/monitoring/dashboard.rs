use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Controller, Release};
use limpet_e2e::prometheus::{Prometheus, Target};
use limpet_e2e::{Request, Visitor, poll};
use serde_json::json;

use super::{queries, rules_file};
use crate::keyring::{KeyringSite, envoy_at};

const WEB: &[(&str, &str)] = &[("app", "web")];
const CLIENTS: usize = 12;

/// Requests of sessions, of new clients, and with a forged token.
async fn visit(site: &KeyringSite, visitors: &mut [Visitor]) -> Result<()> {
    for visitor in visitors {
        visitor.get("/").await?;
    }
    site.session().await?;
    let forged = Request::get(site.controller.address(8080), "/").cookie("limpet-session=forged");
    ensure!(forged.send().await?.status == 200);
    Ok(())
}

/// Sends requests until the query finds at least this much.
async fn until_at_least(
    prometheus: &Prometheus,
    site: &KeyringSite,
    visitors: &mut [Visitor],
    query: &str,
    minimum: f64,
) -> Result<()> {
    let mut last = None;
    let found = poll::until(query, async || {
        visit(site, visitors).await.ok()?;
        tokio::time::sleep(Duration::from_millis(200)).await;
        last = Some(prometheus.sum(query).await);
        last.as_ref()?.as_ref().ok()?.filter(|sum| *sum >= minimum)
    });
    found
        .await
        .map(drop)
        .with_context(|| format!("{query}: expected at least {minimum}, found {last:?}"))
}

/// A Gateway without an Envoy, and a controller with certificates.
async fn with_certificates() -> Result<Controller> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("monitored-tls").await?;
    Controller::start(cluster.server(), &namespace, |config| {
        config["xds"] = json!({"address": config["xds"]["address"], "tls": {"authority": {}}});
    })
    .await
}

#[tokio::test]
async fn every_query_of_the_dashboard_finds_something() -> Result<()> {
    let mut site = KeyringSite::start_with("monitored", "1s", "1h").await?;
    let second = envoy_at(&site.controller, &site.namespace, "two", 0).await?;
    let other = with_certificates().await?;
    let targets = [
        Target {
            job: "limpet-controller",
            path: "/metrics",
            addresses: vec![site.controller.http()],
        },
        Target {
            job: "other-controller",
            path: "/metrics",
            addresses: vec![other.http()],
        },
        Target {
            job: "envoy",
            path: "/stats/prometheus",
            addresses: vec![site.envoy.admin().address(), second.admin().address()],
        },
    ];
    let address = SocketAddr::new(site.namespace.next_address()?, 9090);
    let prometheus = Prometheus::start(address, &targets, &rules_file()).await?;
    let mut visitors = Vec::new();
    for _ in 0..CLIENTS {
        visitors.push(site.session().await?.0);
    }
    let mut until = async |site: &KeyringSite, query: &str, minimum: f64| {
        until_at_least(&prometheus, site, &mut visitors, query, minimum).await
    };

    // Both Envoys count, in the form of this build.
    let counting = "count(count by (instance) (limpet:envoy_requests{outcome=\"steered\"} > 0))";
    until(&site, counting, 2.0).await?;
    until(
        &site,
        "sum(rate(limpet:envoy_requests{outcome=\"refused_malformed\"}[5m]))",
        0.01,
    )
    .await?;
    until(&site, "sum(limpet_clients)", 2.0).await?;
    let namespace = site.namespace.name().to_owned();
    let of_pods = format!("count(limpet_sessions{{namespace=\"{namespace}\",service=\"web\",pod=~\"a|b\"}} > 0)");
    until(&site, &of_pods, 2.0).await?;

    // A session leaves a pod that is gone, and another pod gets the address: a fence.
    let ip = site.pods.remove(0).remove().await?;
    until(&site, "sum(limpet_session_moves_total{reason=\"gone\"})", 1.0).await?;
    let _heir = site.namespace.pod_at("heir", WEB, ip).await?;
    until(&site, "max(limpet_fences)", 1.0).await?;

    site.request_rotation("1").await?;
    until(&site, "max_over_time(max(limpet_key_rotation_phase)[5m:1s])", 1.0).await?;

    let _taken = TcpListener::bind(site.controller.address(8081))?;
    let listeners = json!({"spec": {"listeners": [
        {"name": "http", "port": 8080, "protocol": "HTTP"},
        {"name": "more", "port": 8081, "protocol": "HTTP"},
    ]}});
    site.namespace.merge("Gateway", "web", &listeners).await?;
    let refused = "ALERTS{alertname=\"LimpetEnvoysRefuseConfiguration\",type=\"Listener\"}";
    until(&site, refused, 1.0).await?;

    for (panel, query) in queries()? {
        // Prometheus reads it every second, and a new leader has just begun to tell.
        poll::until_within(Duration::from_secs(30), &format!("{panel}: {query}"), async || {
            visit(&site, &mut visitors).await.ok()?;
            prometheus.query(&query).await.ok().filter(|series| !series.is_empty())
        })
        .await
        .with_context(|| format!("{panel}: {query} finds nothing"))?;
    }
    for target in prometheus.targets().await? {
        assert_eq!(target["health"], "up", "{target}");
    }
    for rule in prometheus.rules().await? {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    Ok(())
}
