//! Where a rule's routes are found, and what is lost where they are not.

use serde_json::json;

use super::names::IstioRouteNames;
use super::{IstioOptions, WasmModule};
use crate::envoy::{FilterBuild, ModuleFilter, RemoteFile, WasmFilter};
use limpet_api::{Kind, ObjectName, ObjectRef};
use limpet_model::graph::{
    Action, Gateway, HeaderChanges, Hostname, Listener, Match, Route, RuleName, RuleOrigin, VirtualHost,
};
use limpet_model::{FewSet, Graph, Objects};

fn route(rule: &str) -> Route {
    Route {
        rule: RuleName(rule.into()),
        matches: Match::default(),
        action: Action::Respond {
            status: 404,
            reason: String::new(),
        },
        request_headers: HeaderChanges::default(),
        response_headers: HeaderChanges::default(),
        cors: None,
    }
}

/// The rules at each port and hostname.
fn gateway(places: &[(u16, &str, &[&str])]) -> Gateway {
    let mut gateway = Gateway::default();
    for (port, hostname, rules) in places {
        let hostname = Hostname::parse(Some(hostname));
        gateway.ports.entry(*port).or_default().push(Listener {
            name: format!("{port}-{hostname}"),
            hostname: hostname.clone(),
            certificates: None,
            tls_minimum: None,
            virtual_hosts: Listener::hosts([VirtualHost {
                hostname,
                routes: rules.iter().map(|rule| route(rule)).collect(),
            }]),
        });
    }
    gateway
}

fn origin(kind: Kind, route: &str, index: usize, name: Option<&str>) -> RuleOrigin {
    RuleOrigin {
        route: ObjectRef {
            kind,
            name: ObjectName::new("shop", route),
        },
        index,
        name: name.map(str::to_owned),
        gateways: FewSet::default(),
        requested_by: limpet_model::graph::SessionRequester::Rule,
    }
}

/// Two rules with sessions, both named `cart`, of two routes.
fn two_carts() -> Graph {
    Graph {
        rules: [
            (
                RuleName("httproute/shop/a/cart".into()),
                origin(Kind::HttpRoute, "a", 0, Some("cart")),
            ),
            (
                RuleName("httproute/shop/b/cart".into()),
                origin(Kind::HttpRoute, "b", 3, Some("cart")),
            ),
        ]
        .into_iter()
        .collect(),
        ..Graph::default()
    }
}

/// What an `EnvoyFilter` matches on for the rule `a/cart`, and the rules that it is confused with.
fn found(graph: &Graph, gateway: &Gateway, rule: &str) -> (Vec<serde_json::Value>, Vec<String>) {
    let objects = Objects::default();
    let names = IstioRouteNames::of(graph, &objects, gateway);
    let rule = RuleName(rule.into());
    let rule = graph.rules.keys().find(|known| **known == rule).expect("the rule");
    let name = super::names::route_name(&graph.rules[rule]);
    let found = names.routes_of(rule, &name);
    let matchers = found
        .which
        .iter()
        .map(|which| which.matcher(&name)["routeConfiguration"].clone());
    let confused = found.confused.iter();
    let confused = confused.map(|(hostname, others)| format!("{hostname}: {}", others.len()));
    (matchers.collect(), confused.collect())
}

const A: &str = "httproute/shop/a/cart";
const B: &str = "httproute/shop/b/cart";

#[test]
fn a_name_that_nobody_else_has_is_enough() {
    let gateway = gateway(&[(80, "a.example.com", &[A]), (443, "*.example.com", &[A])]);
    let expected = json!({"vhost": {"route": {"name": "cart"}}});
    assert_eq!(found(&two_carts(), &gateway, A), (vec![expected], vec![]));
}

