//! Retries, mirrors and CORS.

use std::time::Duration;

use super::{SHOP, built, condition, expect, forward, routes, with_rules};
use limpet_api::ObjectName;
use limpet_model::Reports;
use limpet_model::graph::{Action, ClusterName, Cors, Graph, Mirror, Retry, ValueMatch};
use limpet_model::reports::ConditionStatus;

fn with_filters(filters: &str) -> (Graph, Reports) {
    with_rules(&format!(
        "  - {{filters: [{filters}], backendRefs: [{{name: v1, port: 80}}]}}"
    ))
}

fn refused(filters: &str, said: &str) {
    let (graph, reports) = with_filters(filters);
    assert!(
        matches!(routes(&graph)[0].action, Action::Respond { status: 500, .. }),
        "{filters}"
    );
    let accepted = condition(&reports, "Accepted");
    expect(accepted, ConditionStatus::False, "UnsupportedValue", &[said]);
}

#[test]
fn a_rule_has_its_mirrors_and_their_shares() {
    let mirror =
        |rest: &str| format!("{{type: RequestMirror, requestMirror: {{backendRef: {{name: v2, port: 80}}{rest}}}}}");
    let all = [
        mirror(""),
        mirror(", percent: 25"),
        mirror(", fraction: {numerator: 1}"),
        mirror(", fraction: {numerator: 1, denominator: 3}"),
        mirror(", percent: 0"),
    ];
    let (graph, reports) = with_filters(&all.join(", "));
    assert!(condition(&reports, "ResolvedRefs").is_true());
    let cluster = ClusterName("service/shop/v2/80".into());
    let expected = [1_000_000, 250_000, 10_000, 333_334, 0].map(|per_million| Mirror {
        cluster: cluster.clone(),
        per_million,
    });
    assert_eq!(forward(&routes(&graph)[0]).mirrors, expected);
    assert!(graph.clusters.contains_key(&cluster), "{:?}", graph.clusters);
}

#[test]
fn a_share_that_is_none_is_refused() {
    for (rest, said) in [
        (
            "percent: 101",
            "requestMirror.percent: expected a part of all requests, found 101 of 100",
        ),
        (
            "fraction: {numerator: 3, denominator: 2}",
            "requestMirror.fraction: expected a part",
        ),
        (
            "fraction: {numerator: 0, denominator: 0}",
            "requestMirror.fraction: expected a part",
        ),
        (
            "percent: 1, fraction: {numerator: 1}",
            "requestMirror: expected percent or fraction, found both",
        ),
    ] {
        refused(
            &format!("{{type: RequestMirror, requestMirror: {{backendRef: {{name: v2, port: 80}}, {rest}}}}}"),
            &format!("spec.rules[0].filters[0].{said}"),
        );
    }
}

#[test]
fn a_mirror_without_a_backend_is_left_out_and_named() {
    for (reference, reason, said) in [
        (
            "{name: missing, port: 80}",
            "BackendNotFound",
            "requestMirror.backendRef.name: expected Service shop/missing",
        ),
        (
            "{name: v2, port: 81}",
            "BackendNotFound",
            "requestMirror.backendRef.port: expected a TCP port",
        ),
        (
            "{name: v2, group: gateway.networking.x-k8s.io, kind: XBackend}",
            "InvalidKind",
            "requestMirror.backendRef.kind: expected a Service, found XBackend",
        ),
        (
            "{name: v2, kind: ConfigMap}",
            "InvalidKind",
            "requestMirror.backendRef.kind: expected a Service",
        ),
        (
            "{name: v2, namespace: pay, port: 80}",
            "RefNotPermitted",
            "requestMirror.backendRef: expected a ReferenceGrant in pay",
        ),
    ] {
        let filter = format!("{{type: RequestMirror, requestMirror: {{backendRef: {reference}}}}}");
        let (graph, reports) = with_filters(&filter);
        assert_eq!(forward(&routes(&graph)[0]).mirrors, [], "{reference}");
        let said = format!("spec.rules[0].filters[0].{said}");
        expect(
            condition(&reports, "ResolvedRefs"),
            ConditionStatus::False,
            reason,
            &[&said],
        );
        expect(condition(&reports, "Accepted"), ConditionStatus::True, "Accepted", &[]);
    }
}

