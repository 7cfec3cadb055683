//! The port for Prometheus of a Gateway's Envoys.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use limpet_e2e::kube::Proxy;
use limpet_e2e::{Answer, Request, Visitor, poll, tools};
use serde_json::{Value, json};

use super::{DEPLOYMENT, SERVICE, Site, parameters, refers_to};

/// Of this test only: all tests' Envoys share the machine.
const ADMIN: u16 = 19110;
const METRICS: u16 = 19112;

/// An Envoy with the bootstrap of the pods' init container, adapted to this machine.
async fn envoy(site: &Site, arguments: &Value) -> Result<Proxy> {
    let given: Vec<&str> = arguments
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let port = given
        .iter()
        .skip_while(|argument| **argument != "--metrics-port")
        .nth(1);
    let gateway = format!("{}/web", site.namespace.name());
    let (admin, xds) = (ADMIN.to_string(), site.controller.xds().to_string());
    let bootstrap = [
        "controller",
        "bootstrap",
        "--gateway",
        &gateway,
        "--xds",
        &xds,
        "--node-id",
        "one",
        "--admin-port",
        &admin,
        "--ready-port",
        "0",
        "--metrics-port",
        port.context("no port of metrics")?,
    ];
    let output = tools::run_limpet(&bootstrap, &[])?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let key = site.controller.key_encryption_key();
    let bootstrap = String::from_utf8(output.stdout)?;
    let mut envoy = Proxy::start(&bootstrap, &[(&key.variable, &key.key)]).await?;
    envoy.until_ready().await?;
    Ok(envoy)
}

fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

#[tokio::test]
async fn a_prometheus_gets_one_page_of_the_admin_interface() -> Result<()> {
    let site = Site::start("metrics", json!({})).await?;
    parameters(&site.namespace, "own", &json!({"metricsPort": 8080})).await?;
    site.gateway("web", &refers_to("own")).await?;
    let message = site
        .until_condition("web", "Accepted", "False/InvalidParameters")
        .await?;
    let words = "/own: spec.metricsPort: expected a port that no listener of the Gateway has, found 8080";
    assert!(message.contains(words), "{message}");

    parameters(&site.namespace, "own", &json!({"metricsPort": METRICS})).await?;
    let deployment = site.until("it", DEPLOYMENT, "web", |_| true).await?;
    let pod = &deployment["spec"]["template"]["spec"];
    let ports = pod["containers"][0]["ports"].as_array().context("no ports")?;
    let metrics = json!({"name": "metrics", "containerPort": METRICS, "protocol": "TCP"});
    assert!(ports.contains(&metrics), "{ports:?}");
    let service = site.until("it", SERVICE, "web", |_| true).await?;
    assert!(
        !service["spec"]["ports"].to_string().contains(&METRICS.to_string()),
        "{service}"
    );

    site.namespace.service("shop", &[("app", "shop")]).await?;
    let _backend = site.namespace.pod("shop", &[("app", "shop")]).await?;
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "shop"},
        "spec": {
            "parentRefs": [{"name": "web"}],
            "rules": [{
                "sessionPersistence": {"type": "Cookie", "cookie": {"name": "shop"}},
                "backendRefs": [{"name": "shop", "port": 80}],
            }],
        },
    });
    site.namespace.apply_object(&route).await?;
    let _envoy = envoy(&site, &pod["initContainers"][1]["args"]).await?;
    let mut visitor = Visitor::of(site.controller.address(8080));
    poll::until("a session", async || {
        let answer = visitor.get("/").await.ok()?;
        (!answer.set_cookies().is_empty()).then_some(())
    })
    .await?;

    let address = SocketAddr::new(site.controller.address(8080).ip(), METRICS);
    let get = async |path: &str| Request::get(address, path).send().await;
    let counts = |page: &str| {
        let mut lines = page.lines().filter(|line| line.contains("limpet_shop_"));
        lines.any(|line| line.contains("_issued") && line.ends_with(" 1"))
    };
    // The wasm filter hands over its counts ten times a second.
    for path in ["/stats/prometheus", "/stats/prometheus?usedonly"] {
        poll::until(&format!("the session in {path}"), async || {
            let page = get(path).await.ok()?;
            (page.status == 200 && counts(&text(&page))).then_some(())
        })
        .await?;
    }
    for path in [
        "/",
        "/config_dump",
        "/certs",
        "/stats",
        "/stats/",
        "/stats/prometheus/",
        "/stats/prometheus/../../config_dump",
        "/stats/prometheus%2f..%2f..%2fconfig_dump",
        "//stats/prometheus",
        "/ready",
    ] {
        let answer = get(path).await?;
        ensure!(answer.status == 404, "{path}: {} {}", answer.status, text(&answer));
    }
    for path in [
        "/quitquitquit",
        "/stats/prometheus",
        "/drain_listeners",
        "/reset_counters",
    ] {
        let answer = Request::get(address, path).method(Method::POST).send().await?;
        ensure!(answer.status == 404, "{path}: {} {}", answer.status, text(&answer));
    }
    ensure!(visitor.get("/").await?.set_cookies().is_empty());
    Ok(())
}
