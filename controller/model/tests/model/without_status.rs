//! What a status has no place for is reported elsewhere.

use std::collections::BTreeMap;

use super::{CLASS, SHOP, built, objects};
use limpet_api::ObjectName;
use limpet_model::reports::{Condition, ConditionStatus};
use limpet_model::{Reports, Settings, build};

/// With Limpet's class, a Gateway, Services and a route to `v1`.
fn with(manifests: &str) -> Reports {
    let route = "
kind: HTTPRoute
metadata: {namespace: shop, name: shop}
spec: {parentRefs: [{name: web}], rules: [{backendRefs: [{name: v1, port: 80}]}]}
---
";
    built(&format!("{SHOP}{route}{manifests}")).1
}

fn policy(target: &str, session: &str) -> String {
    format!(
        "
kind: BackendLBPolicy
apiVersion: gateway.networking.k8s.io/v1alpha2
metadata: {{namespace: shop, name: p}}
spec: {{targetRefs: [{{{target}}}], sessionPersistence: {{{session}}}}}
---
"
    )
}

fn words(condition: &Condition) -> String {
    let holds = condition.status == ConditionStatus::True;
    let Condition {
        kind, reason, message, ..
    } = condition;
    format!("{kind}={holds}/{reason}: {message}")
}

fn status(reports: &Reports) -> Vec<String> {
    let report = reports.session_policies.values().next().expect("a report");
    assert_eq!(report.ancestors.len(), 1, "{reports:?}");
    let mut others = reports.without_status.values();
    assert!(
        others.all(|condition| condition.reason == "PolicyRefused"),
        "{reports:?}"
    );
    report.ancestors[0].conditions.iter().map(words).collect()
}

fn told(reports: &Reports) -> BTreeMap<String, String> {
    let objects = reports.without_status.iter();
    objects
        .map(|(object, condition)| (object.to_string(), words(condition)))
        .collect()
}

fn told_of<const N: usize>(all: [(&str, &str); N]) -> BTreeMap<String, String> {
    all.map(|(object, words)| (object.to_owned(), words.to_owned())).into()
}

#[test]
fn a_wrong_target_is_told_where_a_rule_names_it() {
    let refs = "{group: multicluster.x-k8s.io, kind: ServiceImport, name: far}, {name: v1, port: 80}";
    let route = format!(
        "
kind: HTTPRoute
metadata: {{namespace: shop, name: more}}
spec: {{parentRefs: [{{name: web}}], rules: [{{backendRefs: [{refs}]}}]}}
---
kind: XBackend
metadata: {{namespace: shop, name: out}}
spec: {{type: ExternalHostname}}
---
kind: HTTPRoute
metadata: {{namespace: shop, name: out}}
spec:
  parentRefs: [{{name: web}}]
  rules: [{{backendRefs: [{{group: gateway.networking.x-k8s.io, kind: XBackend, name: out}}]}}]
---
"
    );
    for (target, message) in [
        (
            "group: core, kind: Service, name: v1",
            "group: expected \"\", the group of Service, found \"core\"",
        ),
        (
            "group: multicluster.x-k8s.io, kind: ServiceImport, name: far",
            "group: expected \"\", the group of Service, found \"multicluster.x-k8s.io\"",
        ),
        (
            "group: gateway.networking.x-k8s.io, kind: XBackend, name: out",
            "kind: expected Service: an XBackend has sessionPersistence of its own",
        ),
        (
            "group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop",
            "group: expected \"\", the group of Service, found \"gateway.networking.k8s.io\"",
        ),
        (
            "group: gateway.networking.k8s.io, kind: Gateway, name: web",
            "group: expected \"\", the group of Service, found \"gateway.networking.k8s.io\"",
        ),
    ] {
        let reports = with(&format!("{route}{}", policy(target, "sessionName: s")));
        let expected = format!("Accepted=false/Invalid: spec.targetRefs[0].{message}");
        assert_eq!(status(&reports), [expected], "{target}");
    }
}

