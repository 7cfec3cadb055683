//! Regular expressions of routes, and their limits.

use std::time::{Duration, Instant};

use super::{SHOP, built, condition, expect, hosts, objects, routes, with_rules};
use limpet_api::ObjectName;
use limpet_model::graph::{Action, PathMatch, Route, ValueMatch};
use limpet_model::reports::ConditionStatus::{False, True};
use limpet_model::{Settings, build};

const GOOD: &str = "  - {name: good, matches: [{path: {value: /shop}}], backendRefs: [{name: v1, port: 80}]}\n";

fn path(value: &str) -> String {
    format!(
        "  - {{matches: [{{path: {{type: RegularExpression, value: '{value}'}}}}], \
         backendRefs: [{{name: v1, port: 80}}]}}\n"
    )
}

fn answers_500(route: &Route) -> bool {
    matches!(route.action, Action::Respond { status: 500, .. })
}

#[test]
fn a_rule_with_a_refused_expression_answers_with_500() {
    for (value, word, prefix) in [
        (r"/\p{Letter}", r"found \p{Letter}", ""),
        (
            "/shop/[[:foo:]]",
            "or a class such as [:alpha:], found [:foo:]",
            "/shop",
        ),
        (
            "/shop/[acegikmoqsuwy]{1000}",
            "at most 1000 instructions, found 13011",
            "/shop",
        ),
        ("/shop/.{1000}", "at most 1000 instructions", "/shop"),
        ("/a/b/*((", "unclosed group, found (", "/a"),
    ] {
        let (graph, reports) = with_rules(&format!("{}{GOOD}", path(value)));
        let words = [
            "Dropped Rule: spec.rules[0].matches[0].path.value: expected a regular expression",
            word,
        ];
        expect(
            condition(&reports, "PartiallyInvalid"),
            True,
            "UnsupportedValue",
            &words,
        );
        let [good, bad] = routes(&graph) else {
            panic!("two routes for {value}")
        };
        assert!(matches!(good.action, Action::Forward(_)), "{value}");
        assert!(answers_500(bad), "{value}");
        assert_eq!(bad.matches.path, PathMatch::Prefix(prefix.to_owned()), "{value}");
    }
    let (graph, _) = with_rules(&format!("{}{GOOD}", path("/a#b/[")));
    assert_eq!(routes(&graph).len(), 1);
}

/// Other conditions may keep the rule from taking requests of others, so it comes behind all of them.
#[test]
fn what_a_refused_expression_may_mean_comes_last() {
    let rules = format!(
        "
  - matches: [{{path: {{value: /shop/cart}}, headers: [{{name: a, type: RegularExpression, value: '['}}]}}]
    backendRefs: [{{name: v1, port: 80}}]
{GOOD}  - {{name: root, backendRefs: [{{name: v1, port: 80}}]}}"
    );
    let (graph, _) = with_rules(&rules);
    let paths: Vec<(&PathMatch, bool)> = routes(&graph)
        .iter()
        .map(|route| (&route.matches.path, answers_500(route)))
        .collect();
    let prefix = |path: &str| PathMatch::Prefix(path.to_owned());
    assert_eq!(
        paths,
        [
            (&prefix("/shop"), false),
            (&prefix(""), false),
            (&prefix("/shop/cart"), true)
        ]
    );
}

#[test]
fn expressions_reach_the_graph_translated() {
    let (graph, _) = with_rules(
        r"
  - matches:
    - path: {type: RegularExpression, value: '^/\d+$'}
      headers: [{name: a, type: RegularExpression, value: '(?i)x'}]
      queryParams: [{name: q, type: RegularExpression, value: '\w'}]
    backendRefs: [{name: v1, port: 80}]",
    );
    let found = &routes(&graph)[0].matches;
    assert_eq!(found.path, PathMatch::Regex("/[0-9]+".to_owned()));
    assert_eq!(found.headers["a"], ValueMatch::Regex("[Xx]".to_owned()));
    assert_eq!(found.query["q"], ValueMatch::Regex("[0-9A-Z_a-z]".to_owned()));
}

#[test]
fn services_and_methods_of_grpc_are_names() {
    for (method, word) in [
        (
            "{service: 'a/b'}",
            "service: expected a gRPC service such as shop.Cart, found \"a/b\"",
        ),
        ("{service: 'a?b', method: c}", "service: expected a gRPC service"),
        ("{service: ''}", "service: expected a gRPC service"),
        ("{service: 'a..b'}", "service: expected a gRPC service"),
        (
            "{service: a, method: 'b#'}",
            "method.method: expected a gRPC method such as Add, found \"b#\"",
        ),
        ("{method: '1a'}", "method.method: expected a gRPC method"),
        (
            "{type: RegularExpression, service: '('}",
            "method.service: expected a regular expression that RE2 and Rust read alike",
        ),
        (
            "{type: RegularExpression, service: 'a{600}', method: 'b{600}'}",
            "at most 1000 instructions",
        ),
    ] {
        let (_, reports) = built(&format!(
            "{SHOP}
kind: GRPCRoute
metadata: {{namespace: shop, name: grpc}}
spec:
  parentRefs: [{{name: web}}]
  rules: [{{matches: [{{method: {method}}}], backendRefs: [{{name: v1, port: 80}}]}}]"
        ));
        let report = &reports.grpc_routes[&ObjectName::new("shop", "grpc")];
        let accepted = super::of_type(&report.parents[0].conditions, "Accepted");
        expect(
            accepted,
            False,
            "UnsupportedValue",
            &["spec.rules[0].matches[0].method", word],
        );
    }
}

