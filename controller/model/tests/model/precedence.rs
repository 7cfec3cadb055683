use super::{SHOP, built, routes};
use limpet_model::graph::{PathMatch, Route};

fn order(manifests: &str) -> Vec<String> {
    let (graph, _) = built(&format!("{SHOP}{manifests}"));
    let rule = |route: &Route| route.rule.0.rsplit('/').next().unwrap_or_default().to_owned();
    routes(&graph).iter().map(rule).collect()
}

fn route(name: &str, created: &str, rules: &str) -> String {
    format!(
        "
kind: HTTPRoute
metadata: {{namespace: shop, name: {name}, creationTimestamp: '{created}'}}
spec: {{parentRefs: [{{name: web}}], rules: [{rules}]}}
---
"
    )
}

#[test]
fn the_more_specific_match_comes_first() {
    let rule = |name: &str, matches: &str| {
        format!("{{name: {name}, matches: [{{{matches}}}], backendRefs: [{{name: v1, port: 80}}]}}")
    };
    let rules = [
        rule("root", "path: {value: /}"),
        rule("query", "path: {value: /shop}, queryParams: [{name: a, value: b}]"),
        rule("header", "path: {value: /shop}, headers: [{name: a, value: b}]"),
        rule(
            "headers",
            "path: {value: /shop}, headers: [{name: a, value: b}, {name: c, value: d}]",
        ),
        rule("method", "path: {value: /shop}, method: GET"),
        rule("long", "path: {value: /shop/cart}"),
        rule("regex", "path: {type: RegularExpression, value: '/s.*'}"),
        rule("exact", "path: {type: Exact, value: /shop}"),
    ];
    let order = order(&route("shop", "2026-01-01T00:00:00Z", &rules.join(", ")));
    assert_eq!(
        order,
        ["exact", "regex", "long", "method", "headers", "header", "query", "root"]
    );
}

#[test]
fn equal_matches_go_by_age_then_name_then_place() {
    let rule = |name: &str| format!("{{name: {name}, backendRefs: [{{name: v1, port: 80}}]}}");
    let all = [
        route("young", "2026-02-01T00:00:00Z", &rule("young")),
        route("b", "2026-01-01T00:00:00Z", &rule("b")),
        route("a", "2026-01-01T00:00:00Z", &format!("{}, {}", rule("z"), rule("w"))),
    ];
    let expected = ["z", "w", "b", "young"];
    assert_eq!(order(&all.concat()), expected);
    let mut turned = all.to_vec();
    turned.reverse();
    assert_eq!(order(&turned.concat()), expected);
}

#[test]
fn a_slash_at_the_end_of_a_prefix_does_not_matter() {
    let (graph, _) = super::with_rules(
        "
  - {matches: [{path: {value: /shop/}}], backendRefs: [{name: v1, port: 80}]}
  - {matches: [{path: {value: /}}], backendRefs: [{name: v1, port: 80}]}
  - {matches: [{path: {type: Exact, value: /shop/}}], backendRefs: [{name: v1, port: 80}]}",
    );
    let paths: Vec<&PathMatch> = routes(&graph).iter().map(|route| &route.matches.path).collect();
    let prefix = |text: &str| PathMatch::Prefix(text.to_owned());
    assert_eq!(
        paths,
        [&PathMatch::Exact("/shop/".to_owned()), &prefix("/shop"), &prefix("")]
    );
}

#[test]
fn grpc_methods_are_paths() {
    let (graph, _) = built(&format!(
        "{SHOP}
kind: GRPCRoute
metadata: {{namespace: shop, name: grpc}}
spec:
  parentRefs: [{{name: web}}]
  rules:
  - matches:
    - method: {{method: Buy}}
    - method: {{service: shop.Cart}}
    - method: {{service: shop.Cart, method: Add}}
    - method: {{type: RegularExpression, service: 'shop[.].*', method: 'A|B'}}
    - {{}}
    backendRefs: [{{name: v1, port: 80}}]"
    ));
    let routes = routes(&graph);
    assert!(routes.iter().all(|route| route.matches.grpc));
    let paths: Vec<PathMatch> = routes.iter().map(|route| route.matches.path.clone()).collect();
    assert_eq!(
        paths,
        [
            PathMatch::Exact("/shop.Cart/Add".to_owned()),
            PathMatch::Regex(r"/shop\..*/(?:A|B)".to_owned()),
            PathMatch::Regex("/[^/]+/Buy".to_owned()),
            PathMatch::Prefix("/shop.Cart".to_owned()),
            PathMatch::Prefix(String::new()),
        ]
    );
    let clusters: Vec<String> = graph.clusters.keys().map(ToString::to_string).collect();
    assert_eq!(clusters, ["service/shop/v1/80#h2c"]);
}
