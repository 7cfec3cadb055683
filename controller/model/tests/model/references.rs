use super::{SHOP, built, condition, expect, forward, routes, with_rules};
use limpet_api::{ObjectName, Text};
use limpet_model::graph::{Destination, Protocol, Session, Target};
use limpet_model::reports::ConditionStatus;
use limpet_model::selector_service;

#[test]
fn an_invalid_reference_keeps_its_weight() {
    let cases = [
        (
            "{name: missing, port: 80, weight: 3}",
            "BackendNotFound",
            "spec.rules[0].backendRefs[1].name: expected Service shop/missing",
        ),
        (
            "{name: v2, port: 81, weight: 3}",
            "BackendNotFound",
            "spec.rules[0].backendRefs[1].port: expected a TCP port of Service shop/v2",
        ),
        (
            "{name: v2, weight: 3}",
            "BackendNotFound",
            "spec.rules[0].backendRefs[1].port",
        ),
        (
            "{name: v2, kind: ConfigMap, weight: 3}",
            "InvalidKind",
            "spec.rules[0].backendRefs[1].kind: expected a Service or an XBackend",
        ),
        (
            "{name: v2, namespace: pay, port: 80, weight: 3}",
            "RefNotPermitted",
            "expected a ReferenceGrant in pay",
        ),
        (
            "{name: v2, port: 80, weight: 3, \
             filters: [{type: RequestMirror, requestMirror: {backendRef: {name: v1}}}]}",
            "UnsupportedValue",
            "spec.rules[0].backendRefs[1].filters[0].type: RequestMirror is not supported",
        ),
    ];
    for (reference, reason, word) in cases {
        let (graph, reports) = with_rules(&format!(
            "  - {{backendRefs: [{{name: v1, port: 80, weight: 7}}, {reference}]}}"
        ));
        let destinations = &forward(&routes(&graph)[0]).destinations;
        let weights: Vec<u32> = destinations.iter().map(|destination| destination.weight).collect();
        assert_eq!(weights, [7, 3], "{reference}");
        assert!(matches!(destinations[1].target, Target::Invalid { .. }), "{reference}");
        // An existing backend with an unsupported field is not an unresolved reference.
        let (kind, status) = match reason {
            "UnsupportedValue" => ("PartiallyInvalid", ConditionStatus::True),
            _ => ("ResolvedRefs", ConditionStatus::False),
        };
        expect(condition(&reports, kind), status, reason, &[word]);
        expect(condition(&reports, "Accepted"), ConditionStatus::True, "Accepted", &[]);
    }
}

/// The hash of both names is 715f2c6d.
#[test]
fn a_second_backend_with_the_same_short_hash_is_refused() {
    let service = |name: &str| {
        format!("kind: Service\nmetadata: {{namespace: shop, name: {name}}}\nspec: {{ports: [{{port: 80}}]}}\n---\n")
    };
    let services = ["b12273", "b46585"].map(service).concat();
    let (graph, reports) = built(&format!(
        "{services}{SHOP}
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec:
  parentRefs: [{{name: web}}]
  rules:
  - {{backendRefs: [{{name: b12273, port: 80}}, {{name: b46585, port: 80}}, {{name: b12273, port: 80}}]}}"
    ));
    let destinations = &forward(&routes(&graph)[0]).destinations;
    let are_invalid = destinations
        .iter()
        .map(|destination| matches!(destination.target, Target::Invalid { .. }));
    assert_eq!(are_invalid.collect::<Vec<_>>(), [false, true, false]);
    let words = "spec.rules[0].backendRefs[1]: expected a backend whose short hash differs from the hash of \
                 service/shop/b12273/80";
    let condition = condition(&reports, "PartiallyInvalid");
    expect(condition, ConditionStatus::True, "UnsupportedValue", &[words]);
}