#[test]
fn a_target_that_rules_name_wrongly_is_told() {
    let route = |reference: &str| {
        format!(
            "
kind: Service
metadata: {{namespace: shop, name: out}}
spec: {{type: ExternalName, externalName: out.example, ports: [{{port: 80}}]}}
---
kind: HTTPRoute
metadata: {{namespace: shop, name: more}}
spec: {{parentRefs: [{{name: web}}], rules: [{{backendRefs: [{{{reference}}}]}}]}}
---
"
        )
    };
    let of = |reference: &str, target: &str| {
        let target = format!("group: '', kind: Service, name: {target}");
        status(&with(&format!(
            "{}{}",
            route(reference),
            policy(&target, "sessionName: s")
        )))
    };
    assert_eq!(
        of("name: v2, port: 81", "v2"),
        [
            "Accepted=true/Accepted: The policy is accepted",
            "Programmed=false/Invalid: no rule of this Gateway has a target as a valid backend; the status says why, \
             of: HTTPRoute shop/more",
        ]
    );
    assert_eq!(
        of("name: out, port: 80", "out"),
        [
            "Accepted=false/TargetNotFound: spec.targetRefs[0].name: expected a Service with endpoints, found shop/out \
             of type ExternalName"
        ]
    );
}

#[test]
fn a_policy_that_no_route_reaches_is_told_as_an_event() {
    let of = |target: &str, session: &str| told(&with(&policy(target, session)));
    let expect = |words: &str| told_of([("BackendLBPolicy shop/p", words)]);
    assert_eq!(
        of("group: '', kind: Pod, name: v1", "sessionName: s"),
        expect("Accepted=false/Invalid: spec.targetRefs[0].kind: expected Service, found \"Pod\"")
    );
    assert_eq!(
        of("group: '', kind: Service, name: v2", "type: Query"),
        expect("Accepted=false/Invalid: spec.sessionPersistence.type: expected Cookie or Header, found \"Query\"")
    );
    assert_eq!(
        of("group: '', kind: Service, name: v3", "sessionName: s"),
        expect("Accepted=false/TargetNotFound: spec.targetRefs[0].name: expected an existing Service, found shop/v3")
    );
    assert_eq!(
        of("group: '', kind: Service, name: v2", "sessionName: s"),
        expect("Programmed=false/NoRoute: no route that can have sessions leads to: Service shop/v2")
    );
    assert_eq!(of("group: '', kind: Service, name: v1", "sessionName: s"), told_of([]));
}

#[test]
fn a_missing_target_is_told_though_the_others_have_sessions() {
    let targets = "group: '', kind: Service, name: v1}, {group: '', kind: Service, name: v3";
    let sessions = with(&policy(targets, "sessionName: s"));
    let words =
        "ResolvedRefs=false/TargetNotFound: spec.targetRefs[1].name: expected an existing Service, found shop/v3";
    assert_eq!(told(&sessions), told_of([("BackendLBPolicy shop/p", words)]));
    let report = sessions.session_policies.values().next().expect("a report");
    let said: Vec<String> = report.ancestors[0].conditions.iter().map(self::words).collect();
    assert!(said[0].starts_with("Accepted=true/Accepted: "), "{said:?}");
    let tls = with(&tls_policy(
        targets,
        "hostname: v1.internal, wellKnownCACertificates: System",
    ));
    let words =
        "ResolvedRefs=false/TargetNotFound: spec.targetRefs: expected targets that exist, found: Service shop/v3";
    assert_eq!(told(&tls), told_of([("BackendTLSPolicy shop/tls", words)]));
}

#[test]
fn a_missing_target_is_told_without_sessions_too() {
    let of = |target: &str| {
        let target = format!("group: '', kind: Service, name: {target}");
        told(&with(&policy(&target, "").replace(", sessionPersistence: {}", "")))
    };
    let words = "Accepted=false/TargetNotFound: spec.targetRefs[0].name: expected an existing Service, found shop/v3";
    assert_eq!(of("v3"), told_of([("BackendLBPolicy shop/p", words)]));
    assert_eq!(of("v2"), told_of([]));
}

#[test]
fn a_policy_without_sessions_is_left_alone() {
    let policy = "
kind: XBackendTrafficPolicy
apiVersion: gateway.networking.x-k8s.io/v1alpha1
metadata: {namespace: shop, name: p}
spec: {targetRefs: [{group: '', kind: Service, name: v2}], retryConstraint: {budget: {percent: 20}}}
";
    assert_eq!(told(&with(policy)), told_of([]));
}

