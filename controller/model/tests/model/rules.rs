use std::time::Duration;

use super::{CLASS, SHOP, condition, expect, forward, objects, routes, with_rules};
use limpet_model::graph::{Action, Graph, PathChange, Route};
use limpet_model::reports::ConditionStatus;
use limpet_model::{Memory, Settings, build};

fn names(rules: &str) -> Vec<String> {
    let (graph, _) = with_rules(rules);
    let mut names: Vec<String> = routes(&graph).iter().map(|route| route.rule.to_string()).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn a_rule_keeps_its_name_when_rules_and_matches_change_places() {
    let one =
        "  - {matches: [{path: {value: /a}}, {path: {value: /b}, method: GET}], backendRefs: [{name: v1, port: 80}]}\n";
    let turned =
        "  - {matches: [{path: {value: /b}, method: GET}, {path: {value: /a}}], backendRefs: [{name: v2, port: 80}]}\n";
    let other = "  - {matches: [{path: {value: /c}}], backendRefs: [{name: v1, port: 80}]}\n";
    let [name] = &names(one)[..] else { panic!("one name") };
    assert_eq!(&names(turned)[..], std::slice::from_ref(name));
    assert!(names(&format!("{other}{one}")).contains(name));
    assert!(!names(other).contains(name));
}

#[test]
fn a_rule_keeps_its_name_and_sessions_with_one_match_more() {
    let rules = |matches: &str| {
        format!(
            "{SHOP}
kind: HTTPRoute
metadata: {{namespace: shop, name: shop, uid: one}}
spec:
  parentRefs: [{{name: web}}]
  rules:
  - matches: [{matches}]
    backendRefs: [{{name: v1, port: 80}}]
    sessionPersistence: {{sessionName: shop}}
  - {{matches: [{{path: {{value: /c}}}}], backendRefs: [{{name: v2, port: 80}}], sessionPersistence: {{}}}}
"
        )
    };
    let built = |manifests: &str, memory: Memory| {
        let mut objects = objects::read(&format!("{CLASS}{manifests}"));
        objects.memory = memory;
        let (graph, reports) = build(&objects, &Settings::default());
        let note = condition(&reports, "Accepted").message.clone();
        (graph, note)
    };
    let scopes = |graph: &Graph| graph.rules.keys().cloned().collect::<Vec<_>>();
    let (before, note) = built(&rules("{path: {value: /a}}"), Memory::default());
    let mut rules_before = before.rules.iter();
    let (first, _) = rules_before.find(|(_, rule)| rule.index == 0).expect("a first rule");
    let name = first.0.rsplit_once('/').expect("a name").1.to_owned();
    assert!(
        note.contains("sessions stay if one of them changes its matches"),
        "{note}"
    );
    assert!(note.contains(&name), "{note}");

    let more = rules("{path: {value: /a}}, {path: {value: /b}}");
    let (after, again) = built(&more, before.memory.clone());
    assert_eq!((scopes(&after), again), (scopes(&before), note));
    let (later, _) = built(&more, after.memory.clone());
    assert_eq!(later, after);
    let (other, _) = built(&more.replace("uid: one", "uid: two"), after.memory.clone());
    assert_ne!(scopes(&other), scopes(&before));
    assert_ne!(scopes(&built(&more, Memory::default()).0), scopes(&before));
    let (alone, _) = build_without_gateway(&more, after.memory.clone());
    assert_eq!(built(&more, alone.memory).0, after);
    let named = more.replacen("  - matches:", &format!("  - name: {name}\n    matches:"), 1);
    assert_eq!(scopes(&built(&named, after.memory).0), scopes(&before));
}

fn build_without_gateway(manifests: &str, memory: Memory) -> (Graph, limpet_model::Reports) {
    let mut objects = objects::read(manifests);
    objects.gateways.clear();
    objects.memory = memory;
    build(&objects, &Settings::default())
}

#[test]
fn a_rule_with_a_name_is_called_by_it() {
    assert_eq!(
        names("  - {name: cart, backendRefs: [{name: v1, port: 80}]}"),
        ["httproute/shop/shop/cart"]
    );
}

#[test]
fn the_hash_in_a_name_is_frozen() {
    let rule = "
  - matches:
    - path: {type: RegularExpression, value: /x.*}
      headers: [{name: A, value: b}, {name: c, type: RegularExpression, value: d.*}]
      queryParams: [{name: q, value: '1'}]
      method: POST
    backendRefs: [{name: v1, port: 80}]";
    assert_eq!(names(rule), ["httproute/shop/shop/fb374c87"]);
    assert_eq!(
        names("  - {backendRefs: [{name: v1, port: 80}]}"),
        ["httproute/shop/shop/8185902b"]
    );
}

#[test]
fn filters_of_a_rule() {
    let (graph, reports) = with_rules(
        "
  - matches: [{path: {value: /old}}]
    filters:
    - type: RequestRedirect
      requestRedirect: {scheme: https, path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}, statusCode: 301}
  - matches: [{path: {value: /}}]
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier: {set: [{name: A, value: '1'}, {name: a, value: '2'}], remove: [B]}
    - {type: URLRewrite, urlRewrite: {hostname: inner, path: {type: ReplaceFullPath, replaceFullPath: /x}}}
    backendRefs: [{name: v1, port: 80}]
    timeouts: {request: 10s, backendRequest: 500ms}",
    );
    expect(condition(&reports, "Accepted"), ConditionStatus::True, "Accepted", &[]);
    let [redirect, rest] = routes(&graph) else {
        panic!("two routes")
    };
    let Action::Redirect(redirect) = &redirect.action else {
        panic!("{:?}", redirect.action)
    };
    assert_eq!((redirect.scheme.as_deref(), redirect.status), (Some("https"), 301));
    assert_eq!(redirect.path, Some(PathChange::Prefix("/new".to_owned())));
    assert_eq!(rest.request_headers.set, [("a".to_owned(), "1".to_owned())]);
    assert_eq!(rest.request_headers.remove, ["b"]);
    let forward = forward(rest);
    assert_eq!(forward.rewrite.hostname.as_deref(), Some("inner"));
    assert_eq!(forward.rewrite.path, Some(PathChange::Full("/x".to_owned())));
    assert_eq!(forward.request_timeout, Some(Duration::from_secs(10)));
    assert_eq!(forward.backend_timeout, Some(Duration::from_millis(500)));
}

