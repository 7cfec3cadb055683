use super::{CLASS, built, expect, objects, of_type, web};
use limpet_api::ObjectName;
use limpet_model::reports::{ConditionStatus, GatewayReport, ListenerReport};
use limpet_model::{Graph, Reports, Settings, build};

/// Builds `shop/web` with these listeners, and the Secrets `shop/good`, `shop/broken` and `certs/good`.
fn with_listeners(listeners: &str) -> (Graph, Reports) {
    built(&format!(
        "
kind: Secret
metadata: {{namespace: shop, name: good}}
---
kind: Secret
metadata: {{namespace: certs, name: good}}
---
kind: Secret
metadata: {{namespace: shop, name: broken, annotations: {{broken: 'tls.key: expected a private key in PEM'}}}}
---
kind: Gateway
metadata: {{namespace: shop, name: web, generation: 3}}
spec:
  gatewayClassName: limpet
  listeners:
{listeners}"
    ))
}

fn report(reports: &Reports) -> &GatewayReport {
    &reports.gateways[&ObjectName::new("shop", "web")]
}

fn ports(graph: &Graph) -> Vec<u16> {
    graph.gateways[&ObjectName::new("shop", "web")]
        .ports
        .keys()
        .copied()
        .collect()
}

#[test]
fn classes_of_others_and_their_gateways_are_left_alone() {
    let (graph, reports) = built(
        "
kind: GatewayClass
metadata: {name: other}
spec: {controllerName: example.com/other}
---
kind: Gateway
metadata: {namespace: shop, name: theirs}
spec: {gatewayClassName: other, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Gateway
metadata: {namespace: shop, name: nobodys}
spec: {gatewayClassName: missing, listeners: [{name: http, port: 80, protocol: HTTP}]}",
    );
    assert_eq!(reports.gateway_classes.keys().collect::<Vec<_>>(), ["limpet"]);
    assert!(reports.gateways.is_empty() && graph.gateways.is_empty(), "{reports:?}");
}

#[test]
fn a_class_with_invalid_parameters_keeps_its_gateways() {
    let (graph, reports) = built(
        "
kind: GatewayClass
metadata: {name: special, generation: 2}
spec: {controllerName: limpet.dev/controller, parametersRef: {group: '', kind: ConfigMap, name: x}}
---
kind: Gateway
metadata: {namespace: shop, name: web}
spec: {gatewayClassName: special, listeners: [{name: http, port: 80, protocol: HTTP}]}",
    );
    let class = &reports.gateway_classes["special"];
    assert_eq!(class.observed_generation, 2);
    expect(
        &class.conditions[0],
        ConditionStatus::False,
        "InvalidParameters",
        &["spec.parametersRef"],
    );
    let name = ObjectName::new("shop", "web");
    let accepted = of_type(&reports.gateways[&name].conditions, "Accepted");
    let words = "GatewayClass special: spec.parametersRef";
    expect(accepted, ConditionStatus::False, "InvalidParameters", &[words]);
    assert!(graph.gateways.contains_key(&name), "a mistake ends what runs");
}

#[test]
fn http_and_https_serve() {
    let (graph, reports) = with_listeners(
        "
  - {name: http, port: 80, protocol: HTTP}
  - {name: https, port: 443, protocol: HTTPS, hostname: shop.example.com, tls: {certificateRefs: [{name: good}]}}",
    );
    assert_eq!(ports(&graph), [80, 443]);
    let report = report(&reports);
    assert_eq!(report.observed_generation, 3);
    expect(
        of_type(&report.conditions, "Accepted"),
        ConditionStatus::True,
        "Accepted",
        &[],
    );
    for listener in &report.listeners {
        expect(
            of_type(&listener.conditions, "Accepted"),
            ConditionStatus::True,
            "Accepted",
            &[],
        );
        expect(
            of_type(&listener.conditions, "ResolvedRefs"),
            ConditionStatus::True,
            "ResolvedRefs",
            &[],
        );
        expect(
            of_type(&listener.conditions, "Conflicted"),
            ConditionStatus::False,
            "NoConflicts",
            &[],
        );
        let kinds: Vec<&str> = listener.supported_kinds.iter().map(|kind| kind.kind.as_str()).collect();
        assert_eq!(kinds, ["GRPCRoute", "HTTPRoute"]);
    }
    assert_eq!(
        graph.certificates.keys().map(ToString::to_string).collect::<Vec<_>>(),
        ["shop/good"]
    );
}

#[test]
fn a_bad_listener_does_not_keep_others_from_serving() {
    let cases = [
        (
            "{name: bad, port: 9000, protocol: TCP}",
            "Accepted",
            "UnsupportedProtocol",
            "spec.listeners[1].protocol",
        ),
        (
            "{name: bad, port: 19000, protocol: HTTP}",
            "Accepted",
            "PortUnavailable",
            "spec.listeners[1].port: expected one that is not Envoy's own, like 19000 and 19001, found 19000",
        ),
        (
            "{name: bad, port: 19001, protocol: HTTPS, tls: {certificateRefs: [{name: good}]}}",
            "Accepted",
            "PortUnavailable",
            "spec.listeners[1].port",
        ),
        (
            "{name: bad, port: 443, protocol: HTTPS}",
            "Accepted",
            "Invalid",
            "spec.listeners[1].tls",
        ),
        (
            "{name: bad, port: 443, protocol: HTTPS, tls: {mode: Passthrough}}",
            "Accepted",
            "Invalid",
            "spec.listeners[1].tls.mode",
        ),
        (
            "{name: bad, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: good}], frontendValidation: \
             {caCertificateRefs: []}}}",
            "Accepted",
            "Invalid",
            "spec.listeners[1].tls.frontendValidation: client certificates (validation of the frontend) are not \
             supported",
        ),
        (
            "{name: bad, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: missing}]}}",
            "ResolvedRefs",
            "InvalidCertificateRef",
            "spec.listeners[1].tls.certificateRefs[0]",
        ),
        (
            "{name: bad, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: broken}]}}",
            "ResolvedRefs",
            "InvalidCertificateRef",
            "tls.key: expected a private key in PEM",
        ),
        (
            "{name: bad, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: good, kind: ConfigMap}]}}",
            "ResolvedRefs",
            "InvalidCertificateRef",
            "expected a Secret, found ConfigMap",
        ),
        (
            "{name: bad, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: good, namespace: certs}]}}",
            "ResolvedRefs",
            "RefNotPermitted",
            "expected a ReferenceGrant in certs",
        ),
        (
            "{name: bad, port: 81, protocol: HTTP, allowedRoutes: {kinds: [{kind: TCPRoute}, {kind: HTTPRoute}]}}",
            "ResolvedRefs",
            "InvalidRouteKinds",
            "found TCPRoute",
        ),
    ];
    for (listener, kind, reason, word) in cases {
        let (graph, reports) = with_listeners(&format!("  - {{name: http, port: 80, protocol: HTTP}}\n  - {listener}"));
        assert_eq!(ports(&graph), [80], "{listener}");
        let report = report(&reports);
        expect(
            of_type(&report.listeners[1].conditions, kind),
            ConditionStatus::False,
            reason,
            &[word],
        );
        expect(
            of_type(&report.conditions, "Accepted"),
            ConditionStatus::True,
            "ListenersNotValid",
            &["bad"],
        );
    }
}

#[test]
fn routes_of_a_listener_that_does_not_serve_are_told() {
    let (_, reports) = built(
        "
kind: Gateway
metadata: {namespace: shop, name: web}
spec:
  gatewayClassName: limpet
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: missing}]}}
  - {name: tcp, port: 9000, protocol: TCP}