#[test]
fn a_grant_permits_a_mirror_in_another_namespace() {
    let (graph, reports) = built(&format!(
        "{SHOP}
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec:
  parentRefs: [{{name: web}}]
  rules:
  - backendRefs: [{{name: v1, port: 80}}]
    filters: [{{type: RequestMirror, requestMirror: {{backendRef: {{name: audit, namespace: pay, port: 80}}}}}}]
---
kind: Service
metadata: {{namespace: pay, name: audit}}
spec: {{ports: [{{port: 80}}]}}
---
kind: ReferenceGrant
metadata: {{namespace: pay, name: audit}}
spec:
  from: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: shop}}]
  to: [{{group: '', kind: Service}}]
"
    ));
    assert!(condition(&reports, "ResolvedRefs").is_true());
    let mirrors = &forward(&routes(&graph)[0]).mirrors;
    assert_eq!(mirrors[0].cluster.0, "service/pay/audit/80");
}

#[test]
fn a_policy_for_tls_counts_for_mirrors() {
    let (graph, reports) = built(&format!(
        "{SHOP}
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec:
  parentRefs: [{{name: web}}]
  rules:
  - backendRefs: [{{name: v1, port: 80}}]
    filters: [{{type: RequestMirror, requestMirror: {{backendRef: {{name: v2, port: 80}}}}}}]
---
kind: BackendTLSPolicy
metadata: {{namespace: shop, name: tls}}
spec:
  targetRefs: [{{group: '', kind: Service, name: v2}}]
  validation: {{hostname: v2.example, caCertificateRefs: [{{group: '', kind: ConfigMap, name: ca}}]}}
---
kind: ConfigMap
metadata: {{namespace: shop, name: ca}}
data: {{ca.crt: one}}
"
    ));
    let cluster = &forward(&routes(&graph)[0]).mirrors[0].cluster;
    assert!(graph.clusters[cluster].tls.is_some(), "{:?}", graph.clusters);
    let policy = &reports.backend_tls_policies[&ObjectName::new("shop", "tls")];
    assert_eq!(policy.ancestors.len(), 1, "{policy:?}");
}

#[test]
fn origins_are_matched_as_browsers_send_them() {
    let exact = |text: &str| ValueMatch::Exact(text.to_owned());
    let regex = |text: &str| ValueMatch::Regex(text.to_owned());
    for (origin, expected) in [
        ("'*'", exact("*")),
        ("https://Shop.example", exact("https://shop.example")),
        ("https://shop.example:443", exact("https://shop.example")),
        ("http://shop.example:443", exact("http://shop.example:443")),
        ("http://10.0.0.1:8080", exact("http://10.0.0.1:8080")),
        ("https://*.shop.example", regex(r"https://[^/:]+\.shop\.example")),
        ("https://*:8443", regex("https://[^/:]+:8443")),
        ("http://*", regex("http://[^/:]+")),
    ] {
        let (graph, _) = with_filters(&format!(
            "{{type: CORS, cors: {{allowOrigins: [\"{}\"]}}}}",
            origin.trim_matches('\'')
        ));
        let cors = routes(&graph)[0].cors.as_ref().expect("a policy");
        assert_eq!(cors.allow_origins, [expected], "{origin}");
    }
    for origin in [
        "shop.example",
        "ftp://shop.example",
        "https://",
        "https://a b",
        "https://a:0x1",
        "https://a/b",
        "https://a.*.b",
    ] {
        let said = "spec.rules[0].filters[0].cors.allowOrigins[0]: expected * or an origin";
        refused(&format!("{{type: CORS, cors: {{allowOrigins: [\"{origin}\"]}}}}"), said);
    }
}

