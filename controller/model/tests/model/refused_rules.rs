//! What routes, Gateways and policies say where rules are refused.

use super::{condition, expect, hosts, routes, with_hosts, with_rules};
use limpet_api::ObjectName;
use limpet_model::Reports;
use limpet_model::graph::Action;
use limpet_model::reports::ConditionStatus::{False, True};

const GOOD: &str = "  - {backendRefs: [{name: v1, port: 80}]}\n";
const REFUSED: &str =
    "  - {matches: [{path: {value: /a}}], filters: [{type: Magic}], backendRefs: [{name: v1, port: 80}]}\n";
const DROPPED: &str = "  - {matches: [{path: {value: a}}], backendRefs: [{name: v1, port: 80}]}\n";
const BACKENDS_REFUSED: &str = "
  - matches: [{path: {value: /c}}]
    backendRefs: [{name: v1, port: 80, filters: [{type: Magic}]}, {name: v2, port: 80, weight: 0}]
";

fn has(reports: &Reports, kind: &str) -> bool {
    let report = &reports.http_routes[&ObjectName::new("shop", "shop")];
    let mut conditions = report.parents.iter().flat_map(|parent| &parent.conditions);
    conditions.any(|condition| condition.kind == kind)
}

fn attached(reports: &Reports) -> i32 {
    reports.gateways[&ObjectName::new("shop", "web")].listeners[0].attached_routes
}

/// GEP-1364: a route is accepted if "at least one of the Route's rules is implemented".
#[test]
fn a_route_without_a_rule_to_follow_is_not_accepted() {
    for rules in [
        REFUSED.to_owned(),
        DROPPED.to_owned(),
        BACKENDS_REFUSED.to_owned(),
        format!("{REFUSED}{DROPPED}{BACKENDS_REFUSED}"),
    ] {
        let (graph, reports) = with_rules(&rules);
        let accepted = condition(&reports, "Accepted");
        expect(accepted, False, "UnsupportedValue", &["spec.rules[0]."]);
        assert_eq!(
            accepted.message.contains("spec.rules[2].backendRefs[0]"),
            rules.contains("/a") && rules.contains("/c"),
            "{accepted:?}"
        );
        assert!(!has(&reports, "PartiallyInvalid"), "{rules}");
        // "Routes with any other value for the Accepted condition MUST NOT be included in this count."
        assert_eq!(attached(&reports), 0, "{rules}");
        let answers = routes(&graph)
            .iter()
            .filter(|route| route.matches.path != limpet_model::graph::PathMatch::Prefix("/c".to_owned()));
        for route in answers {
            assert!(matches!(route.action, Action::Respond { status: 500, .. }), "{rules}");
        }
    }
}

#[test]
fn a_route_with_one_rule_to_follow_is_partially_invalid() {
    for bad in [REFUSED, DROPPED] {
        let (_, reports) = with_rules(&format!("{bad}{GOOD}"));
        expect(condition(&reports, "Accepted"), True, "Accepted", &[]);
        let partly = condition(&reports, "PartiallyInvalid");
        expect(partly, True, "UnsupportedValue", &["spec.rules[0]."]);
        // "The message for this condition MUST start with the prefix "Dropped Rule"".
        assert!(partly.message.starts_with("Dropped Rule: spec.rules[0]."), "{partly:?}");
        assert_eq!(attached(&reports), 1);
    }
}

#[test]
fn a_route_whose_backends_are_missing_is_accepted() {
    let (_, reports) = with_rules("  - {backendRefs: [{name: gone, port: 80}]}");
    let words = "no rule has a valid backend, so requests are answered with status 500";
    expect(condition(&reports, "Accepted"), True, "Accepted", &[words]);
    expect(condition(&reports, "ResolvedRefs"), False, "BackendNotFound", &[]);
    assert_eq!(attached(&reports), 1);
}

#[test]
fn a_rule_without_backends_is_named() {
    let (_, reports) = with_rules(&format!("{GOOD}  - {{matches: [{{path: {{value: /x}}}}]}}"));
    let words = "spec.rules[1].backendRefs: there are none, so requests are answered with status 500";
    expect(condition(&reports, "Accepted"), True, "Accepted", &[words]);
    // An API server adds a rule for all requests where `rules` is left out.
    let (graph, reports) = super::built(&format!(
        "{}
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec: {{parentRefs: [{{name: web}}]}}",
        super::SHOP
    ));
    assert!(matches!(routes(&graph)[0].action, Action::Respond { status: 500, .. }));
    let words = "spec.rules[0].backendRefs: there are none";
    expect(condition(&reports, "Accepted"), True, "Accepted", &[words]);
    let (_, reports) = with_rules("    []");
    expect(
        condition(&reports, "Accepted"),
        True,
        "Accepted",
        &["spec.rules: there are none"],
    );
}

