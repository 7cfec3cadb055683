//! `BackendTLSPolicy`.

use limpet_api::ObjectName;
use limpet_model::graph::{Action, BackendTls, Graph, Protocol, SubjectAltName, Target, TrustedAuthorities};
use limpet_model::reports::{Condition, ConditionStatus};
use limpet_model::{Authorities, GatewayOwner, Reports, Settings, build};

use super::{CLASS, SHOP, condition, expect, forward, objects, of_type, routes};

const AUTHORITIES: &str = "
kind: ConfigMap
metadata: {namespace: shop, name: ca}
data: {ca.crt: one}
---
kind: ConfigMap
metadata: {namespace: shop, name: other}
data: {ca.crt: two}
---
kind: ConfigMap
metadata: {namespace: shop, name: empty}
---
kind: HTTPRoute
metadata: {namespace: shop, name: shop}
spec:
  parentRefs: [{name: web}]
  rules: [{backendRefs: [{name: v1, port: 80}]}]
---
";

const VALID: &str = "{hostname: v1.internal, caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}";

fn policy(name: &str, created: u8, target: &str, validation: &str) -> String {
    format!(
        "
kind: BackendTLSPolicy
metadata: {{namespace: shop, name: {name}, creationTimestamp: '2026-01-01T00:00:{created:02}Z'}}
spec:
  targetRefs: [{{group: '', kind: Service, {target}}}]
  validation: {validation}
---
"
    )
}

fn built(manifests: &str) -> (Graph, Reports) {
    let all = format!("{CLASS}{SHOP}{AUTHORITIES}{manifests}");
    build(&objects::read_any(&all), &Settings::default())
}

/// TLS of the cluster of port 80 of the Service `v1`.
fn tls(graph: &Graph) -> Option<&BackendTls> {
    let mut clusters = graph.clusters.values();
    clusters.next().expect("a cluster").tls.as_ref()
}

fn certificates(graph: &Graph) -> &Authorities {
    match tls(graph).map(|tls| &tls.authorities) {
        Some(TrustedAuthorities::Certificates(authorities)) => authorities,
        other => panic!("{other:?}"),
    }
}

/// Requests are answered with 500, and the route's status has these words.
#[track_caller]
fn expect_refused(graph: &Graph, reports: &Reports, words: &str) {
    let action = &routes(graph)[0].action;
    assert!(matches!(action, Action::Respond { status: 500, .. }), "{action:?}");
    let resolved = condition(reports, "ResolvedRefs");
    expect(resolved, ConditionStatus::False, "InvalidBackendTLSPolicy", &[words]);
    assert!(graph.clusters.is_empty());
}

fn status<'a>(reports: &'a Reports, policy: &str, kind: &str) -> &'a Condition {
    let report = &reports.backend_tls_policies[&ObjectName::new("shop", policy)];
    assert_eq!(report.ancestors.len(), 1, "{report:?}");
    assert_eq!(report.ancestors[0].ancestor_ref.name, "web");
    of_type(&report.ancestors[0].conditions, kind)
}

#[test]
fn a_policy_leads_to_its_service_over_tls() {
    let (graph, reports) = built(&policy("tls", 1, "name: v1", VALID));
    let expected = BackendTls {
        sni: "v1.internal".to_owned(),
        subject_alt_names: vec![SubjectAltName::Dns("v1.internal".to_owned())],
        authorities: TrustedAuthorities::Certificates(Authorities::of_pem("one")),
    };
    assert_eq!(tls(&graph), Some(&expected));
    expect(
        status(&reports, "tls", "Accepted"),
        ConditionStatus::True,
        "Accepted",
        &[],
    );
    expect(
        status(&reports, "tls", "ResolvedRefs"),
        ConditionStatus::True,
        "ResolvedRefs",
        &[],
    );
    expect(
        condition(&reports, "ResolvedRefs"),
        ConditionStatus::True,
        "ResolvedRefs",
        &[],
    );
}

#[test]
fn the_name_of_a_cluster_does_not_depend_on_tls() {
    let (plain, _) = built("");
    let (encrypted, _) = built(&policy("tls", 1, "name: v1", VALID));
    assert_eq!(tls(&plain), None);
    assert!(plain.clusters.keys().eq(encrypted.clusters.keys()), "sessions go on");
}