#[test]
fn a_grant_permits_a_service_of_another_namespace() {
    let (graph, reports) = built(&format!(
        "{SHOP}
kind: Service
metadata: {{namespace: pay, name: till}}
spec: {{ports: [{{port: 80}}]}}
---
kind: ReferenceGrant
metadata: {{namespace: pay, name: grant}}
spec: {{from: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: shop}}], to: [{{kind: Service}}]}}
---
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec: {{parentRefs: [{{name: web}}], rules: [{{backendRefs: [{{name: till, namespace: pay, port: 80}}]}}]}}"
    ));
    expect(
        condition(&reports, "ResolvedRefs"),
        ConditionStatus::True,
        "ResolvedRefs",
        &[],
    );
    assert_eq!(
        graph.clusters.keys().map(ToString::to_string).collect::<Vec<_>>(),
        ["service/pay/till/80"]
    );
}

#[test]
fn a_route_without_a_grant_took_all_places_in_the_status_of_anothers_policy() {
    let of_others = |name: usize| {
        format!(
            "kind: Gateway
metadata: {{namespace: evil, name: g{name}, creationTimestamp: '2025-01-01T00:00:00Z'}}
spec: {{gatewayClassName: limpet, listeners: [{{name: http, port: 80, protocol: HTTP}}]}}
---
"
        )
    };
    let gateways: String = (0..16).map(of_others).collect();
    let parents: Vec<String> = (0..16).map(|name| format!("{{name: g{name}}}")).collect();
    let (graph, reports) = built(&format!(
        "{gateways}kind: HTTPRoute
metadata: {{namespace: evil, name: evil}}
spec: {{parentRefs: [{}], rules: [{{backendRefs: [{{name: v1, namespace: shop, port: 80}}]}}]}}
---
kind: BackendLBPolicy
metadata: {{namespace: shop, name: sticky}}
spec: {{targetRefs: [{{group: '', kind: Service, name: v1}}], sessionPersistence: {{sessionName: s}}}}
---
{}
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec: {{parentRefs: [{{name: web}}], rules: [{{backendRefs: [{{name: v1, port: 80}}]}}]}}",
        parents.join(", "),
        SHOP.replace(
            "name: web}\nspec",
            "name: web, creationTimestamp: '2026-01-01T00:00:00Z'}\nspec"
        ),
    ));
    let report = reports.session_policies.values().next().expect("a report");
    let ancestors = report.ancestors.iter().map(|ancestor| &ancestor.ancestor_ref);
    let ancestors: Vec<_> = ancestors.map(|of| (of.namespace.as_deref(), &*of.name)).collect();
    assert_eq!(ancestors, [(Some("shop"), "web")]);
    assert!(matches!(forward(&routes(&graph)[0]).session, Session::Rule(_)));
}

#[test]
fn a_backend_has_the_protocol_that_it_names() {
    let cases = [
        ("{port: 80, name: a}", Some(Protocol::Http1)),
        (
            "{port: 80, name: a, appProtocol: kubernetes.io/h2c}",
            Some(Protocol::H2c),
        ),
        (
            "{port: 80, name: a, appProtocol: kubernetes.io/ws}",
            Some(Protocol::Http1),
        ),
        ("{port: 80, name: a, appProtocol: https}", None),
        ("{port: 80, name: a, protocol: UDP}", None),
    ];
    for (port, protocol) in cases {
        let (graph, _) = built(&format!(
            "{SHOP}
kind: Service
metadata: {{namespace: shop, name: app}}
spec: {{ports: [{port}]}}
---
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec: {{parentRefs: [{{name: web}}], rules: [{{backendRefs: [{{name: app, port: 80}}]}}]}}"
        ));
        let found = graph.clusters.values().next().map(|cluster| cluster.protocol);
        assert_eq!(found, protocol, "{port}");
    }
}

