//! Routes that Envoys refused.

use limpet_api::{Kind, ObjectRef};
use limpet_model::{Quarantined, RouteReplacement};

use super::*;

const WILDCARD: &str = "
kind: HTTPRoute
metadata: {namespace: shop, name: all}
spec:
  parentRefs: [{name: web}]
  rules: [{backendRefs: [{name: v2, port: 80}]}]
---
kind: HTTPRoute
metadata: {namespace: shop, name: shop, generation: 3}
spec:
  parentRefs: [{name: web}]
  hostnames: [shop.example]
  rules:
  - filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: x, value: 'on'}]}}]
    backendRefs: [{name: v1, port: 80}]
";

/// The route of `shop.example`, with its conditions.
fn served(serves: RouteReplacement) -> (Option<Route>, Vec<(&'static str, ConditionStatus, String)>) {
    let mut objects = objects::read(&format!("{CLASS}{SHOP}{WILDCARD}"));
    let name = ObjectName::new("shop", "shop");
    let kind = Kind::HttpRoute;
    let object = ObjectRef {
        kind,
        name: name.clone(),
    };
    let quarantined = Quarantined {
        generation: 4,
        words: "Envoy one: no".to_owned(),
        serves,
    };
    objects.quarantined.insert(object, quarantined);
    let (graph, reports) = build(&objects, &Settings::default());
    let listener = &graph.gateways[&ObjectName::new("shop", "web")].ports[&80][0];
    let mut hosts = listener.virtual_hosts.values();
    let host = hosts.find(|host| host.hostname.to_string() == "shop.example");
    let host = host.expect("the host stays its own");
    let report = &reports.http_routes[&name];
    assert_eq!(report.observed_generation, 4);
    let conditions = report.parents[0].conditions.iter();
    let conditions = conditions.map(|known| (known.kind, known.status, known.message.clone()));
    (host.routes.first().cloned(), conditions.collect())
}

#[test]
fn a_former_version_is_served_and_told() {
    let (route, conditions) = served(RouteReplacement::Former);
    assert!(matches!(route.expect("a route").action, Action::Forward(_)));
    assert_eq!(conditions[0].1, ConditionStatus::True);
    assert_eq!(
        conditions[1],
        (
            "PartiallyInvalid",
            ConditionStatus::True,
            "Fall Back: Envoy refuses generation 4, so generation 3 stays in use: Envoy one: no".to_owned()
        )
    );
}

#[test]
fn without_one_its_matches_answer_500_and_nothing_else() {
    let (route, conditions) = served(RouteReplacement::Status500);
    let route = route.expect("a route");
    assert!(matches!(route.action, Action::Respond { status: 500, .. }));
    assert!(route.response_headers.is_empty());
    let message = "Envoy refuses generation 4, so its requests are answered with status 500: Envoy one: no";
    assert_eq!(conditions[0], ("Accepted", ConditionStatus::False, message.to_owned()));
}

#[test]
fn a_host_without_any_rule_stays_its_own() {
    let (route, conditions) = served(RouteReplacement::Nothing);
    assert_eq!(route, None);
    let message = "Envoy refuses generation 4, so it is not served: Envoy one: no";
    assert_eq!(conditions[0], ("Accepted", ConditionStatus::False, message.to_owned()));
}