#[test]
fn a_rule_with_an_unsupported_filter_answers_with_500() {
    let cases = [
        (
            "{type: ExternalAuth, externalAuth: {}}",
            "spec.rules[0].filters[0].externalAuth: externalAuth is not supported",
        ),
        (
            "{type: ExtensionRef}",
            "spec.rules[0].filters[0].type: ExtensionRef is not supported; expected RequestHeaderModifier",
        ),
        ("{type: URLRewrite}", "spec.rules[0].filters[0].urlRewrite"),
        (
            "{type: RequestRedirect, requestRedirect: {}}, {type: URLRewrite, urlRewrite: {}}",
            "found both",
        ),
        (
            "{type: RequestHeaderModifier, requestHeaderModifier: {remove: [a]}}, {type: RequestHeaderModifier, \
             requestHeaderModifier: {remove: [b]}}",
            "spec.rules[0].filters[1]: expected one filter of each type",
        ),
        (
            "{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: Host, value: x}]}}",
            "spec.rules[0].filters[0].requestHeaderModifier.set[0].name: expected another header than Host",
        ),
        (
            "{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [':status']}}",
            "spec.rules[0].filters[0].responseHeaderModifier.remove[0]: expected a header's name",
        ),
        (
            "{type: ResponseHeaderModifier, responseHeaderModifier: {add: [{name: a, value: \"b\\nc\"}]}}",
            "spec.rules[0].filters[0].responseHeaderModifier.add[0].value: expected no control characters",
        ),
        (
            "{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath}}}",
            "spec.rules[0].filters[0].urlRewrite.path",
        ),
    ];
    for (filters, word) in cases {
        let (graph, reports) = with_rules(&format!(
            "  - {{matches: [{{path: {{value: /a}}}}], filters: [{filters}], backendRefs: [{{name: v1, port: 80}}]}}
  - {{backendRefs: [{{name: v1, port: 80}}]}}"
        ));
        let [bad, good] = routes(&graph) else {
            panic!("two routes")
        };
        assert!(matches!(bad.action, Action::Respond { status: 500, .. }), "{filters}");
        assert!(matches!(good.action, Action::Forward(_)), "{filters}");
        expect(
            condition(&reports, "PartiallyInvalid"),
            ConditionStatus::True,
            "UnsupportedValue",
            &[word, "status 500"],
        );
    }
}