#[test]
fn subject_alt_names_replace_the_hostname() {
    let names = "[{type: Hostname, hostname: '*.internal'}, {type: URI, uri: 'spiffe://shop/web'}]";
    let validation = format!("{{hostname: v1.internal, wellKnownCACertificates: System, subjectAltNames: {names}}}");
    let (graph, reports) = built(&policy("tls", 1, "name: v1", &validation));
    let expected = BackendTls {
        sni: "v1.internal".to_owned(),
        subject_alt_names: vec![
            SubjectAltName::Dns("*.internal".to_owned()),
            SubjectAltName::Uri("spiffe://shop/web".to_owned()),
        ],
        authorities: TrustedAuthorities::System,
    };
    assert_eq!(tls(&graph), Some(&expected));
    expect(
        status(&reports, "tls", "ResolvedRefs"),
        ConditionStatus::True,
        "ResolvedRefs",
        &[],
    );
}

#[test]
fn an_invalid_policy_refuses_its_backend() {
    let cases = [
        (
            "{hostname: a, caCertificateRefs: [{kind: ConfigMap, name: gone}]}",
            "NoValidCACertificate",
            "InvalidCACertificateRef",
            "does not exist",
        ),
        (
            "{hostname: a, caCertificateRefs: [{kind: ConfigMap, name: empty}]}",
            "NoValidCACertificate",
            "InvalidCACertificateRef",
            "expected data.ca.crt",
        ),
        (
            "{hostname: a, caCertificateRefs: [{kind: Secret, name: ca}]}",
            "NoValidCACertificate",
            "InvalidKind",
            "caCertificateRefs[0].kind",
        ),
        (
            "{hostname: a, caCertificateRefs: [{group: x.example, kind: ConfigMap, name: ca}]}",
            "NoValidCACertificate",
            "InvalidKind",
            "x.example",
        ),
        ("{hostname: a}", "Invalid", "", "spec.validation.caCertificateRefs"),
        (
            "{hostname: a, wellKnownCACertificates: example.com/ours}",
            "Invalid",
            "",
            "expected System, found example.com/ours",
        ),
        (
            "{hostname: a, wellKnownCACertificates: System, caCertificateRefs: [{kind: ConfigMap, name: ca}]}",
            "Invalid",
            "",
            "wellKnownCACertificates",
        ),
        (
            "{hostname: 10.0.0.1, wellKnownCACertificates: System}",
            "Invalid",
            "",
            "spec.validation.hostname",
        ),
        (
            "{hostname: '*.a', wellKnownCACertificates: System}",
            "Invalid",
            "",
            "spec.validation.hostname",
        ),
        (
            "{hostname: '', wellKnownCACertificates: System}",
            "Invalid",
            "",
            "spec.validation.hostname",
        ),
        (
            "{hostname: a, wellKnownCACertificates: System, subjectAltNames: [{type: URI, hostname: a}]}",
            "Invalid",
            "",
            "subjectAltNames[0]",
        ),
        (
            "{hostname: a, wellKnownCACertificates: System, subjectAltNames: [{type: Email, hostname: a}]}",
            "Invalid",
            "",
            "subjectAltNames[0]",
        ),
        (
            "{hostname: a, wellKnownCACertificates: System, pinnedKeys: [x]}",
            "Invalid",
            "",
            "spec.validation.pinnedKeys",
        ),
        (
            "{hostname: [a], wellKnownCACertificates: System}",
            "Invalid",
            "",
            "spec.validation.hostname",
        ),
        ("none", "Invalid", "", "spec.validation"),
    ];
    for (validation, accepted, resolved, words) in cases {
        let (graph, reports) = built(&policy("tls", 1, "name: v1", validation));
        expect_refused(&graph, &reports, words);
        expect(
            status(&reports, "tls", "Accepted"),
            ConditionStatus::False,
            accepted,
            &[words],
        );
        if !resolved.is_empty() {
            expect(
                status(&reports, "tls", "ResolvedRefs"),
                ConditionStatus::False,
                resolved,
                &[words],
            );
        }
    }
}