#[test]
fn a_policy_that_only_routes_of_others_reach_is_theirs() {
    let other = "
kind: GatewayClass
metadata: {name: other}
spec: {controllerName: example.com/other}
---
kind: Gateway
metadata: {namespace: shop, name: other}
spec: {gatewayClassName: other, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: HTTPRoute
metadata: {namespace: shop, name: other}
spec: {parentRefs: [{name: other}], rules: [{backendRefs: [{name: v2, port: 80}]}]}
---
";
    for session in ["sessionName: s", "type: Query"] {
        let policy = policy("group: '', kind: Service, name: v2", session);
        assert_eq!(told(&with(&format!("{other}{policy}"))), told_of([]));
    }
    let tls = tls_policy(
        "group: '', kind: Service, name: v2",
        "hostname: v2.internal, wellKnownCACertificates: System",
    );
    assert_eq!(told(&with(&format!("{other}{tls}"))), told_of([]));
    let of_evil = other
        .replace("namespace: shop, name: other", "namespace: evil, name: other")
        .replace("{name: v2,", "{name: v2, namespace: shop,");
    for policy in [policy("group: '', kind: Service, name: v2", "sessionName: s"), tls] {
        let told = told(&with(&format!("{of_evil}{policy}")));
        assert_eq!(told.len(), 1, "no Event for a policy that no route reaches: {told:?}");
    }
}

fn tls_policy(target: &str, validation: &str) -> String {
    format!(
        "
kind: BackendTLSPolicy
apiVersion: gateway.networking.k8s.io/v1
metadata: {{namespace: shop, name: tls}}
spec: {{targetRefs: [{{{target}}}], validation: {{{validation}}}}}
---
"
    )
}

#[test]
fn a_tls_policy_that_no_route_reaches_is_told() {
    let valid = "hostname: v2.internal, wellKnownCACertificates: System";
    for (target, validation, words) in [
        (
            "group: '', kind: Service, name: v2",
            valid,
            "Programmed=false/NoRoute: no route of a Gateway leads to: Service shop/v2",
        ),
        (
            "group: '', kind: Service, name: v3",
            valid,
            "Accepted=false/TargetNotFound: spec.targetRefs: expected targets that exist, found: Service shop/v3",
        ),
        (
            "group: '', kind: Pod, name: v1",
            valid,
            "Accepted=false/TargetNotFound: spec.targetRefs[0].kind: expected Service or XBackend",
        ),
        (
            "group: '', kind: Service, name: v2",
            "hostname: v2.internal",
            "Accepted=false/Invalid: spec.validation.caCertificateRefs: expected a ConfigMap, or \
             wellKnownCACertificates",
        ),
    ] {
        let reports = with(&tls_policy(target, validation));
        assert_eq!(told(&reports), told_of([("BackendTLSPolicy shop/tls", words)]));
    }
    let reached = with(&tls_policy("group: '', kind: Service, name: v1", valid));
    assert_eq!(told(&reached), told_of([]));
}

#[test]
fn an_invalid_x_backend_that_no_route_reaches_is_told() {
    let reports = with(
        "
kind: XBackend
metadata: {namespace: shop, name: blue}
spec: {type: EndpointSelector, port: {number: 80}, sessionPersistence: {type: Header}}
---
kind: XBackend
metadata: {namespace: shop, name: green}
spec: {type: EndpointSelector, port: {number: 80}, sessionPersistence: {cookie: {}}}
",
    );
    let words = "Accepted=false/Invalid: spec.sessionPersistence.header: expected the header's name, because the type \
                 is Header";
    assert_eq!(told(&reports), told_of([("XBackend shop/blue", words)]));
}

#[test]
fn what_names_a_gateway_or_class_that_is_missing_is_told() {
    let reports = with(
        "
kind: HTTPRoute
metadata: {namespace: shop, name: lost}
spec: {parentRefs: [{name: web}, {name: wbe}], rules: [{backendRefs: [{name: v1, port: 80}]}]}
---
kind: GRPCRoute
metadata: {namespace: shop, name: lost}
spec: {parentRefs: [{namespace: infra, name: web}], rules: []}
---
kind: HTTPRoute
metadata: {namespace: shop, name: nowhere}
spec: {rules: []}
---
kind: HTTPRoute
metadata: {namespace: shop, name: default}
spec: {useDefaultGateways: All, rules: []}
---
kind: HTTPRoute
metadata: {namespace: shop, name: mesh}
spec: {parentRefs: [{group: '', kind: Service, name: gone}], rules: []}
---
kind: Gateway
metadata: {namespace: shop, name: classless}
spec: {gatewayClassName: lipmet, listeners: [{name: http, port: 80, protocol: HTTP}]}
",
    );
    let lost = |index: usize, gateway: &str| {
        format!(
            "Accepted=false/NoMatchingParent: spec.parentRefs[{index}].name: expected an existing Gateway, found \
             {gateway}"
        )
    };
    assert_eq!(
        told(&reports),
        told_of([
            (
                "Gateway shop/classless",
                "Accepted=false/Invalid: spec.gatewayClassName: expected an existing GatewayClass, found lipmet"
            ),
            ("GRPCRoute shop/lost", &lost(0, "infra/web")),
            ("HTTPRoute shop/lost", &lost(1, "shop/wbe")),
            (
                "HTTPRoute shop/nowhere",
                "Accepted=false/NoMatchingParent: spec.parentRefs: expected a Gateway, found none"
            ),
        ])
    );
}

#[test]
fn a_route_of_a_parent_that_is_not_served_is_told() {
    let route = "
kind: HTTPRoute
metadata: {namespace: shop, name: set}
spec: {parentRefs: [{kind: ListenerSet, name: set}], rules: []}
---
kind: GRPCRoute
metadata: {namespace: shop, name: set}
spec: {parentRefs: [{name: web}, {group: gateway.networking.x-k8s.io, kind: XListenerSet, name: set}], rules: []}
---
kind: HTTPRoute
metadata: {namespace: shop, name: mesh}
spec: {parentRefs: [{group: '', kind: Service, name: v1}, {group: mesh.example, kind: Host, name: a}], rules: []}
";
    let words = |index: usize, kind: &str| {
        format!(
            "Accepted=false/NoMatchingParent: spec.parentRefs[{index}].kind: expected Gateway: {kind} is not supported"
        )
    };
    let expected = told_of([
        ("GRPCRoute shop/set", &words(1, "XListenerSet")),
        ("HTTPRoute shop/set", &words(0, "ListenerSet")),
    ]);
    assert_eq!(told(&with(route)), expected);
    let others = "
---
kind: GatewayClass
metadata: {name: other}
spec: {controllerName: example.com/other}
---
kind: Gateway
metadata: {namespace: shop, name: other}
spec: {gatewayClassName: other, listeners: [{name: http, port: 80, protocol: HTTP}]}
";
    assert_eq!(told(&with(&format!("{route}{others}"))), told_of([]));
}

#[test]
fn a_grant_for_a_group_that_does_not_exist_is_told() {
    let reports = with(
        "
kind: ReferenceGrant
metadata: {namespace: shop, name: grant}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: other}]
  to: [{group: '', kind: Service}, {group: core, kind: Secret}]
",
    );
    let words = "Accepted=false/Invalid: spec.to[1].group: expected \"\" for the core group, found \"core\"";
    assert_eq!(told(&reports), told_of([("ReferenceGrant shop/grant", words)]));
}