---
kind: HTTPRoute
metadata: {namespace: shop, name: shop}
spec: {parentRefs: [{name: web, sectionName: https}, {name: web, sectionName: tcp}, {name: web}]}",
    );
    let parents = &reports.http_routes[&ObjectName::new("shop", "shop")].parents;
    let accepted = |parent: usize| of_type(&parents[parent].conditions, "Accepted");
    expect(
        accepted(0),
        ConditionStatus::True,
        "Accepted",
        &["shop/web", "do not serve"],
    );
    expect(accepted(1), ConditionStatus::False, "NotAllowedByListeners", &[]);
    expect(accepted(2), ConditionStatus::True, "Accepted", &["The route is served"]);
    let listeners = &report(&reports).listeners;
    let attached: Vec<i32> = listeners.iter().map(|listener| listener.attached_routes).collect();
    assert_eq!(attached, [1, 1, 0]);
    assert!(listeners[2].supported_kinds.is_empty(), "no route fits TCP");
}

#[test]
fn a_group_that_does_not_exist_is_named() {
    let (_, reports) = with_listeners(
        "
  - {name: a, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{group: core, kind: HTTPRoute}]}}
  - {name: b, port: 81, protocol: HTTPS, tls: {certificateRefs: [{group: core, name: good}]}}",
    );
    let listeners = &report(&reports).listeners;
    for (listener, reason) in listeners.iter().zip(["InvalidRouteKinds", "InvalidCertificateRef"]) {
        let resolved = of_type(&listener.conditions, "ResolvedRefs");
        expect(resolved, ConditionStatus::False, reason, &["of group \"core\""]);
    }
}

