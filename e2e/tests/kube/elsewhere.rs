//! ECDS only: an Envoy that gets its routes from elsewhere.

use anyhow::{Context, Result};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Pod, Proxy, Release};
use limpet_e2e::{Build, Visitor, poll, tools};
use serde_json::{Value, json};

use crate::site::{POLICY, condition};

const WEB: &[(&str, &str)] = &[("app", "web")];

/// envoy-configs/ecds-controller.yaml with the test's addresses and a route without a rule.
fn bootstrap(namespace: &Namespace, controller: &Controller, pods: &[Pod]) -> Result<String> {
    let file = tools::checkout().join("envoy-configs/ecds-controller.yaml");
    let mut config: Value = serde_saphyr::from_str(&std::fs::read_to_string(file)?)?;
    let gateway = format!("{}/web", namespace.name());
    config["node"]["cluster"] = json!(gateway);
    config["admin"]["address"]["socket_address"]["port_value"] = json!(0);
    let socket = |address: std::net::SocketAddr| {
        let (ip, port) = (address.ip(), address.port());
        json!({"socket_address": {"address": ip, "port_value": port}})
    };
    let resources = &mut config["static_resources"];
    resources["listeners"][0]["address"] = socket(controller.address(8080));
    let manager = &mut resources["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"];
    let routes = &mut manager["route_config"]["virtual_hosts"][0]["routes"];
    routes[0]["name"] = json!(format!("{}/shop/all", namespace.name()));
    let mut other = routes[0].clone();
    other["name"] = json!("somebody-elses");
    other["match"] = json!({"prefix": "/other"});
    *routes = json!([other, routes[0]]);
    let endpoints = |addresses: Vec<std::net::SocketAddr>| {
        let endpoints: Vec<Value> = addresses
            .into_iter()
            .map(|address| json!({"endpoint": {"address": socket(address)}}))
            .collect();
        json!([{"lb_endpoints": endpoints}])
    };
    resources["clusters"][0]["load_assignment"]["endpoints"] = endpoints(pods.iter().map(Pod::address).collect());
    resources["clusters"][1]["load_assignment"]["endpoints"] = endpoints(vec![controller.xds()]);
    if Build::tested()? == Build::Module {
        let discovery = config
            .pointer_mut("/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters")
            .and_then(Value::as_array_mut)
            .and_then(|filters| filters.iter_mut().find(|filter| !filter["config_discovery"].is_null()));
        let discovery = discovery.context("no discovered filter")?;
        discovery["name"] = Build::Module.discovered_name().into();
        discovery["config_discovery"]["type_urls"][0] =
            "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter".into();
    }
    // The controller's configuration has the path of the filter's file.
    Ok(config.to_string())
}

#[tokio::test]
async fn an_envoy_with_its_own_routes_gets_only_the_filter() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("elsewhere").await?;
    namespace.gateway_class().await?;
    namespace.service("web", WEB).await?;
    let pods = [namespace.pod("a", WEB).await?, namespace.pod("b", WEB).await?];
    let site = format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: web}}
spec:
  gatewayClassName: {}
  listeners: [{{name: http, port: 8080, protocol: HTTP}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: shop}}
spec:
  parentRefs: [{{name: web}}]
  rules: [{{name: all, backendRefs: [{{name: web, port: 80}}]}}]
",
        namespace.name()
    );
    namespace.apply(&site).await?;
    namespace.apply(POLICY).await?;
    let elsewhere = json!({"gateway": format!("{}/web", namespace.name()), "routeName": "{namespace}/{route}/{rule}"});
    let mut controller = Controller::prepare(cluster.server(), &namespace, |config| {
        config["envoy"]["routesElsewhere"] = json!([elsewhere]);
    })
    .await?;

    // Envoy starts without the controller, and serves without sessions.
    let key = controller.key_encryption_key();
    let mut envoy = Proxy::start(
        &bootstrap(&namespace, &controller, &pods)?,
        &[(&key.variable, &key.key)],
    )
    .await?;
    envoy.until_ready().await?;
    let mut visitor = Visitor::of(controller.address(8080));
    for _ in 0..4 {
        assert_eq!(visitor.get("/").await?.status, 200);
    }
    assert!(visitor.cookie_names().is_empty());

    controller.launch()?;
    controller.until_ready().await?;
    let with_session = async || {
        visitor.get("/").await.ok()?;
        visitor.cookie("shop").map(|_| ())
    };
    poll::until("a session", with_session).await?;
    let programmed = |object: &Value| condition(&object["status"]["conditions"], "Programmed") == "True/Programmed";
    namespace.until("acknowledgement", "Gateway", "web", programmed).await?;
    let backend = visitor.get("/").await?.backend().context("no backend")?.to_owned();
    for _ in 0..20 {
        assert_eq!(visitor.get("/").await?.backend(), Some(backend.as_str()));
    }
    // Envoy gets nothing else, and a route without a rule has no session.
    let mut other = Visitor::of(controller.address(8080));
    other.get("/other").await?;
    assert!(other.cookie_names().is_empty());

    // Without the controller, its last configuration stays in effect.
    controller.kill();
    for _ in 0..10 {
        assert_eq!(visitor.get("/").await?.backend(), Some(backend.as_str()));
    }
    let mut late = Visitor::of(controller.address(8080));
    late.get("/").await?;
    assert_eq!(late.cookie_names(), ["shop"]);
    Ok(())
}
