//! Objects that cannot be read, though the cluster's schema accepted them.

use super::{CLASS, SHOP, built, condition, expect, forward, hosts, objects, of_type, routes, web};
use limpet_api::ObjectName;
use limpet_model::graph::Session;
use limpet_model::reports::{ConditionStatus, ParentReport};
use limpet_model::{Graph, Reports, SessionPolicyKind, SessionPolicyName, Settings, build};

fn beside_shop(manifests: &str) -> (Graph, Reports) {
    let manifests = format!(
        "{CLASS}{SHOP}
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec:
  parentRefs: [{{name: web}}]
  rules: [{{backendRefs: [{{name: v1, port: 80}}]}}]
---
{manifests}"
    );
    let objects = objects::read_any(&manifests);
    assert!(!objects.malformed().is_empty());
    build(&objects, &Settings::default())
}

fn name(name: &str) -> ObjectName {
    ObjectName::new("shop", name)
}

fn accepted(parent: &ParentReport) -> &limpet_model::reports::Condition {
    of_type(&parent.conditions, "Accepted")
}

#[test]
fn a_route_says_so_for_each_parent_of_ours_and_serves_nothing() {
    let (graph, reports) = beside_shop(
        "
kind: HTTPRoute
metadata: {namespace: shop, name: bad, generation: 3}
spec:
  parentRefs: [{name: web}, 5, {name: others}, {name: web, sectionName: http}]
  hostnames: [bad.example]
  rules:
  - matches: [{path: {type: Exact, value: /fine}}]
    backendRefs: [{name: v1, port: 80}]
  - backendRefs: [{name: v1, port: 80, weight: -1}]
",
    );
    let report = &reports.http_routes[&name("bad")];
    assert_eq!(report.observed_generation, 3);
    let [one, two] = &report.parents[..] else {
        panic!("{report:?}")
    };
    assert_eq!(two.parent_ref.section_name.as_deref(), Some("http"));
    for parent in [one, two] {
        let words = ["spec.parentRefs[1]", "integer `5`"];
        expect(accepted(parent), ConditionStatus::False, "UnsupportedValue", &words);
        assert_eq!(parent.conditions.len(), 1, "nothing is known of its references");
    }
    assert_eq!(routes(&graph).len(), 1, "{:?}", hosts(&graph));
    assert_eq!(reports.gateways[&name("web")].listeners[0].attached_routes, 1);
}

#[test]
fn a_route_whose_parents_cannot_be_read_is_nobodys() {
    let (graph, reports) = beside_shop(
        "
kind: GRPCRoute
metadata: {namespace: shop, name: bad}
spec: {parentRefs: web, rules: [{backendRefs: [{name: v1, port: 80}]}]}
",
    );
    assert!(reports.grpc_routes.is_empty());
    assert_eq!(routes(&graph).len(), 1);
}

#[test]
fn a_gateway_says_so_and_its_routes_find_no_listener() {
    let (graph, reports) = beside_shop(
        "
kind: Gateway
metadata: {namespace: shop, name: bad}
spec:
  gatewayClassName: limpet
  listeners: [{name: http, port: 70000, protocol: HTTP}]
---
kind: HTTPRoute
metadata: {namespace: shop, name: of-bad}
spec: {parentRefs: [{name: bad}], rules: [{backendRefs: [{name: v1, port: 80}]}]}
",
    );
    let report = &reports.gateways[&name("bad")];
    let words = ["spec.listeners[0].port", "70000"];
    expect(
        of_type(&report.conditions, "Accepted"),
        ConditionStatus::False,
        "Invalid",
        &words,
    );
    let route = &reports.http_routes[&name("of-bad")].parents[0];
    expect(
        accepted(route),
        ConditionStatus::False,
        "NoMatchingParent",
        &["shop/bad"],
    );
    assert_eq!(graph.gateways.keys().collect::<Vec<_>>(), [&name("web")]);
    assert_eq!(web(&graph).ports.len(), 1);
}

#[test]
fn a_gateway_of_another_class_is_not_ours_to_judge() {
    let (_, reports) = beside_shop(
        "
kind: Gateway
metadata: {namespace: shop, name: bad}
spec: {gatewayClassName: others, listeners: all}
",
    );
    assert!(!reports.gateways.contains_key(&name("bad")));
}

