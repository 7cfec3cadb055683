//! The ancestors of policies and their conditions.

use serde_json::{Value, json};

use super::*;

fn named(name: &str) -> Value {
    json!({"sessionName": name})
}

#[test]
fn the_ancestors_are_the_gateways_of_the_rules() {
    let mut world = with_policy(&named("s"));
    world.add(route_at("web", &["two", "one"], &json!([rule(&["a"])])));
    world.add(route_at("more", &["one"], &json!([rule(&["a"])])));
    world.add(route_at("other", &["three"], &json!([rule(&["b"])])));
    let sessions = world.sessions();
    let report = sessions.report("p");
    assert_eq!(report.observed_generation, 7);
    let references: Vec<Value> = report
        .ancestors
        .iter()
        .map(|a| serde_json::to_value(&a.ancestor_ref).unwrap())
        .collect();
    let gateway = |name: &str| {
        let group = "gateway.networking.k8s.io";
        json!({"group": group, "kind": "Gateway", "namespace": "shop", "name": name})
    };
    assert_eq!(references, [gateway("one"), gateway("two")]);
    assert!(
        report
            .ancestors
            .iter()
            .all(|ancestor| conditions(ancestor) == [ACCEPTED])
    );
}

#[test]
fn each_gateway_is_told_of_its_own_rules() {
    let mut world = with_policy(&named("s"));
    let own = inline(&["a"], &named("t"));
    world.add(route_at("web", &["whole"], &json!([rule(&["a"])])));
    world.add(route_at("partly", &["partly"], &json!([rule(&["a"]), own])));
    world.add(route_at("not", &["not"], &json!([own])));
    let sessions = world.sessions();
    let by_gateway = by_gateway(sessions.report("p"));
    assert_eq!(by_gateway["whole"], [ACCEPTED]);
    assert!(by_gateway["partly"][1].starts_with("Programmed=True/PartiallyProgrammed"));
    assert!(by_gateway["not"][1].starts_with("Programmed=False/Overridden"));
}

#[test]
fn a_policy_that_no_rule_leads_to_has_no_ancestor() {
    let mut world = world(SERVICE_AND_ROUTE);
    world.add(policy("BackendLBPolicy", "right", &["b"], &named("s")));
    world.add(policy("BackendLBPolicy", "wrong", &["b"], &json!({"type": "Query"})));
    let sessions = world.sessions();
    for name in ["right", "wrong"] {
        assert_eq!(sessions.report(name).ancestors, []);
        assert_eq!(sessions.report(name).observed_generation, 7);
    }
}

#[test]
fn a_missing_target_is_told_where_a_rule_names_it() {
    let message = "spec.targetRefs[0].name: expected an existing Service, found shop/gone";
    let mut world = world(SERVICE_AND_ROUTE);
    world.add(policy("BackendLBPolicy", "p", &["gone"], &named("s")));
    assert_eq!(world.sessions().report("p").ancestors, [], "no rule of ours names it");
    world.add(route_at("broken", &["one"], &json!([rule(&["gone", "b"])])));
    let sessions = world.sessions();
    assert_eq!(
        sessions.status("p"),
        [format!("Accepted=False/TargetNotFound: {message}")]
    );
    let mut grpc = route_at("grpc", &["two"], &json!([rule(&["gone"])]));
    grpc["kind"] = json!("GRPCRoute");
    world.add(grpc);
    assert_eq!(world.sessions().report("p").ancestors.len(), 2);
    world.add(policy("BackendLBPolicy", "p", &["gone", "a"], &named("s")));
    let sessions = world.sessions();
    let by_gateway = by_gateway(sessions.report("p"));
    assert_eq!(by_gateway["gw"], [format!("{ACCEPTED}; {message}")]);
    assert_eq!(by_gateway["one"], [format!("Accepted=False/TargetNotFound: {message}")]);
    assert!(matches!(sessions.rules.last().unwrap().session, Session::None));
}

#[test]
fn a_policy_with_only_a_wrong_target_is_told_so() {
    let mut world = world(SERVICE_AND_ROUTE);
    world.add(json!({"kind": "XBackend", "metadata": {"name": "blue"}, "spec": {"type": "EndpointSelector"}}));
    let reference = json!({"group": "gateway.networking.x-k8s.io", "kind": "XBackend", "name": "blue"});
    world.add(route("web", &json!([{"backendRefs": [reference]}])));
    let mut policy = policy("BackendLBPolicy", "p", &[], &named("s"));
    policy["spec"]["targetRefs"] = json!([reference]);
    world.add(policy);
    assert!(world.sessions().status("p")[0].starts_with("Accepted=False/Invalid: spec.targetRefs[0].kind"));
}