#[test]
fn a_prefix_is_replaced_only_where_a_prefix_matches() {
    let (graph, reports) = with_rules(
        "
  - matches: [{path: {type: Exact, value: /a}}]
    filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /b}}}]
    backendRefs: [{name: v1, port: 80}]",
    );
    assert!(matches!(routes(&graph)[0].action, Action::Respond { status: 500, .. }));
    expect(
        condition(&reports, "Accepted"),
        ConditionStatus::False,
        "UnsupportedValue",
        &["expected every match"],
    );
}

#[test]
fn a_rule_with_an_unsupported_match_is_dropped() {
    let cases = [
        (
            "path: {type: RegularExpression, value: '(('}",
            "spec.rules[0].matches[0].path.value: expected a regular expression",
        ),
        ("path: {type: Magic, value: /a}", "spec.rules[0].matches[0].path.type"),
        ("path: {value: a}", "spec.rules[0].matches[0].path.value"),
        (
            "headers: [{name: a, type: RegularExpression, value: '['}]",
            "spec.rules[0].matches[0].headers[0].value",
        ),
        ("cookies: [{name: a}]", "spec.rules[0].matches[0].cookies"),
    ];
    for (matches, word) in cases {
        let bad = format!("  - {{matches: [{{{matches}}}], backendRefs: [{{name: v1, port: 80}}]}}\n");
        let (graph, reports) = with_rules(&format!(
            "{bad}  - {{name: good, backendRefs: [{{name: v1, port: 80}}]}}"
        ));
        let forwarded = routes(&graph)
            .iter()
            .filter(|route| matches!(route.action, Action::Forward(_)));
        let names: Vec<&str> = forwarded.map(|route: &Route| route.rule.0.as_str()).collect();
        assert_eq!(names, ["httproute/shop/shop/good"], "{matches}");
        expect(
            condition(&reports, "PartiallyInvalid"),
            ConditionStatus::True,
            "UnsupportedValue",
            &[word],
        );
        assert!(
            condition(&reports, "PartiallyInvalid")
                .message
                .starts_with("Dropped Rule")
        );

        let (_, reports) = with_rules(&bad);
        expect(
            condition(&reports, "Accepted"),
            ConditionStatus::False,
            "UnsupportedValue",
            &[word],
        );
    }
}

#[test]
fn a_rule_without_a_backend_answers_with_500() {
    let (graph, _) =
        with_rules("  - {backendRefs: [{name: missing, port: 80}]}\n  - {name: x, matches: [{path: {value: /x}}]}");
    assert!(
        routes(&graph)
            .iter()
            .all(|route| matches!(route.action, Action::Respond { status: 500, .. })),
        "{graph:?}"
    );
}

#[test]
fn a_field_without_effect_is_named() {
    let (graph, reports) = with_rules("  - {backendRefs: [{name: v1, port: 80}], retryBudget: {percent: 3}}");
    assert!(matches!(routes(&graph)[0].action, Action::Forward(_)));
    expect(
        condition(&reports, "Accepted"),
        ConditionStatus::True,
        "Accepted",
        &["ignored: spec.rules[0].retryBudget"],
    );
}