#[test]
fn a_cors_filter_has_the_defaults_of_the_api() {
    let (graph, _) = with_filters("{type: CORS, cors: {}}");
    let expected = Cors {
        allow_origins: Vec::new(),
        allow_methods: Vec::new(),
        allow_headers: Vec::new(),
        expose_headers: Vec::new(),
        allow_credentials: false,
        max_age: 5,
    };
    assert_eq!(routes(&graph)[0].cors, Some(expected));
    let (graph, _) = with_filters(
        "{type: CORS, cors: {allowMethods: [GET, PUT], allowHeaders: [X-One], exposeHeaders: ['*'], maxAge: 60}}",
    );
    let cors = routes(&graph)[0].cors.as_ref().expect("a policy");
    assert_eq!((cors.allow_methods.join(","), cors.max_age), ("GET,PUT".to_owned(), 60));
    assert_eq!(
        (cors.allow_headers.join(","), cors.expose_headers.join(",")),
        ("x-one".to_owned(), "*".to_owned())
    );
}

#[test]
fn a_cors_filter_that_cannot_be_followed_is_refused() {
    for (cors, said) in [
        ("allowMethods: ['*', GET]", "allowMethods: expected only *"),
        ("allowMethods: ['G T']", "allowMethods[0]: expected a method"),
        ("allowHeaders: ['']", "allowHeaders[0]: expected a header's name"),
        (
            "exposeHeaders: ['*'], allowCredentials: true",
            "exposeHeaders: expected names",
        ),
    ] {
        let said = format!("spec.rules[0].filters[0].cors.{said}");
        refused(&format!("{{type: CORS, cors: {{{cors}}}}}"), &said);
    }
    let twice = "{type: CORS, cors: {}}, {type: CORS, cors: {}}";
    refused(twice, "spec.rules[0].filters[1]: expected one filter of each type");
    refused("{type: CORS}", "spec.rules[0].filters[0].cors: expected this field");
}

#[test]
fn neither_stands_beside_a_redirect() {
    let redirect = "{type: RequestRedirect, requestRedirect: {}}";
    let mirror = "{type: RequestMirror, requestMirror: {backendRef: {name: v2, port: 80}}}";
    for other in ["{type: CORS, cors: {}}", mirror] {
        let said = "spec.rules[0].filters: expected neither a CORS filter nor a RequestMirror";
        refused(&format!("{redirect}, {other}"), said);
    }
}

#[test]
fn retries_are_what_the_rule_asks_for() {
    let retry = |text: &str| {
        let (graph, reports) = with_rules(&format!("  - {{backendRefs: [{{name: v1, port: 80}}]{text}}}"));
        assert!(condition(&reports, "Accepted").is_true(), "{text}");
        forward(&routes(&graph)[0]).retry.clone()
    };
    assert_eq!(retry(""), None);
    let once = Retry {
        server_errors: false,
        attempts: 1,
        codes: Vec::new(),
        backoff: None,
    };
    assert_eq!(retry(", retry: {}"), Some(once.clone()));
    let never = Retry {
        attempts: 0,
        ..once.clone()
    };
    assert_eq!(retry(", retry: {attempts: 0}"), Some(never));
    let full = Retry {
        server_errors: false,
        attempts: 3,
        codes: vec![500, 503],
        backoff: Some(Duration::from_millis(250)),
    };
    assert_eq!(
        retry(", retry: {attempts: 3, codes: [503, 500, 503], backoff: 250ms}"),
        Some(full)
    );
}

#[test]
fn a_retry_that_cannot_be_followed_is_refused() {
    for (retry, said) in [
        (
            "{codes: [500, 399]}",
            "spec.rules[0].retry.codes[1]: expected 400 to 599, found 399",
        ),
        (
            "{codes: [600]}",
            "spec.rules[0].retry.codes[0]: expected 400 to 599, found 600",
        ),
        ("{backoff: soon}", "spec.rules[0].retry.backoff: expected"),
        (
            "{backoff: 0s}",
            "spec.rules[0].retry.backoff: expected at least 1ms, found 0",
        ),
    ] {
        let (graph, reports) = with_rules(&format!(
            "  - {{backendRefs: [{{name: v1, port: 80}}], retry: {retry}}}"
        ));
        assert!(matches!(routes(&graph)[0].action, Action::Respond { status: 500, .. }));
        expect(
            condition(&reports, "Accepted"),
            ConditionStatus::False,
            "UnsupportedValue",
            &[said],
        );
    }
}