#[test]
fn fields_that_nothing_reads_are_named() {
    let constraint = |mut policy: Value| {
        policy["spec"]["retryConstraint"] = json!({"budget": {"percent": 20}});
        policy
    };
    let mut world = world(SERVICE_AND_ROUTE);
    world.add(constraint(policy("XBackendTrafficPolicy", "p", &["a"], &named("s"))));
    let sessions = world.sessions();
    assert!(matches!(sessions.rules[0].session, Session::Rule(_)));
    let unread = "Not supported and ignored: spec.retryConstraint";
    assert_eq!(
        only_ancestor(sessions.report_of("XBackendTrafficPolicy", "p")),
        [
            format!("{ACCEPTED}. {unread}"),
            format!("Programmed=True/PartiallyProgrammed: All rules have the policy's sessions. {unread}"),
        ]
    );
    let mut bare = constraint(policy("XBackendTrafficPolicy", "p", &["a"], &Value::Null));
    bare["spec"].as_object_mut().unwrap().remove("sessionPersistence");
    world.add(bare);
    let sessions = world.sessions();
    assert_eq!(
        only_ancestor(sessions.report_of("XBackendTrafficPolicy", "p")),
        [
            "Accepted=False/Invalid: spec.sessionPersistence: expected session persistence, which is all that Limpet \
             supports of a policy; spec.retryConstraint cannot be followed"
        ]
    );
}

#[test]
fn a_policy_without_sessions_conflicts_with_none() {
    let mut world = world(SERVICE_AND_ROUTE);
    let mut bare = policy("XBackendTrafficPolicy", "bare", &["a"], &Value::Null);
    bare["spec"].as_object_mut().unwrap().remove("sessionPersistence");
    world.add(made(bare, 1));
    world.add(made(policy("BackendLBPolicy", "p", &["a"], &named("s")), 2));
    let sessions = world.sessions();
    assert_eq!(
        only_ancestor(sessions.report_of("XBackendTrafficPolicy", "bare")),
        ["Accepted=True/Accepted: The policy asks for no sessions"]
    );
    assert_eq!(sessions.status("p"), [ACCEPTED]);
}

/// GEP-713: see `PolicyStatuses::has_room`.
#[test]
fn the_seventeenth_gateway_has_no_sessions_and_routes_say_so() {
    let gateways: Vec<String> = (0..17).map(|index| format!("g{index:02}")).collect();
    let mut world = with_policy(&named("s"));
    world.objects.http_routes.clear();
    for (index, gateway) in gateways.iter().enumerate() {
        let created = format!("2026-01-{:02}T00:00:00Z", 20 - index);
        world.add(json!({
            "kind": "Gateway", "metadata": {"name": gateway, "creationTimestamp": created},
            "spec": {"gatewayClassName": "limpet"},
        }));
        world.add(route_at(&format!("r{index:02}"), &[gateway], &json!([rule(&["a"])])));
    }
    let all: Vec<&str> = gateways.iter().map(String::as_str).collect();
    world.add(route_at("everywhere", &all, &json!([rule(&["a"])])));
    let sessions = world.sessions();
    let ancestors: Vec<&str> = sessions
        .report("p")
        .ancestors
        .iter()
        .map(|a| a.ancestor_ref.name.as_str())
        .collect();
    assert_eq!(ancestors, all[1..]);
    // In the order of their names: everywhere, r00, r01, …
    assert!(
        matches!(sessions.rules[0].session, Session::Rule(_)),
        "sixteen of its Gateways have room"
    );
    assert_eq!(
        sessions.problems(1),
        [
            "spec.rules[0].backendRefs: there are no sessions: BackendLBPolicy shop/p applies to more Gateways than \
             its status has room for, and to the oldest ones first"
        ]
    );
    assert!(
        sessions.rules[2..]
            .iter()
            .all(|rule| matches!(rule.session, Session::Rule(_)))
    );
}

#[test]
fn long_lists_are_cut() {
    let mut world = with_policy(&named("s"));
    let rules: Value = (0..7).map(|_| inline(&["a"], &named("t"))).collect();
    world.add(route("web", &rules));
    let status = world.sessions().status("p");
    assert!(
        status[1].ends_with("HTTPRoute shop/web spec.rules[3] and 3 more"),
        "{status:?}"
    );
}