#[test]
fn a_gateway_in_a_namespace_that_is_not_read_may_exist() {
    let manifests = "
kind: HTTPRoute
metadata: {namespace: shop, name: lost}
spec: {parentRefs: [{namespace: infra, name: web}, {name: wbe}], rules: []}
";
    let settings = limpet_model::Settings {
        namespaces: ["shop".to_owned()].into(),
        ..limpet_model::Settings::default()
    };
    let objects = super::objects::read(manifests);
    let (_, reports) = limpet_model::build(&objects, &settings);
    let words =
        "Accepted=false/NoMatchingParent: spec.parentRefs[1].name: expected an existing Gateway, found shop/wbe";
    assert_eq!(told(&reports), told_of([("HTTPRoute shop/lost", words)]));
}

#[test]
fn an_annotation_that_nobody_reads_is_told() {
    let gateway = SHOP.replace(
        "metadata: {namespace: shop, name: web}",
        "metadata:
  {namespace: shop, name: web, annotations: {limpet.dev/servce: web, session.limpet.dev/strict: 'true'}}",
    );
    assert_ne!(gateway, SHOP);
    let route = "
kind: HTTPRoute
metadata: {namespace: shop, name: shop, annotations: {limpet.dev/strict: 'true'}}
spec: {parentRefs: [{name: web}], rules: [{backendRefs: [{name: v1, port: 80}]}]}
";
    let words = |name: &str, expected: &str| {
        format!("metadata.annotations[{name}]: expected no annotation of this name, but {expected}; it has no effect")
    };
    let of_gateway = ["limpet.dev/servce", "session.limpet.dev/strict"].map(|name| words(name, "limpet.dev/service"));
    let of_gateway = format!("Accepted=false/Invalid: {}", of_gateway.join("; "));
    let of_route = words("limpet.dev/strict", "session.limpet.dev/*");
    let of_route = format!("Accepted=false/Invalid: {of_route}");
    let (_, reports) = built(&format!("{gateway}{route}"));
    assert_eq!(
        told(&reports),
        told_of([("Gateway shop/web", &of_gateway), ("HTTPRoute shop/shop", &of_route)])
    );
}