#[test]
fn an_external_name_is_no_backend() {
    let (_, reports) = built(&format!(
        "{SHOP}
kind: Service
metadata: {{namespace: shop, name: app}}
spec: {{type: ExternalName, ports: [{{port: 80}}]}}
---
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec: {{parentRefs: [{{name: web}}], rules: [{{backendRefs: [{{name: app, port: 80}}]}}]}}"
    ));
    expect(
        condition(&reports, "ResolvedRefs"),
        ConditionStatus::False,
        "BackendNotFound",
        &["ExternalName"],
    );
}

fn with_backend(spec: &str) -> (limpet_model::Graph, limpet_model::Reports) {
    built(&format!(
        "{SHOP}
kind: XBackend
metadata: {{namespace: shop, name: blue}}
spec: {spec}
---
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec:
  parentRefs: [{{name: web}}]
  rules:
  - backendRefs: [{{name: v1, port: 80}}, {{group: gateway.networking.x-k8s.io, kind: XBackend, name: blue}}]"
    ))
}

#[test]
fn an_x_backend_has_the_endpoints_of_a_service_made_for_it() {
    let (graph, _) =
        with_backend("{type: EndpointSelector, endpointSelector: {matchLabels: {app: blue}}, port: {number: 8080}}");
    let (name, cluster) = graph
        .clusters
        .iter()
        .find(|(name, _)| name.0.starts_with("xbackend/"))
        .expect("a cluster");
    assert_eq!(name.0, "xbackend/shop/blue");
    assert_eq!(
        (&cluster.service, cluster.port_name.as_str()),
        (&selector_service(&ObjectName::new("shop", "blue")), "")
    );
}

#[test]
fn what_an_x_backend_cannot_be_is_told() {
    let cases = [
        (
            "{type: ExternalHostname, externalHostname: {hostname: x.org}, port: {number: 80}}",
            "spec.type: expected EndpointSelector",
        ),
        (
            "{type: EndpointSelector, endpointSelector: {matchLabels: {a: b}}, tls: {mode: ServerOnly}}",
            "spec.tls.mode: expected None",
        ),
        (
            "{type: EndpointSelector, endpointSelector: {matchLabels: {a: b}}, port: {number: 80}, protocol: TCP}",
            "spec.protocol: expected",
        ),
        (
            "{type: EndpointSelector, endpointSelector: {matchLabels: {a: b}}, port: {number: 80}, protocol: HTTP2}",
            "spec.protocol: expected H2C",
        ),
        (
            "{type: EndpointSelector, endpointSelector: {matchLabels: {a: b}}}",
            "spec.port: expected a port",
        ),
        (
            "{type: EndpointSelector, port: {number: 80}}",
            "spec.endpointSelector.matchLabels: expected a label",
        ),
        (
            "{type: EndpointSelector, endpointSelector: {matchLabels: {}}, port: {number: 80}}",
            "spec.endpointSelector.matchLabels: expected a label",
        ),
        (
            "{type: EndpointSelector, endpointSelector: {matchLabels: {app: not valid!}}, port: {number: 80}}",
            "spec.endpointSelector.matchLabels[app]: expected at most 63 letters",
        ),
    ];
    for (spec, word) in cases {
        let (graph, reports) = with_backend(spec);
        let invalid = |destination: &Destination| matches!(destination.target, Target::Invalid { .. });
        assert!(invalid(&forward(&routes(&graph)[0]).destinations[1]), "{spec}");
        expect(
            condition(&reports, "ResolvedRefs"),
            ConditionStatus::False,
            "UnsupportedProtocol",
            &[word],
        );
    }
}

#[test]
fn names_of_made_services_are_legal_and_distinct() {
    let long = "a".repeat(200);
    let names = ["blue", "blue.green", "blue-green", long.as_str(), &format!("{long}b")];
    let made: Vec<Text> = names
        .iter()
        .map(|name| selector_service(&ObjectName::new("shop", name)).name)
        .collect();
    for name in &made {
        assert!(
            name.len() <= 63
                && name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
            "{name}"
        );
    }
    let distinct: std::collections::BTreeSet<&Text> = made.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{made:?}");
}
