//! Gateways of another control plane.

use std::collections::BTreeSet;

use super::objects;
use limpet_api::ObjectName;
use limpet_model::reports::{Condition, PolicyReport};
use limpet_model::{
    Extent, GatewayOwner, Graph, Reports, SessionPolicyKind, SessionPolicyName, Settings, Unsupported, build,
};

const CLASS: &str = "
kind: GatewayClass
metadata: {name: theirs}
spec: {controllerName: example.com/theirs, parametersRef: {group: x, kind: Thing, name: z}}
---
kind: GatewayClass
metadata: {name: limpet}
spec: {controllerName: limpet.dev/controller}
---
kind: Service
metadata: {namespace: shop, name: v1}
spec: {ports: [{port: 80}]}
---
kind: BackendLBPolicy
metadata: {namespace: shop, name: sticky}
spec: {targetRefs: [{group: '', kind: Service, name: v1}], sessionPersistence: {sessionName: sid}}
---
";

fn built(manifests: &str) -> (Graph, Reports) {
    let settings = Settings {
        gateways: GatewayOwner::Of(BTreeSet::from(["example.com/theirs".to_owned()])),
        ..Settings::default()
    };
    build(&objects::read(&format!("{CLASS}{manifests}")), &settings)
}

fn gateway(name: &str, class: &str) -> String {
    format!(
        "
kind: Gateway
metadata: {{namespace: shop, name: {name}}}
spec:
  gatewayClassName: {class}
  listeners:
  - {{name: http, port: 80, protocol: HTTP}}
  - {{name: https, port: 443, protocol: HTTPS, tls: {{certificateRefs: [{{name: missing}}], options: {{a: b}}}}}}
  - {{name: tcp, port: 9000, protocol: TCP}}
---"
    )
}

fn route(rule: &str) -> String {
    format!(
        "
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec:
  parentRefs: [{{name: web}}]
  rules:
  - {rule}"
    )
}

fn policy(reports: &Reports) -> &PolicyReport {
    &reports.session_policies[&SessionPolicyName {
        kind: SessionPolicyKind::BackendLbPolicy,
        name: ObjectName::new("shop", "sticky"),
    }]
}

fn programmed(reports: &Reports) -> Option<&Condition> {
    find(&policy(reports).ancestors[0].conditions, "Programmed")
}

fn partly_invalid(reports: &Reports) -> Option<&Condition> {
    let report = &reports.http_routes[&ObjectName::new("shop", "shop")];
    find(&report.parents[0].conditions, "PartiallyInvalid")
}

fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

#[test]
fn they_have_sessions_and_no_reports() {
    let route = route("{backendRefs: [{name: v1, port: 80}]}");
    let (graph, reports) = built(&format!(
        "{}{}{route}",
        gateway("web", "theirs"),
        gateway("ours", "limpet")
    ));
    assert!(
        reports.gateway_classes.is_empty() && reports.gateways.is_empty(),
        "{reports:?}"
    );
    assert_eq!(
        graph.gateways.keys().collect::<Vec<_>>(),
        [&ObjectName::new("shop", "web")]
    );
    let ports: Vec<u16> = graph.gateways[&ObjectName::new("shop", "web")]
        .ports
        .keys()
        .copied()
        .collect();
    assert_eq!(ports, [80, 443], "what speaks no HTTP has no sessions");
    assert_eq!(policy(&reports).ancestors.len(), 1);
    assert_eq!(programmed(&reports), None, "nothing is lost");
}

#[test]
fn unknown_parts_of_a_rule_are_theirs_and_its_sessions_ours() {
    let rule = "{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: v2}}}, {type: CORS, cors: {}}, \
                {type: ExtensionRef, extensionRef: {}}], retry: {attempts: 2}, backendRefs: [{name: v1, port: 80}]}";
    let (graph, reports) = built(&format!("{}{}", gateway("web", "theirs"), route(rule)));
    let listener = &graph.gateways[&ObjectName::new("shop", "web")].ports[&80][0];
    let limpet_model::graph::Action::Forward(forward) =
        &listener.virtual_hosts[&limpet_model::graph::Hostname::Any].routes[0].action
    else {
        panic!("{listener:?}");
    };
    assert!(matches!(forward.session, limpet_model::graph::Session::Rule(_)));
    assert_eq!(
        forward.not_followed,
        [
            "spec.rules[0].filters[0].requestMirror",
            "spec.rules[0].filters[1].cors",
            "spec.rules[0].filters[2].extensionRef",
            "spec.rules[0].retry"
        ]
    );
    assert!(forward.retry.is_none() && forward.mirrors.is_empty());
    assert!(
        listener.virtual_hosts[&limpet_model::graph::Hostname::Any].routes[0]
            .cors
            .is_none()
    );
    assert_eq!(partly_invalid(&reports), None);
}

