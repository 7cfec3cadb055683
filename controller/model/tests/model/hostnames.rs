use super::{SHOP, built, condition, expect, hosts, web};
use limpet_model::graph::Hostname;
use limpet_model::reports::ConditionStatus;

fn parse(text: &str) -> Hostname {
    Hostname::parse(Some(text))
}

#[test]
fn hostnames_meet() {
    let cases = [
        ("*", "shop.example.com", Some("shop.example.com")),
        ("*", "*.example.com", Some("*.example.com")),
        ("Shop.Example.com", "shop.example.com", Some("shop.example.com")),
        ("*.example.com", "shop.example.com", Some("shop.example.com")),
        ("*.example.com", "a.b.example.com", Some("a.b.example.com")),
        ("*.example.com", "example.com", None),
        ("*.example.com", "shopexample.com", None),
        ("*.example.com", "*.shop.example.com", Some("*.shop.example.com")),
        ("*.example.com", "*.example.org", None),
        ("shop.example.com", "pay.example.com", None),
    ];
    for (one, other, both) in cases {
        let both = both.map(parse);
        assert_eq!(parse(one).intersection(&parse(other)), both, "{one} {other}");
        assert_eq!(parse(other).intersection(&parse(one)), both, "{other} {one}");
    }
}

/// The hosts of a route at each listener, as `listener: hosts`.
fn served(listeners: &str, hostnames: &str) -> Vec<String> {
    let (graph, _) = built(&format!(
        "
kind: Gateway
metadata: {{namespace: shop, name: web}}
spec:
  gatewayClassName: limpet
  listeners:
{listeners}
---
kind: Service
metadata: {{namespace: shop, name: v1}}
spec: {{ports: [{{port: 80}}]}}
---
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec:
  parentRefs: [{{name: web}}]
  hostnames: {hostnames}
  rules: [{{backendRefs: [{{name: v1, port: 80}}]}}]"
    ));
    let listeners = web(&graph).ports.values().flatten();
    let text = |listener: &limpet_model::graph::Listener| {
        let hosts: Vec<String> = listener
            .virtual_hosts
            .values()
            .filter(|host| !host.routes.is_empty())
            .map(|host| host.hostname.to_string())
            .collect();
        format!("{}: {}", listener.name, hosts.join(" "))
    };
    listeners.map(text).collect()
}

#[test]
fn a_listener_serves_what_it_has_in_common_with_the_route() {
    let one = "  - {name: one, port: 80, protocol: HTTP, hostname: '*.example.com'}";
    assert_eq!(
        served(one, "[shop.example.com, example.org, '*.pay.example.com']"),
        ["one: shop.example.com *.pay.example.com"]
    );
    assert_eq!(served(one, "[]"), ["one: *.example.com"]);
}

#[test]
fn a_host_that_a_listener_has_for_itself_is_no_other_ones() {
    let listeners = "
  - {name: any, port: 80, protocol: HTTP}
  - {name: one, port: 80, protocol: HTTP, hostname: shop.example.com, allowedRoutes: {namespaces: {from: None}}}
  - {name: elsewhere, port: 81, protocol: HTTP}";
    let served = served(listeners, "[shop.example.com, pay.example.com]");
    assert_eq!(
        served,
        [
            "one: ",
            "any: pay.example.com",
            "elsewhere: shop.example.com pay.example.com"
        ]
    );
}

#[test]
fn what_a_listener_has_no_route_for_is_not_found() {
    let (graph, _) = built(SHOP);
    let [host] = hosts(&graph)[..] else {
        panic!("{:?}", hosts(&graph))
    };
    assert_eq!((host.hostname.to_string().as_str(), host.routes.len()), ("*", 0));
}

#[test]
fn a_route_without_a_host_of_the_listener_is_told() {
    let (_, reports) = built(
        "
kind: Gateway
metadata: {namespace: shop, name: web}
spec: {gatewayClassName: limpet, listeners: [{name: http, port: 80, protocol: HTTP, hostname: '*.example.com'}]}
---
kind: HTTPRoute
metadata: {namespace: shop, name: shop}
spec: {parentRefs: [{name: web}], hostnames: [example.org], rules: [{}]}",
    );
    expect(
        condition(&reports, "Accepted"),
        ConditionStatus::False,
        "NoMatchingListenerHostname",
        &["spec.hostnames"],
    );
}