#[test]
fn an_invalid_policy_is_told_and_another_one_counts() {
    let (graph, reports) = beside_shop(
        "
kind: BackendLBPolicy
metadata: {namespace: shop, name: bad, creationTimestamp: 2026-01-01T00:00:00Z}
spec:
  targetRefs: [{group: '', kind: Service, name: v1}]
  sessionPersistence: {sessionName: 5}
---
kind: BackendLBPolicy
metadata: {namespace: shop, name: young, creationTimestamp: 2026-02-01T00:00:00Z}
spec:
  targetRefs: [{group: '', kind: Service, name: v1}]
  sessionPersistence: {sessionName: young}
",
    );
    let of = |of: &str| {
        let kind = SessionPolicyKind::BackendLbPolicy;
        let policy = SessionPolicyName { kind, name: name(of) };
        let [ancestor] = &reports.session_policies[&policy].ancestors[..] else {
            panic!("{reports:?}")
        };
        of_type(&ancestor.conditions, "Accepted")
    };
    let words = ["spec.sessionPersistence.sessionName", "expected a string"];
    expect(of("bad"), ConditionStatus::False, "Invalid", &words);
    expect(of("young"), ConditionStatus::True, "Accepted", &[]);
    let session = &forward(&routes(&graph)[0]).session;
    assert!(
        matches!(session, Session::Rule(used) if used.policy.starts_with("young-")),
        "{session:?}"
    );
}

#[test]
fn an_x_backend_says_so_to_the_gateways_of_its_rules() {
    let (_, reports) = beside_shop(
        "
kind: XBackend
metadata: {namespace: shop, name: bad}
spec: {type: EndpointSelector, port: {number: high}}
---
kind: XBackend
metadata: {namespace: shop, name: external}
spec: {type: ExternalHostname, port: {number: 80}}
---
kind: HTTPRoute
metadata: {namespace: shop, name: to-backends}
spec:
  parentRefs: [{name: web}]
  rules:
  - backendRefs:
    - {group: gateway.networking.x-k8s.io, kind: XBackend, name: bad}
    - {group: gateway.networking.x-k8s.io, kind: XBackend, name: external}
",
    );
    for (backend, words) in [
        ("bad", ["spec.port.number", "a whole number from 0 to 65535"]),
        ("external", ["spec.type", "EndpointSelector"]),
    ] {
        let [ancestor] = &reports.backends[&name(backend)].ancestors[..] else {
            panic!("{reports:?}")
        };
        let accepted = of_type(&ancestor.conditions, "Accepted");
        expect(accepted, ConditionStatus::False, "Invalid", &words);
        assert_eq!(ancestor.ancestor_ref.name, "web");
    }
    let route = &reports.http_routes[&name("to-backends")].parents[0];
    let resolved = of_type(&route.conditions, "ResolvedRefs");
    let words = [
        "spec.rules[0].backendRefs[0].name: XBackend shop/bad: spec.port.number",
        "spec.rules[0].backendRefs[1].name: XBackend shop/external: spec.type",
    ];
    expect(resolved, ConditionStatus::False, "BackendNotFound", &words);
}

/// Our Service of that name would take its endpoints from another owner's selector.
#[test]
fn an_x_backend_whose_services_name_is_taken_says_so() {
    for (label, is_refused) in [("limpet", false), ("somebody", true)] {
        let taken = limpet_model::selector_service(&name("blue")).name;
        let (_, reports) = built(&format!(
            "{SHOP}
kind: Service
metadata: {{namespace: shop, name: {taken}, labels: {{app.kubernetes.io/managed-by: {label}}}}}
spec: {{ports: [{{port: 80}}]}}
---
kind: XBackend
metadata: {{namespace: shop, name: blue}}
spec: {{type: EndpointSelector, endpointSelector: {{matchLabels: {{app: blue}}}}, port: {{number: 80}}}}
---
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec:
  parentRefs: [{{name: web}}]
  rules: [{{backendRefs: [{{group: gateway.networking.x-k8s.io, kind: XBackend, name: blue}}]}}]"
        ));
        let accepted = of_type(&reports.backends[&name("blue")].ancestors[0].conditions, "Accepted");
        let resolved = condition(&reports, "ResolvedRefs");
        assert_eq!(
            (accepted.is_true(), resolved.is_true()),
            (!is_refused, !is_refused),
            "{reports:?}"
        );
        if is_refused {
            expect(
                accepted,
                ConditionStatus::False,
                "Invalid",
                &[&taken, "found another one of this name"],
            );
        }
    }
}

#[test]
fn a_service_is_a_backend_that_is_not_there() {
    let (_, reports) = beside_shop(
        "
kind: Service
metadata: {namespace: shop, name: v1}
spec: {ports: [{name: web, port: many}]}
",
    );
    let route = &reports.http_routes[&name("shop")].parents[0];
    let resolved = of_type(&route.conditions, "ResolvedRefs");
    let words = [
        "spec.rules[0].backendRefs[0].name",
        "Service shop/v1, which cannot be read: spec.ports[0].port",
    ];
    expect(resolved, ConditionStatus::False, "BackendNotFound", &words);
}