fn repeated(count: usize, rule: impl Fn(usize) -> String) -> String {
    (0..count).map(rule).collect()
}

fn matches(count: usize, expression: &str) -> String {
    let found = format!("{{headers: [{{name: a, type: RegularExpression, value: '{expression}'}}]}}, ");
    format!(
        "  - {{matches: [{}], backendRefs: [{{name: v1, port: 80}}]}}\n",
        found.repeat(count).trim_end_matches(", ")
    )
}

fn origins(count: usize, first: usize) -> String {
    let origins: Vec<_> = (first..first + count)
        .map(|number| format!("'https://*.o{number}.example'"))
        .collect();
    format!(
        "  - {{matches: [{{path: {{value: /x}}}}], backendRefs: [{{name: v1, port: 80}}], \
         filters: [{{type: CORS, cors: {{allowOrigins: [{}]}}}}]}}\n",
        origins.join(", ")
    )
}

#[test]
fn a_route_over_its_budget_is_refused_alone() {
    let long = format!("[{}]", "a".repeat(4000));
    let none = "  - {matches: [{path: {value: /x}}], backendRefs: [{name: v1, port: 80}]}\n";
    let exact = format!(
        "  - {{matches: [{}]}}\n",
        "{path: {value: /x}}, ".repeat(4096).trim_end_matches(", ")
    );
    for (within, over, words) in [
        (
            repeated(64, |_| none.to_owned()),
            none.to_owned(),
            "at most 64 rules in a route, found at least 65",
        ),
        (
            exact,
            none.to_owned(),
            "at most 4096 matches in a route, found at least 4097",
        ),
        (
            matches(128, "a"),
            matches(1, "a"),
            "at most 128 regular expressions in a route, found at least 129",
        ),
        (
            origins(64, 0) + &origins(64, 0),
            origins(64, 64),
            "at most 4000 instructions in the programs of its regular expressions in a route, found at least 4038",
        ),
        (
            matches(8, &long),
            matches(1, &long),
            "at most 32768 bytes in its regular expressions in a route, found at least 36018",
        ),
        (
            matches(4, "a{995}"),
            matches(1, "a"),
            "at most 4000 instructions in the programs of its regular expressions in a route, found at least 4006",
        ),
    ] {
        let (_, reports) = with_rules(&within);
        assert_eq!(condition(&reports, "Accepted").status, True, "{words}");
        let (graph, reports) = built(&format!(
            "{SHOP}
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec:
  parentRefs: [{{name: web}}]
  hostnames: [large.example]
  rules:
{within}{over}
---
kind: HTTPRoute
metadata: {{namespace: shop, name: other}}
spec:
  parentRefs: [{{name: web}}]
  hostnames: [other.example]
  rules:
{GOOD}"
        ));
        let accepted = condition(&reports, "Accepted");
        expect(accepted, False, "UnsupportedValue", &["spec.rules: expected ", words]);
        assert_eq!(accepted.message.matches("spec.rules: ").count(), 1, "{accepted:?}");
        let [large, other, ..] = hosts(&graph)[..] else {
            panic!("{words}: expected two hosts, found {:?}", hosts(&graph))
        };
        assert!(matches!(&large.routes[..], [all] if answers_500(all)), "{words}");
        assert!(matches!(other.routes[0].action, Action::Forward(_)), "{words}");
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a test may measure time")]
fn a_route_of_large_expressions_costs_a_build_little() {
    let time = |expression: &dyn Fn(usize) -> String| {
        let rules = repeated(16, |rule| matches(8, &expression(rule)));
        let objects = objects::read(&format!(
            "{}{SHOP}
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec:
  parentRefs: [{{name: web}}]
  rules:
{rules}",
            super::CLASS
        ));
        let once = || {
            let start = Instant::now();
            drop(build(&objects, &Settings::default()));
            start.elapsed()
        };
        (0..5).map(|_| once()).min().unwrap_or(Duration::MAX)
    };
    let small = time(&|rule| format!("[a-c]{{{}}}", rule + 1));
    let large = time(&|rule| format!("(([a-c]{{900}}){{900}}){{{}}}", rule + 900));
    assert!(large < small * 20, "{large:?} instead of {small:?}");
}