#[test]
fn equal_names_are_told_apart_by_hostname_and_then_by_port() {
    let graph = two_carts();
    let hosts = gateway(&[
        (80, "a.example.com", &[A]),
        (443, "a.example.com", &[A]),
        (80, "*", &[B]),
    ]);
    let under = |host: &str| json!({"vhost": {"domainName": host, "route": {"name": "cart"}}});
    assert_eq!(found(&graph, &hosts, A), (vec![under("a.example.com")], vec![]));
    assert_eq!(found(&graph, &hosts, B), (vec![under("*")], vec![]));

    let ports = gateway(&[(80, "*.example.com", &[A]), (443, "*.example.com", &[B])]);
    let at =
        |port: u16| json!({"portNumber": port, "vhost": {"domainName": "*.example.com", "route": {"name": "cart"}}});
    assert_eq!(found(&graph, &ports, A), (vec![at(80)], vec![]));
    assert_eq!(found(&graph, &ports, B), (vec![at(443)], vec![]));
}

#[test]
fn equal_names_in_one_place_are_not_told_apart() {
    let graph = two_carts();
    let gateway = gateway(&[(80, "a.example.com", &[A, B]), (80, "b.example.com", &[B])]);
    assert_eq!(
        found(&graph, &gateway, A),
        (vec![], vec!["a.example.com: 1".to_owned()])
    );
    let under = json!({"vhost": {"domainName": "b.example.com", "route": {"name": "cart"}}});
    assert_eq!(
        found(&graph, &gateway, B),
        (vec![under], vec!["a.example.com: 1".to_owned()])
    );
}

#[test]
fn a_rule_without_a_name_has_its_routes_and_its_place() {
    let rule = "httproute/shop/a/1a2b3c4d";
    let of_grpc = "grpcroute/shop/a/5e6f7a8b";
    let graph = Graph {
        rules: [
            (RuleName(rule.into()), origin(Kind::HttpRoute, "a", 2, None)),
            (RuleName(of_grpc.into()), origin(Kind::GrpcRoute, "a", 2, None)),
        ]
        .into_iter()
        .collect(),
        ..Graph::default()
    };
    let alone = gateway(&[(80, "*", &[rule])]);
    let expected = json!({"vhost": {"route": {"name": "shop.a.2"}}});
    assert_eq!(found(&graph, &alone, rule), (vec![expected], vec![]));
    let both = gateway(&[(80, "*", &[rule, of_grpc])]);
    assert_eq!(found(&graph, &both, rule), (vec![], vec!["*: 1".to_owned()]));
}

#[test]
fn the_module_is_where_the_configuration_says() {
    let url = |filter: &FilterBuild, options: &IstioOptions| {
        WasmModule::of(filter, options).map(|module| (module.url, module.sha256))
    };
    let none = IstioOptions::default();
    let file = FilterBuild::Wasm(WasmFilter::File("/limpet.wasm".to_owned()));
    assert_eq!(url(&file, &none), Some(("file:///limpet.wasm".to_owned(), None)));
    let remote = FilterBuild::Wasm(WasmFilter::Remote(RemoteFile {
        url: "https://example.com/limpet.wasm".to_owned(),
        sha256: "ab".to_owned(),
    }));
    let expected = ("https://example.com/limpet.wasm".to_owned(), Some("ab".to_owned()));
    assert_eq!(url(&remote, &none), Some(expected));
    let module = FilterBuild::Module(ModuleFilter::Name("limpet".to_owned()));
    assert_eq!(url(&module, &none), None);
    let image = IstioOptions {
        url: Some("oci://registry.example.com/limpet:1".to_owned()),
        ..none
    };
    assert_eq!(
        url(&module, &image),
        Some(("oci://registry.example.com/limpet:1".to_owned(), None))
    );
}

#[test]
fn names_are_not_longer_than_names_may_be() {
    let gateway = ObjectName::new("shop", "web");
    let long = |last: char| super::object_name(&gateway, format!("limpet-{}{last}", "x".repeat(300))).name;
    assert_eq!(long('a').len(), 253);
    assert_ne!(long('a'), long('b'));
}