#[test]
fn a_refused_backend_keeps_its_share_of_a_split() {
    let split = "
kind: HTTPRoute
metadata: {namespace: shop, name: shop}
spec:
  parentRefs: [{name: web}]
  rules: [{backendRefs: [{name: v1, port: 80, weight: 3}, {name: v2, port: 80, weight: 7}]}]
---
";
    let (graph, _) = built(&format!("{split}{}", policy("tls", 1, "name: v1", "{hostname: a}")));
    let destinations = &forward(&routes(&graph)[0]).destinations;
    assert!(matches!(destinations[0].target, Target::Invalid { .. }));
    assert!(matches!(destinations[1].target, Target::Cluster(_)));
    assert_eq!((destinations[0].weight, destinations[1].weight), (3, 7));
}

#[test]
fn a_mirror_is_reached_over_tls_or_left_out() {
    let mirrored = "
kind: HTTPRoute
metadata: {namespace: shop, name: shop}
spec:
  parentRefs: [{name: web}]
  rules:
  - filters: [{type: RequestMirror, requestMirror: {backendRef: {name: v1, port: 80}}}]
    backendRefs: [{name: v2, port: 80}]
---
";
    let (graph, reports) = built(&format!("{mirrored}{}", policy("tls", 1, "name: v1", VALID)));
    assert_eq!(forward(&routes(&graph)[0]).mirrors.len(), 1);
    assert!(tls(&graph).is_some(), "of the mirror's cluster");
    expect(
        status(&reports, "tls", "Accepted"),
        ConditionStatus::True,
        "Accepted",
        &[],
    );

    let invalid = policy("tls", 1, "name: v1", "{hostname: a}");
    let (graph, reports) = built(&format!("{mirrored}{invalid}"));
    assert!(forward(&routes(&graph)[0]).mirrors.is_empty());
    expect(
        condition(&reports, "ResolvedRefs"),
        ConditionStatus::False,
        "InvalidBackendTLSPolicy",
        &["requestMirror.backendRef"],
    );
    expect(
        status(&reports, "tls", "Accepted"),
        ConditionStatus::False,
        "Invalid",
        &[],
    );
}

/// The policy counts, and not all of its references do. `words`: of the condition's message.
fn expect_partly_resolved(reports: &Reports, words: &[&str]) {
    expect(
        status(reports, "tls", "Accepted"),
        ConditionStatus::True,
        "Accepted",
        &[],
    );
    expect(
        status(reports, "tls", "ResolvedRefs"),
        ConditionStatus::False,
        "InvalidCACertificateRef",
        words,
    );
}

#[test]
fn one_valid_reference_is_enough_to_reach_a_backend() {
    let refs = "[{kind: ConfigMap, name: gone}, {kind: ConfigMap, name: other}, {kind: ConfigMap, name: ca}]";
    let (graph, reports) = built(&policy(
        "tls",
        1,
        "name: v1",
        &format!("{{hostname: a, caCertificateRefs: {refs}}}"),
    ));
    let authorities = certificates(&graph);
    assert!(["onetwo", "twoone"].contains(&&*authorities.pem()), "{authorities:?}");
    expect_partly_resolved(&reports, &["caCertificateRefs[0].name"]);
}

#[test]
fn each_order_of_references_had_authorities_of_its_own() {
    let of = |names: &[&str]| {
        let refs: Vec<String> = names
            .iter()
            .map(|name| format!("{{kind: ConfigMap, name: {name}}}"))
            .collect();
        let validation = format!("{{hostname: a, caCertificateRefs: [{}]}}", refs.join(", "));
        let (graph, _) = built(&policy("tls", 1, "name: v1", &validation));
        certificates(&graph).clone()
    };
    let expected = of(&["ca", "other"]);
    assert_eq!(of(&["other", "ca"]), expected);
    assert_eq!(of(&["ca", "other", "ca"]), expected);
    assert_ne!(of(&["ca"]), expected);
}

#[test]
fn references_of_a_policy_had_authorities_without_end() {
    let config_map = |name: &str, times: usize| {
        format!(
            "kind: ConfigMap\nmetadata: {{namespace: shop, name: {name}}}\ndata: {{ca.crt: {}}}\n---\n",
            name.repeat(times)
        )
    };
    let config_maps = config_map("c1", 100_000) + &config_map("c2", 50_000) + &config_map("c3", 25_000);
    let refs = "[{kind: ConfigMap, name: c1}, {kind: ConfigMap, name: c2}, {kind: ConfigMap, name: c3}]";
    let validation = format!("{{hostname: a, caCertificateRefs: {refs}}}");
    let (graph, reports) = built(&format!("{config_maps}{}", policy("tls", 1, "name: v1", &validation)));
    assert_eq!(certificates(&graph).pem().len(), 250_000);
    expect_partly_resolved(
        &reports,
        &[
            "spec.validation.caCertificateRefs[1].name: expected at most 262144 bytes of certificates",
            "found 300000",
            "put the certificates into one ConfigMap",
        ],
    );
    let (graph, _) = built(&format!(
        "{}{}",
        config_map("ca", 900_000),
        policy("tls", 1, "name: v1", VALID)
    ));
    assert_eq!(
        certificates(&graph).pem().len(),
        1_800_000,
        "one ConfigMap has no such bound"
    );
}