#[test]
fn without_a_valid_listener_a_gateway_is_not_accepted() {
    let (_, reports) = with_listeners("  - {name: tcp, port: 9000, protocol: TCP}");
    expect(
        of_type(&report(&reports).conditions, "Accepted"),
        ConditionStatus::False,
        "ListenersNotValid",
        &["tcp"],
    );
    let (graph, reports) = with_listeners("    []");
    assert!(ports(&graph).is_empty());
    expect(
        of_type(&report(&reports).conditions, "Accepted"),
        ConditionStatus::False,
        "ListenersNotValid",
        &["spec.listeners: expected at least one listener"],
    );
}

#[test]
fn a_grant_lets_a_certificate_be_used_from_another_namespace() {
    let grant = |from: &str, to: &str| {
        let (graph, _) = with_listeners(&format!(
            "
  - {{name: https, port: 443, protocol: HTTPS, tls: {{certificateRefs: [{{name: good, namespace: certs}}]}}}}
---
kind: ReferenceGrant
metadata: {{namespace: certs, name: grant}}
spec:
  from: [{{group: gateway.networking.k8s.io, kind: Gateway, namespace: {from}}}]
  to: [{{group: '', kind: Secret{to}}}]"
        ));
        ports(&graph) == [443]
    };
    assert!(grant("shop", "") && grant("shop", ", name: good"));
    assert!(!grant("other", "") && !grant("shop", ", name: other"));
}

#[test]
fn listeners_that_are_not_distinct_do_not_serve() {
    let (graph, reports) = with_listeners(
        "
  - {name: a, port: 80, protocol: HTTP, hostname: shop.example.com}
  - {name: b, port: 80, protocol: HTTP, hostname: shop.example.com}
  - {name: c, port: 80, protocol: HTTP, hostname: '*.example.com'}
  - {name: d, port: 81, protocol: HTTP}
  - {name: e, port: 81, protocol: HTTPS, hostname: x.example.com, tls: {certificateRefs: [{name: good}]}}",
    );
    assert_eq!(ports(&graph), [80]);
    let reasons: Vec<&str> = report(&reports)
        .listeners
        .iter()
        .map(|listener| of_type(&listener.conditions, "Conflicted").reason)
        .collect();
    assert_eq!(
        reasons,
        [
            "HostnameConflict",
            "HostnameConflict",
            "NoConflicts",
            "ProtocolConflict",
            "ProtocolConflict"
        ]
    );
}

