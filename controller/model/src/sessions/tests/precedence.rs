//! Precedence: rule over Service, older policy over younger one, and the conditions of the others.

use serde_json::{Value, json};

use super::*;

fn named(name: &str) -> Value {
    json!({"sessionName": name})
}

/// The name of each rule's session; empty if it has none.
fn names(sessions: &Sessions) -> Vec<&str> {
    let name = |rule: &RuleSession| match &rule.session {
        Session::Rule(session) => sessions.policies[&session.policy].carrier().unwrap().1,
        _ => "",
    };
    sessions.rules.iter().map(name).collect()
}

#[test]
fn a_rules_own_persistence_counts_and_the_policy_says_so() {
    let mut world = with_policy(&named("of-policy"));
    let other = named("of-rule");
    world.add(route("web", &json!([inline(&["a"], &other), rule(&["a"])])));
    let sessions = world.sessions();
    assert_eq!(names(&sessions), ["of-rule", "of-policy"]);
    assert_eq!(
        sessions.status("p"),
        [
            ACCEPTED,
            "Programmed=True/PartiallyProgrammed: sessionPersistence of the rule takes precedence on: HTTPRoute \
             shop/web \
             spec.rules[0]"
        ]
    );

    world.add(route("web", &json!([inline(&["a"], &other)])));
    let sessions = world.sessions();
    assert_eq!(names(&sessions), ["of-rule"]);
    assert_eq!(
        sessions.status("p"),
        [
            ACCEPTED,
            "Programmed=False/Overridden: sessionPersistence of the rule takes precedence on: HTTPRoute shop/web \
             spec.rules[0]"
        ]
    );
}

#[test]
fn a_rules_own_persistence_counts_even_if_it_is_invalid() {
    let mut world = with_policy(&named("of-policy"));
    world.add(route("web", &json!([inline(&["a"], &json!({"type": "Query"}))])));
    let sessions = world.sessions();
    assert_eq!(sessions.rules[0].session, Session::None);
    assert!(sessions.status("p")[1].starts_with("Programmed=False/Overridden"));
}

#[test]
fn of_two_policies_on_one_service_the_oldest_counts() {
    // If the days of creation are equal, the names decide.
    for (p, q, winner) in [(1, 2, "p"), (2, 1, "q"), (1, 1, "p")] {
        let mut world = world(SERVICE_AND_ROUTE);
        world.add(made(policy("BackendLBPolicy", "q", &["a"], &named("of-q")), q));
        world.add(made(policy("BackendLBPolicy", "p", &["a"], &named("of-p")), p));
        let sessions = world.sessions();
        assert_eq!(names(&sessions), [format!("of-{winner}")]);
        let loser = if winner == "p" { "q" } else { "p" };
        assert_eq!(sessions.status(winner), [ACCEPTED]);
        assert_eq!(
            sessions.status(loser),
            [format!(
                "Accepted=False/Conflicted: BackendLBPolicy shop/{winner}, which is older, targets the same: Service \
                 shop/a"
            )]
        );
    }
}

#[test]
fn kinds_of_policies_have_one_order() {
    for (lb, traffic, winner) in [(1, 2, "of-lb"), (2, 1, "of-traffic"), (1, 1, "of-lb")] {
        let mut world = world(SERVICE_AND_ROUTE);
        world.add(made(
            policy("XBackendTrafficPolicy", "p", &["a"], &named("of-traffic")),
            traffic,
        ));
        world.add(made(policy("BackendLBPolicy", "p", &["a"], &named("of-lb")), lb));
        let sessions = world.sessions();
        assert_eq!(names(&sessions), [winner]);
        let (kept, lost) = match winner {
            "of-lb" => ("BackendLBPolicy", "XBackendTrafficPolicy"),
            _ => ("XBackendTrafficPolicy", "BackendLBPolicy"),
        };
        assert_eq!(only_ancestor(sessions.report_of(kept, "p")), [ACCEPTED]);
        assert_eq!(
            only_ancestor(sessions.report_of(lost, "p")),
            [format!(
                "Accepted=False/Conflicted: {kept} shop/p, which is older, targets the same: Service shop/a"
            )]
        );
    }
}