#[test]
fn the_oldest_policy_of_a_target_counts() {
    let young = policy("a", 2, "name: v1", VALID);
    let old = |validation| policy("b", 1, "name: v1", validation);
    let valid = "{hostname: old.internal, wellKnownCACertificates: System}";
    let (graph, reports) = built(&format!("{young}{}", old(valid)));
    assert_eq!(tls(&graph).expect("TLS").sni, "old.internal");
    let words = ["BackendTLSPolicy shop/b, which is older", "Service shop/v1"];
    expect(
        status(&reports, "a", "Accepted"),
        ConditionStatus::False,
        "Conflicted",
        &words,
    );
    expect(
        status(&reports, "b", "Accepted"),
        ConditionStatus::True,
        "Accepted",
        &[],
    );

    let (graph, reports) = built(&format!("{young}{}", old("{hostname: old.internal}")));
    expect_refused(&graph, &reports, "BackendTLSPolicy shop/b");
    expect(
        status(&reports, "a", "Accepted"),
        ConditionStatus::False,
        "Conflicted",
        &words,
    );
}

#[test]
fn a_policy_for_a_port_wins_over_one_for_the_service() {
    let whole = policy(
        "whole",
        1,
        "name: v1",
        "{hostname: whole.internal, wellKnownCACertificates: System}",
    );
    let of_port = |port| policy("port", 2, &format!("name: v1, sectionName: {port}"), VALID);
    let (graph, reports) = built(&format!("{whole}{}", of_port("web")));
    assert_eq!(tls(&graph).expect("TLS").sni, "v1.internal");
    for name in ["whole", "port"] {
        expect(
            status(&reports, name, "Accepted"),
            ConditionStatus::True,
            "Accepted",
            &[],
        );
    }
    let (graph, reports) = built(&format!("{whole}{}", of_port("other")));
    assert_eq!(tls(&graph).expect("TLS").sni, "whole.internal");
    let words = ["expected the name of a port", "Service shop/v1 port other"];
    expect(
        status(&reports, "port", "Accepted"),
        ConditionStatus::False,
        "TargetNotFound",
        &words,
    );
}

#[test]
fn a_policy_for_no_port_lets_none_be_reached_in_plain_text() {
    let of_port = policy("port", 2, "name: v1, sectionName: other", VALID);
    let (graph, reports) = built(&of_port);
    expect_refused(&graph, &reports, "BackendTLSPolicy shop/port");
}

#[test]
fn only_what_routes_lead_to_has_a_status() {
    let (graph, reports) = built(&policy("tls", 1, "name: v2", VALID));
    assert_eq!(tls(&graph), None);
    assert!(
        reports.backend_tls_policies[&ObjectName::new("shop", "tls")]
            .ancestors
            .is_empty()
    );
}

#[test]
fn what_has_no_effect_is_said_in_the_status() {
    let policy = "
kind: BackendTLSPolicy
metadata: {namespace: shop, name: tls}
spec:
  targetRefs: [{group: '', kind: Service, name: v1}, {group: x.example, kind: Backend, name: v1}]
  validation: {hostname: v1.internal, wellKnownCACertificates: System}
  options: {example.com/min-version: '1.3'}
";
    let (graph, reports) = built(policy);
    assert!(tls(&graph).is_some());
    let words = [
        "spec.options.example.com/min-version",
        "spec.targetRefs[1].kind: expected Service or XBackend",
    ];
    expect(
        status(&reports, "tls", "Accepted"),
        ConditionStatus::True,
        "Accepted",
        &words,
    );
    expect(
        status(&reports, "tls", "Programmed"),
        ConditionStatus::True,
        "PartiallyProgrammed",
        &words,
    );
}