#[test]
fn tls_settings_of_the_whole_gateway_are_never_ignored() {
    for (tls, said) in [
        (
            "frontend: {default: {validation: {caCertificateRefs: []}}}",
            "spec.tls.frontend: client certificates (validation of the frontend) are not supported",
        ),
        (
            "backend: {clientCertificateRef: {name: a}}",
            "spec.tls.backend: a client certificate for backends is not supported",
        ),
    ] {
        let (graph, reports) = built(&format!(
            "
kind: Gateway
metadata: {{namespace: shop, name: web}}
spec:
  gatewayClassName: limpet
  tls: {{{tls}}}
  listeners: [{{name: http, port: 80, protocol: HTTP}}]"
        ));
        assert!(graph.gateways.is_empty(), "{graph:?}");
        let accepted = of_type(&report(&reports).conditions, "Accepted");
        expect(accepted, ConditionStatus::False, "Invalid", &[said]);
    }
}

#[test]
fn a_route_may_attach_to_one_port() {
    let (graph, reports) = built(
        "
kind: Gateway
metadata: {namespace: shop, name: web}
spec:
  gatewayClassName: limpet
  listeners: [{name: a, port: 8080, protocol: HTTP}, {name: b, port: 8443, protocol: HTTP}]
---
kind: HTTPRoute
metadata: {namespace: shop, name: shop}
spec: {parentRefs: [{name: web, port: 8443}], rules: [{filters: [{type: RequestRedirect, requestRedirect: {}}]}]}",
    );
    let routes = |port: u16| {
        web(&graph).ports[&port][0].virtual_hosts[&limpet_model::graph::Hostname::Any]
            .routes
            .len()
    };
    assert_eq!((routes(8080), routes(8443)), (0, 1));
    let attached: Vec<i32> = report(&reports)
        .listeners
        .iter()
        .map(|listener| listener.attached_routes)
        .collect();
    assert_eq!(attached, [0, 1]);
}

#[test]
fn fields_without_effect_are_named() {
    let (graph, reports) = built(
        "
kind: Gateway
metadata: {namespace: shop, name: web}
spec:
  gatewayClassName: limpet
  infrastructure: {labels: {a: b}}
  allowedListeners: {namespaces: {from: All}}
  listeners: [{name: http, port: 80, protocol: HTTP}]",
    );
    assert_eq!(ports(&graph), [80]);
    expect(
        of_type(&report(&reports).conditions, "Accepted"),
        ConditionStatus::True,
        "Accepted",
        &[
            "ignored: spec.",
            "spec.infrastructure",
            "spec.allowedListeners (no ListenerSet is served)",
        ],
    );
}

#[test]
fn a_listener_serves_with_the_last_valid_certificate() {
    let manifests = format!(
        "{CLASS}
kind: Secret
metadata: {{namespace: shop, name: good}}
---
kind: Gateway
metadata: {{namespace: shop, name: web}}
spec:
  gatewayClassName: limpet
  listeners:
  - {{name: https, port: 443, protocol: HTTPS, tls: {{certificateRefs: [{{name: good}}]}}}}
  - name: kinds
    port: 444
    protocol: HTTPS
    tls: {{certificateRefs: [{{name: good}}]}}
    allowedRoutes: {{kinds: [{{kind: TCPRoute}}]}}"
    );
    let mut objects = objects::read_any(&manifests);
    let (before, _) = build(&objects, &Settings::default());
    let why = "no right".to_owned();
    objects.kept_certificates.insert(ObjectName::new("shop", "good"), why);
    let (graph, reports) = build(&objects, &Settings::default());
    assert_eq!(graph, before);
    assert_eq!(ports(&graph), [443]);
    let report = report(&reports);
    let words = [
        "spec.listeners[0].tls.certificateRefs[0]: Secret shop/good: no right; its last valid certificate stays in use",
    ];
    let resolved = of_type(&report.listeners[0].conditions, "ResolvedRefs");
    expect(resolved, ConditionStatus::False, "InvalidCertificateRef", &words);
    let kinds = of_type(&report.listeners[1].conditions, "ResolvedRefs");
    expect(kinds, ConditionStatus::False, "InvalidRouteKinds", &[]);
    let serve: Vec<bool> = report.listeners.iter().map(ListenerReport::serves).collect();
    assert_eq!(serve, [true, false]);
    let accepted = of_type(&report.conditions, "Accepted");
    expect(
        accepted,
        ConditionStatus::True,
        "ListenersNotValid",
        &["do not serve: kinds"],
    );
}