/// "This condition MUST NOT be set if a Route is fully valid, fully invalid, or not accepted."
#[test]
fn a_route_that_is_not_attached_is_not_partially_invalid() {
    let rules = format!("{REFUSED}{GOOD}  hostnames: [a.example]\n  parentRefs: [{{name: web, sectionName: other}}]\n");
    let (_, reports) = super::built(&format!(
        "{}
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec:
  rules:
{rules}",
        super::SHOP
    ));
    expect(condition(&reports, "Accepted"), False, "NoMatchingParent", &[]);
    assert!(!has(&reports, "PartiallyInvalid"));
}

#[test]
fn a_policy_whose_rules_are_refused_is_told() {
    let policy = "
---
kind: BackendLBPolicy
apiVersion: gateway.networking.k8s.io/v1alpha2
metadata: {namespace: shop, name: p}
spec: {targetRefs: [{group: '', kind: Service, name: v1}], sessionPersistence: {sessionName: s}}
";
    let told = |rules: &str| {
        let (_, reports) = with_rules(&format!("{rules}{policy}"));
        let report = reports.session_policies.values().next().expect("a report").clone();
        let conditions = report.ancestors[0].conditions.iter();
        let programmed = conditions.filter(|condition| condition.kind == "Programmed");
        programmed
            .map(|condition| (condition.status, condition.reason, condition.message.clone()))
            .collect::<Vec<_>>()
    };
    let words = "the rule cannot be followed, so there are no sessions on: HTTPRoute shop/shop spec.rules[0]";
    for bad in [REFUSED, DROPPED] {
        assert_eq!(told(bad), [(False, "Invalid", words.to_owned())]);
        let partly = told(&format!("{bad}{GOOD}"));
        assert_eq!(partly, [(True, "PartiallyProgrammed", words.to_owned())]);
    }
    assert_eq!(told(GOOD), []);
}

/// A header that is written once is in each route that Envoy gets. 140 KB made 260 MB.
#[test]
fn a_large_header_for_each_match_and_host_took_all_memory() {
    let with = |value: usize, hosts: usize, backends: &str| {
        let value = "x".repeat(value);
        let matches: Vec<String> = (0..60)
            .map(|number| format!("{{path: {{value: /{number}}}}}"))
            .collect();
        let matches = matches.join(", ");
        let hosts: Vec<String> = (0..hosts).map(|number| format!("h{number}.example")).collect();
        let rules = format!(
            "
  - matches: [{matches}]
    filters: [{{type: RequestHeaderModifier, requestHeaderModifier: {{set: [{{name: x, value: {value}}}]}}}}]
    backendRefs: [{backends}]
  - backendRefs: [{{name: v1, port: 80}}]
"
        );
        with_hosts(&hosts, &rules)
    };
    let (one, two) = ("{name: v1, port: 80}", "{name: v1, port: 80}, {name: v2, port: 80}");
    for (value, host, backends) in [(4096, 16, one), (1024, 16, two)] {
        let (_, reports) = with(value, host, backends);
        assert_eq!(
            condition(&reports, "Accepted").status,
            True,
            "{value} {host} {backends}"
        );
    }
    for (value, host, backends) in [(4096, 17, one), (4096, 16, two), (70_000, 1, one)] {
        let (graph, reports) = with(value, host, backends);
        let words = [
            "spec.rules: expected at most 4194304 bytes of routes",
            "one for each match, host and listener",
        ];
        let accepted = condition(&reports, "Accepted");
        expect(accepted, False, "UnsupportedValue", &words);
        assert_eq!(accepted.message.matches("spec.rules: ").count(), 1, "{accepted:?}");
        let routes: Vec<_> = hosts(&graph).into_iter().flat_map(|host| &host.routes).collect();
        assert_eq!(routes.len(), host);
        for all in routes {
            assert!(matches!(all.action, Action::Respond { status: 500, .. }), "{all:?}");
        }
    }
}
