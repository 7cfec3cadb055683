//! Tests of `build` on manifests, without sessions.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::too_many_lines,
    reason = "what is not there fails the test, and tables of cases are long"
)]

mod addresses;
mod affinity;
mod backend_tls;
mod contour;
mod documented;
mod envoy_deployment;
mod envoys;
mod explained;
mod expressions;
mod foreign;
mod gateways;
mod hostnames;
mod malformed;
mod objects;
mod precedence;
mod quarantined;
mod references;
mod refused_rules;
mod renamed;
mod rules;
mod stand_ins;
mod traffic;
mod without_status;

use limpet_api::ObjectName;
use limpet_model::graph::{Action, Forward, Gateway, Graph, Route, VirtualHost};
use limpet_model::reports::{Condition, ConditionStatus};
use limpet_model::{Reports, Settings, build};

const CLASS: &str = "
kind: GatewayClass
metadata: {name: limpet}
spec: {controllerName: limpet.dev/controller}
---
";

/// Builds these manifests with a GatewayClass `limpet`.
fn built(manifests: &str) -> (Graph, Reports) {
    build(&objects::read(&format!("{CLASS}{manifests}")), &Settings::default())
}

/// A Gateway `shop/web` with one listener for all hosts, and Services `shop/v1`, `shop/v2`.
const SHOP: &str = "
kind: Gateway
metadata: {namespace: shop, name: web}
spec:
  gatewayClassName: limpet
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
kind: Service
metadata: {namespace: shop, name: v1}
spec: {ports: [{name: web, port: 80}]}
---
kind: Service
metadata: {namespace: shop, name: v2}
spec: {ports: [{name: web, port: 80}]}
---
";

/// Builds an HTTPRoute `shop/shop` for all hosts.
fn with_rules(rules: &str) -> (Graph, Reports) {
    with_hosts(&[], rules)
}

/// Builds an HTTPRoute `shop/shop`.
fn with_hosts(hosts: &[String], rules: &str) -> (Graph, Reports) {
    let hosts = hosts.join(", ");
    built(&format!(
        "{SHOP}
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec:
  parentRefs: [{{name: web}}]
  hostnames: [{hosts}]
  rules:
{rules}"
    ))
}

fn web(graph: &Graph) -> &Gateway {
    &graph.gateways[&ObjectName::new("shop", "web")]
}

/// The virtual hosts of the only listener of the Gateway.
fn hosts(graph: &Graph) -> Vec<&VirtualHost> {
    let mut listeners = web(graph).ports.values().flatten();
    let listener = listeners.next().expect("a listener");
    assert!(listeners.next().is_none(), "one listener");
    listener.virtual_hosts.values().map(|host| &**host).collect()
}

/// The routes of the only virtual host.
fn routes(graph: &Graph) -> &[Route] {
    let [host] = hosts(graph)[..] else {
        panic!("expected one virtual host, found {:?}", hosts(graph))
    };
    &host.routes
}

fn forward(route: &Route) -> &Forward {
    let Action::Forward(forward) = &route.action else {
        panic!("expected it to be forwarded: {:?}", route.action)
    };
    forward
}

/// A condition of the route `shop/shop` for its first parent.
fn condition<'a>(reports: &'a Reports, kind: &str) -> &'a Condition {
    let report = &reports.http_routes[&ObjectName::new("shop", "shop")];
    of_type(&report.parents[0].conditions, kind)
}

fn of_type<'a>(conditions: &'a [Condition], kind: &str) -> &'a Condition {
    conditions
        .iter()
        .find(|condition| condition.kind == kind)
        .unwrap_or_else(|| panic!("no {kind} in {conditions:?}"))
}

/// `words`: of its message.
#[track_caller]
fn expect(condition: &Condition, status: ConditionStatus, reason: &str, words: &[&str]) {
    assert_eq!((condition.status, condition.reason), (status, reason), "{condition:?}");
    for word in words {
        assert!(
            condition.message.contains(word),
            "expected {word:?} in {:?}",
            condition.message
        );
    }
}

fn messages(reports: &Reports) -> Vec<String> {
    let ancestors = reports.session_policies.values().chain(reports.backends.values());
    let ancestors = ancestors.flat_map(|report| &report.ancestors);
    let parents = reports.http_routes.values().chain(reports.grpc_routes.values());
    let parents = parents.flat_map(|report| &report.parents);
    let conditions = ancestors.map(|ancestor| &ancestor.conditions);
    let conditions = conditions.chain(parents.map(|parent| &parent.conditions)).flatten();
    let conditions = conditions.chain(reports.without_status.values().map(|condition| &**condition));
    let conditions = conditions.map(|condition| format!("{}={}", condition.kind, condition.message));
    let ingress = reports.ingress_routes.values();
    let ingress = ingress.map(|report| format!("{}={}", report.status.as_str(), report.description));
    conditions.chain(ingress).collect()
}