#[test]
fn a_policy_with_mistakes_conflicts_with_none() {
    let mut world = world(SERVICE_AND_ROUTE);
    world.add(made(
        policy("BackendLBPolicy", "old", &["a"], &json!({"type": "Query"})),
        1,
    ));
    world.add(made(policy("BackendLBPolicy", "new", &["a"], &named("s")), 2));
    let sessions = world.sessions();
    assert_eq!(names(&sessions), ["s"]);
    assert_eq!(sessions.status("new"), [ACCEPTED]);
    assert!(sessions.status("old")[0].starts_with("Accepted=False/Invalid"));
}

#[test]
fn a_policy_keeps_the_targets_that_are_its_own() {
    let mut world = world(SERVICE_AND_ROUTE);
    world.add(route("web", &json!([rule(&["a"]), rule(&["b"])])));
    world.add(made(policy("BackendLBPolicy", "old", &["a"], &named("old")), 1));
    world.add(made(policy("BackendLBPolicy", "new", &["a", "b"], &named("new")), 2));
    let sessions = world.sessions();
    assert_eq!(names(&sessions), ["old", "new"]);
    assert_eq!(
        sessions.status("new"),
        [
            ACCEPTED,
            "Programmed=True/PartiallyProgrammed: BackendLBPolicy shop/old, which is older, targets the same: Service \
             shop/a"
        ]
    );
}

/// Check 13.
#[test]
fn a_policy_on_some_backends_is_applied_to_all_of_the_rule() {
    let mut world = with_policy(&named("s"));
    world.add(route("web", &json!([rule(&["b", "a"])])));
    let sessions = world.sessions();
    assert_eq!(names(&sessions), ["s"]);
    assert_eq!(
        sessions.status("p"),
        [
            "Accepted=True/Accepted: The policy is accepted; the sessions belong to the rule, so they use all of its \
             backends and not only the targets, on: HTTPRoute shop/web spec.rules[0]"
        ]
    );
}

/// Check 13.
#[test]
fn of_the_policies_of_a_split_the_oldest_counts() {
    let mut world = world(SERVICE_AND_ROUTE);
    world.add(route("web", &json!([rule(&["a", "b"])])));
    world.add(made(policy("BackendLBPolicy", "new", &["a"], &named("new")), 2));
    world.add(made(policy("BackendLBPolicy", "old", &["b"], &named("old")), 1));
    let sessions = world.sessions();
    assert_eq!(names(&sessions), ["old"]);
    assert_eq!(
        sessions.status("new"),
        [
            ACCEPTED,
            "Programmed=False/Overridden: BackendLBPolicy shop/old, which is older and targets another backend, takes \
             precedence on: HTTPRoute shop/web spec.rules[0]"
        ]
    );
    world.add(route("web", &json!([rule(&["a", "b"]), rule(&["a"])])));
    let sessions = world.sessions();
    assert_eq!(names(&sessions), ["old", "new"]);
    assert!(sessions.status("new")[1].starts_with("Programmed=True/PartiallyProgrammed"));
}

#[test]
fn a_policy_governs_all_of_its_targets() {
    let mut world = world(SERVICE_AND_ROUTE);
    world.add(route("web", &json!([rule(&["a"]), rule(&["b"]), rule(&["c"])])));
    world.add(policy("BackendLBPolicy", "p", &["a", "c"], &named("s")));
    let sessions = world.sessions();
    assert_eq!(names(&sessions), ["s", "", "s"]);
    assert_eq!(sessions.status("p"), [ACCEPTED]);
}

#[test]
fn a_policy_is_for_services_of_its_own_namespace() {
    let mut world = world(SERVICE_AND_ROUTE);
    let mut elsewhere = policy("BackendLBPolicy", "p", &["a"], &named("s"));
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    world.add(elsewhere);
    let sessions = world.sessions();
    assert_eq!(names(&sessions), [""]);
    let mut foreign = route("foreign", &json!([rule(&["a"])]));
    foreign["metadata"]["namespace"] = json!("far");
    foreign["spec"]["rules"][0]["backendRefs"][0]["namespace"] = json!("shop");
    world.add(foreign);
    world.add(policy("BackendLBPolicy", "p", &["a"], &named("t")));
    let sessions = world.sessions();
    assert_eq!(names(&sessions), ["t", "t"]);
    let gateways: Vec<_> = sessions
        .report("p")
        .ancestors
        .iter()
        .map(|a| a.ancestor_ref.namespace.clone())
        .collect();
    assert_eq!(gateways, [Some("far".to_owned()), Some("shop".to_owned())]);
}