#[test]
fn a_rule_with_unknown_matches_has_no_sessions_and_says_so() {
    let rule = "{matches: [{port: 8080}], backendRefs: [{name: v1, port: 80}]}";
    let (_, reports) = built(&format!("{}{}", gateway("web", "theirs"), route(rule)));
    let programmed = programmed(&reports).expect("a condition");
    assert!(
        !programmed.is_true() && programmed.reason == "Invalid",
        "{programmed:?}"
    );
    assert!(
        programmed.message.contains("spec.rules[0].matches[0].port"),
        "{programmed:?}"
    );
}

#[test]
fn a_route_of_others_too_says_where_it_has_no_sessions() {
    let manifests = format!(
        "{}{}{}",
        gateway("web", "theirs"),
        gateway("ours", "limpet"),
        route("{backendRefs: [{name: v1, port: 80}]}")
    );
    let (_, reports) =
        built(&manifests.replace("parentRefs: [{name: web}]", "parentRefs: [{name: web}, {name: ours}]"));
    let programmed = programmed(&reports).expect("a condition");
    assert!(
        programmed.is_true() && programmed.reason == "PartiallyProgrammed",
        "{programmed:?}"
    );
    assert!(
        programmed.message.contains("spec.parentRefs[1]") && programmed.message.contains("shop/ours"),
        "{programmed:?}"
    );
}

#[test]
fn what_an_output_cannot_give_is_said_where_it_was_asked_for() {
    let two = "{name: a, matches: [{path: {value: /a}}], backendRefs: [{name: v1, port: 80}]}
  - {name: b, matches: [{path: {value: /b}}], backendRefs: [{name: v1, port: 80}]}
  - {name: c, matches: [{path: {value: /c}}], backendRefs: [{name: v1, port: 80}],
     sessionPersistence: {sessionName: own}}";
    let manifests = format!("{}{}", gateway("web", "theirs"), route(two));
    let unsupported = |rule: &str, extent: Extent| Unsupported {
        rule: limpet_model::graph::RuleName(format!("httproute/shop/shop/{rule}").into()),
        gateway: None,
        extent,
        message: format!("lost {rule}"),
    };
    let told = |unsupported: &[Unsupported]| {
        let (graph, mut reports) = built(&manifests);
        reports.add_unsupported(&graph, unsupported);
        let of_route = partly_invalid(&reports).map(|condition| condition.message.clone());
        let of_policy = programmed(&reports).map(|condition| (condition.is_true(), condition.message.clone()));
        (of_policy, of_route)
    };
    let (overridden, none) = told(&[]);
    let (holds, before) = overridden.expect("overridden on one rule");
    assert!(holds && none.is_none(), "{before}");
    let (of_policy, of_route) = told(&[unsupported("a", Extent::All)]);
    let (holds, message) = of_policy.expect("a condition");
    assert!(
        holds && message.starts_with(&before) && message.contains("spec.rules[0]: lost a"),
        "{message}"
    );
    assert_eq!(of_route, None);
    let (of_policy, _) = told(&[unsupported("a", Extent::All), unsupported("b", Extent::All)]);
    assert!(!of_policy.expect("a condition").0, "no rule of the policy has sessions");
    let (of_policy, of_route) = told(&[unsupported("c", Extent::Part)]);
    assert_eq!(of_policy, Some((true, before)));
    assert!(of_route.is_some_and(|message| message.contains("spec.rules[2]: lost c")));
}

#[test]
fn a_gateway_whose_class_is_not_there_is_named() {
    let route = route("{backendRefs: [{name: v1, port: 80}]}");
    let (graph, reports) = built(&format!("{}{route}", gateway("web", "missing")));
    assert!(graph.gateways.is_empty());
    let ancestors = &policy(&reports).ancestors;
    assert_eq!(ancestors.len(), 1);
    let accepted = find(&ancestors[0].conditions, "Accepted").expect("a condition");
    assert_eq!((accepted.is_true(), accepted.reason), (false, "TargetNotFound"));
    for part in ["shop/web", "missing", "example.com/theirs"] {
        assert!(accepted.message.contains(part), "{accepted:?}");
    }
    let (_, reports) = built(&format!("{}{route}", gateway("web", "limpet")));
    assert!(policy(&reports).ancestors.is_empty());
}

#[test]
fn a_route_without_a_grant_put_its_gateway_into_the_status_of_anothers_policy() {
    let route = route("{backendRefs: [{name: v1, namespace: shop, port: 80}]}");
    let of_evil = format!("{}{route}", gateway("web", "missing"))
        .replace("namespace: shop, name: web", "namespace: evil, name: web");
    let of_evil = of_evil.replace("namespace: shop, name: shop", "namespace: evil, name: shop");
    assert!(policy(&built(&of_evil).1).ancestors.is_empty());
}