fn with_contour(gateway: &str) -> Settings {
    let contour = serde_json::json!({"gateway": gateway});
    Settings {
        contour: Some(serde_json::from_value(contour).expect("settings")),
        ..Settings::default()
    }
}

const ROOT: &str = "
kind: IngressRoute
metadata:
  {namespace: shop, name: root, annotations: {limpet.dev/strict: 'true', session.limpet.dev/strict: 'true'}}
spec:
  virtualhost: {fqdn: shop.example}
  routes: [{match: /, services: [{name: v1, port: 80}]}]
---
kind: IngressRoute
metadata:
  namespace: shop
  name: foreign
  annotations: {kubernetes.io/ingress.class: other, limpet.dev/strict: 'true'}
spec: {}
";

#[test]
fn an_annotation_that_nobody_reads_of_an_ingress_route_is_told() {
    let objects = objects::read(&format!("{CLASS}{SHOP}{ROOT}"));
    let (_, reports) = build(&objects, &with_contour("shop/contour"));
    let words = "Accepted=false/Invalid: metadata.annotations[limpet.dev/strict]: expected no annotation of this name, \
                 but session.limpet.dev/*; it has no effect";
    assert_eq!(told(&reports), told_of([("IngressRoute shop/root", words)]));
    let (_, reports) = build(&objects, &Settings::default());
    assert_eq!(told(&reports), told_of([]));
}

#[test]
fn a_gateway_with_the_name_of_contours_is_served_instead_of_it() {
    let objects = objects::read(&format!("{CLASS}{SHOP}{ROOT}"));
    let (graph, reports) = build(&objects, &with_contour("shop/web"));
    let without_contour = build(&objects, &Settings::default());
    assert_eq!(graph, without_contour.0);
    assert_eq!(reports.gateways, without_contour.1.gateways);
    assert!(reports.ingress_routes.is_empty());
    let words = "Accepted=false/Invalid: contour.gateway of the controller's configuration: expected a name that no \
                 Gateway has, found this Gateway's name; it is served, and no IngressRoute is";
    assert_eq!(told(&reports)["Gateway shop/web"], words);
    let foreign = CLASS.replace("limpet.dev/controller", "example.com/other");
    let objects = objects::read(&format!("{foreign}{SHOP}{ROOT}"));
    let (graph, reports) = build(&objects, &with_contour("shop/web"));
    assert!(graph.gateways.contains_key(&ObjectName::new("shop", "web")));
    assert!(!reports.ingress_routes.is_empty());
    assert!(!told(&reports).contains_key("Gateway shop/web"));
}

#[test]
fn a_route_that_a_refused_policy_leaves_without_sessions_says_so() {
    let refused = policy("group: '', kind: Service, name: v1", "type: Cookies");
    let reports = with(&refused);
    let words = "Programmed=false/PolicyRefused: BackendLBPolicy shop/p is refused, and its status says why, so it \
                 gives no sessions to: spec.rules[0]";
    assert_eq!(told(&reports), told_of([("HTTPRoute shop/shop", words)]));
    let valid = policy("group: '', kind: Service, name: v1", "sessionName: s").replace("name: p}", "name: q}");
    assert_eq!(told(&with(&format!("{refused}{valid}"))), told_of([]));
    let route = "
kind: HTTPRoute
metadata: {namespace: shop, name: own}
spec:
  parentRefs: [{name: web}]
  rules: [{backendRefs: [{name: v2, port: 80}], sessionPersistence: {sessionName: s}}]
---
";
    let other = refused.replace("name: v1", "name: v2");
    assert_eq!(told(&with(&format!("{route}{other}"))), told_of([]));
}