#[test]
fn targets_are_services_each_once_one_to_sixteen() {
    let service = |name: &str| json!({"group": "", "kind": "Service", "name": name});
    let many = |count: usize| -> Value { (0..count).map(|index| service(&format!("s{index}"))).collect() };
    let with_a = |mut targets: Value| {
        targets.as_array_mut().unwrap().push(service("a"));
        targets
    };
    for (targets, expected) in [
        (with_a(many(15)), ""),
        (with_a(many(16)), "spec.targetRefs: expected 1 to 16 targets, found 17"),
        (
            json!([service("a"), service("a")]),
            "spec.targetRefs[1]: expected each target once",
        ),
        (
            json!([service("a"), {"group": "", "kind": "Pod", "name": "a"}]),
            "spec.targetRefs[1].kind: expected Service, found \"Pod\"",
        ),
        (
            json!([service("a"), {"group": "multicluster.x-k8s.io", "kind": "ServiceImport", "name": "a"}]),
            "spec.targetRefs[1].group: expected \"\", the group of Service, found \"multicluster.x-k8s.io\"",
        ),
        (
            json!([service("a"), {"group": "gateway.networking.x-k8s.io", "kind": "XBackend", "name": "a"}]),
            "spec.targetRefs[1].kind: expected Service: an XBackend has sessionPersistence of its own",
        ),
        (
            json!([service("a"), service("")]),
            "spec.targetRefs[1].name: expected a name",
        ),
    ] {
        let mut world = with_policy(&named("s"));
        let mut policy = policy("BackendLBPolicy", "p", &[], &named("s"));
        policy["spec"]["targetRefs"] = targets;
        world.add(policy);
        let sessions = world.sessions();
        let status = sessions.status("p");
        if expected.is_empty() {
            assert!(status[0].starts_with("Accepted=True/Accepted"), "{status:?}");
            assert_eq!(names(&sessions), ["s"]);
        } else {
            assert_eq!(status, [format!("Accepted=False/Invalid: {expected}")]);
            assert_eq!(names(&sessions), [""]);
        }
    }
    let mut world = with_policy(&named("s"));
    world.add(policy("BackendLBPolicy", "p", &[], &named("s")));
    let sessions = world.sessions();
    assert_eq!((names(&sessions), sessions.report("p").ancestors.len()), (vec![""], 0));
}

/// Check 15.
#[test]
fn a_services_affinity_is_noted_where_it_has_no_effect() {
    let mut world = with_policy(&named("s"));
    world.add(json!({"kind": "Service", "metadata": {"name": "a"}, "spec": {"sessionAffinity": "ClientIP"}}));
    world.add(json!({"kind": "Service", "metadata": {"name": "c"}, "spec": {"sessionAffinity": "ClientIP"}}));
    world.add(route(
        "web",
        &json!([rule(&["b"]), inline(&["c"], &named("t")), rule(&["c"])]),
    ));
    world.add(route("other", &json!([rule(&["a"])])));
    let ours = world.sessions();
    assert_eq!(names(&ours), ["s", "", "t", ""]);
    assert_eq!(ours.status("p"), [ACCEPTED]);
    assert!(ours.rules.iter().all(|rule| rule.notes.is_empty()));

    world.settings.gateways = GatewayOwner::Of(BTreeSet::from(["example.com/other".to_owned()]));
    let sessions = world.sessions();
    let note = |service: &str| {
        format!("sessionAffinity ClientIP has no effect with another control plane, on: Service shop/{service}")
    };
    assert_eq!(names(&sessions), ["s", "", "t", ""]);
    assert_eq!(sessions.status("p"), [format!("{ACCEPTED}; {}", note("a"))]);
    let notes: Vec<&[String]> = sessions.rules.iter().map(|rule| &rule.notes[..]).collect();
    let [inline, other] =
        [("spec.rules[1]", "c"), ("spec.rules[2]", "c")].map(|(rule, service)| [format!("{rule}: {}", note(service))]);
    assert_eq!(notes, [&[], &[], &inline[..], &other[..]]);
}