#[test]
fn https_as_app_protocol_needs_a_policy() {
    let service = |protocol: &str| {
        format!(
            "
kind: Service
metadata: {{namespace: shop, name: v1}}
spec: {{ports: [{{name: web, port: 80, appProtocol: {protocol}}}]}}
---
"
        )
    };
    for (protocol, expected) in [
        ("HTTPS", Protocol::Http1),
        ("https", Protocol::Http1),
        ("kubernetes.io/wss", Protocol::Http1),
        ("kubernetes.io/h2c", Protocol::H2c),
    ] {
        let (graph, _) = built(&format!("{}{}", service(protocol), policy("tls", 1, "name: v1", VALID)));
        let cluster = graph.clusters.values().next().expect("a cluster");
        assert_eq!(
            (cluster.protocol, cluster.tls.is_some()),
            (expected, true),
            "{protocol}"
        );
    }
    for protocol in ["HTTPS", "kubernetes.io/wss"] {
        let (graph, reports) = built(&service(protocol));
        assert!(graph.clusters.is_empty());
        let words = ["BackendTLSPolicy"];
        expect(
            condition(&reports, "ResolvedRefs"),
            ConditionStatus::False,
            "UnsupportedProtocol",
            &words,
        );
    }
}

#[test]
fn no_more_gateways_are_listed_than_the_definition_allows() {
    let gateway = |number: u8| {
        format!(
            "
kind: Gateway
metadata: {{namespace: shop, name: g-{number:02}, creationTimestamp: '2026-01-01T00:00:{number:02}Z'}}
spec:
  gatewayClassName: limpet
  listeners: [{{name: http, port: 80, protocol: HTTP}}]
---
"
        )
    };
    let gateways: Vec<String> = (0..20).map(gateway).collect();
    let parents: Vec<String> = (0..20).map(|number| format!("{{name: g-{number:02}}}")).collect();
    let manifests = format!(
        "{}{}
kind: HTTPRoute
metadata: {{namespace: shop, name: all}}
spec:
  parentRefs: [{}]
  rules: [{{backendRefs: [{{name: v1, port: 80}}]}}]
",
        policy("tls", 1, "name: v1", VALID),
        gateways.concat(),
        parents.join(", ")
    );
    let (graph, reports) = built(&manifests);
    let report = &reports.backend_tls_policies[&ObjectName::new("shop", "tls")];
    let names: Vec<&str> = report
        .ancestors
        .iter()
        .map(|ancestor| ancestor.ancestor_ref.name.as_str())
        .collect();
    assert_eq!(
        (names.len(), names.contains(&"g-00"), names.contains(&"g-19")),
        (16, true, false),
        "{names:?}"
    );
    assert!(
        graph.clusters.values().all(|cluster| cluster.tls.is_some()),
        "TLS has no such limit"
    );
}

#[test]
fn another_control_plane_follows_the_policies_itself() {
    let all = format!(
        "{CLASS}{SHOP}{AUTHORITIES}{}",
        policy("tls", 1, "name: v1", "{hostname: a}")
    );
    let settings = Settings {
        gateways: GatewayOwner::Of(["limpet.dev/controller".to_owned()].into()),
        ..Settings::default()
    };
    let (graph, reports) = build(&objects::read_any(&all), &settings);
    assert_eq!((graph.clusters.len(), tls(&graph)), (1, None));
    assert!(reports.backend_tls_policies.is_empty());
}

#[test]
fn a_backend_is_verified_by_the_last_valid_authorities() {
    let all = format!("{CLASS}{SHOP}{AUTHORITIES}{}", policy("tls", 1, "name: v1", VALID));
    let mut objects = objects::read_any(&all);
    let (before, _) = build(&objects, &Settings::default());
    let why = "no right".to_owned();
    objects.kept_authorities.insert(ObjectName::new("shop", "ca"), why);
    let (graph, reports) = build(&objects, &Settings::default());
    assert!(tls(&graph).is_some() && graph == before);
    let accepted = status(&reports, "tls", "Accepted");
    expect(accepted, ConditionStatus::True, "Accepted", &[]);
    let words = ["ConfigMap shop/ca: no right; its last valid certificates stay in use"];
    let resolved = status(&reports, "tls", "ResolvedRefs");
    expect(resolved, ConditionStatus::False, "InvalidCACertificateRef", &words);
    let route = condition(&reports, "ResolvedRefs");
    expect(route, ConditionStatus::True, "ResolvedRefs", &[]);
}
