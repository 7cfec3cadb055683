//! Properties of all objects in any order.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const SERVICES: [&str; 4] = ["a", "b", "c", "gone"];

fn persistence() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        Just(json!({"sessionName": "s"})),
        Just(json!({"sessionName": "s", "idleTimeout": "1h"})),
        Just(json!({"sessionName": "t"})),
        Just(json!({"type": "Header"})),
        Just(json!({"type": "Header", "sessionName": "s"})),
        Just(json!({"cookie": {"name": "s", "path": "/a"}})),
        Just(json!({"type": "Query"})),
    ]
}

fn annotation() -> impl Strategy<Value = Option<(&'static str, &'static str)>> {
    prop_oneof![
        4 => Just(None),
        1 => Just(Some(("mode", "prefix"))),
        1 => Just(Some(("strict", "true"))),
        1 => Just(Some(("same-site", "Lax"))),
        1 => Just(Some(("path", "route"))),
        1 => Just(Some(("strict", "yes"))),
    ]
}

fn services() -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(SERVICES.as_slice(), 1..=2)
}

fn annotate(object: Value, annotation: Option<(&str, &str)>) -> Value {
    match annotation {
        Some((name, value)) => annotated(object, name, value),
        None => object,
    }
}

/// Without name and age.
fn policies() -> impl Strategy<Value = Vec<Value>> {
    let kind = prop_oneof![Just("BackendLBPolicy"), Just("XBackendTrafficPolicy")];
    let policy = (kind, services(), persistence(), annotation())
        .prop_map(|(kind, services, persistence, note)| annotate(policy(kind, "", &services, &persistence), note));
    prop::collection::vec(policy, 0..6)
}

fn routes() -> impl Strategy<Value = Vec<Value>> {
    let paths = prop::sample::subsequence(vec!["/a", "/b", "/a/b"], 1..=2);
    let rule =
        (services(), prop::option::weighted(0.3, persistence()), paths).prop_map(|(services, persistence, paths)| {
            let mut made = match persistence {
                Some(persistence) => inline(&services, &persistence),
                None => rule(&services),
            };
            made["matches"] = paths.iter().map(|path| json!({"path": {"value": path}})).collect();
            made
        });
    let rules = prop::collection::vec(rule, 1..5).prop_map(Value::from);
    let route = (rules, annotation(), 1..4).prop_map(|(rules, note, gateways)| {
        let mut route = annotate(route("", &rules), note);
        route["spec"]["parentRefs"] = (0..gateways)
            .map(|index| json!({"name": format!("g{index}")}))
            .collect();
        route
    });
    prop::collection::vec(route, 1..4)
}

/// `named` has the name of each policy and its day of creation.
fn world_of(policies: &[Value], routes: &[Value], named: &[(String, u32)]) -> World {
    let mut world = world(SERVICE_AND_ROUTE);
    world.objects.http_routes.clear();
    for (policy, (name, day)) in policies.iter().zip(named) {
        let mut policy = made(policy.clone(), *day);
        policy["metadata"]["name"] = json!(name);
        world.add(policy);
    }
    for (index, route) in routes.iter().enumerate() {
        let mut route = route.clone();
        route["metadata"]["name"] = json!(format!("r{index}"));
        world.add(route);
    }
    world
}

fn days(count: usize) -> impl Strategy<Value = Vec<u32>> {
    Just((1..).take(count).collect::<Vec<u32>>()).prop_shuffle()
}

fn cases() -> impl Strategy<Value = (Vec<Value>, Vec<Value>, Vec<u32>)> {
    (policies(), routes()).prop_flat_map(|(policies, routes)| {
        let days = days(policies.len());
        (Just(policies), Just(routes), days)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn the_order_of_rules_makes_no_difference(
        (policies, routes, days) in cases(),
        seed in any::<prop::sample::Index>(),
        reverse in any::<bool>(),
    ) {
        let named: Vec<_> = days.iter().enumerate().map(|(index, day)| (format!("p{index}"), day / 2 + 1)).collect();
        let world = world_of(&policies, &routes, &named);
        let expected = world.sessions();
        let mut rules: Vec<_> = world.rules().into_iter().enumerate().collect();
        let middle = seed.index(rules.len());
        rules.rotate_left(middle);
        if reverse {
            rules.reverse();
        }
        let (order, rules): (Vec<usize>, Vec<_>) = rules.into_iter().unzip();
        let found = sessions_of(&world, &rules);
        for (place, rule) in order.iter().zip(&found.rules) {
            let expected = &expected.rules[*place];
            prop_assert_eq!((&rule.session, &rule.by_path), (&expected.session, &expected.by_path));
        }
        let notes = |sessions: &Sessions| -> BTreeSet<String> {
            sessions.rules.iter().flat_map(|rule| rule.notes.clone()).collect()
        };
        prop_assert_eq!(notes(&found), notes(&expected));
        let problems = |sessions: &Sessions| -> BTreeSet<String> { sessions.rules.iter().flat_map(problems).collect() };
        prop_assert_eq!(problems(&found), problems(&expected));
        prop_assert_eq!(&found.policies, &expected.policies);
        prop_assert_eq!(&found.session_policies, &expected.session_policies);
        prop_assert_eq!(&found.backends, &expected.backends);
    }

    #[test]
    fn the_order_of_creation_decides_and_no_other((policies, routes, days) in cases()) {
        let named: Vec<_> = days.iter().enumerate().map(|(index, day)| (format!("p{index}"), *day)).collect();
        let renamed: Vec<_> = days.iter().enumerate().map(|(index, day)| (format!("q{}", 9 - index), *day)).collect();
        let (one, other) = (world_of(&policies, &routes, &named), world_of(&policies, &routes, &renamed));
        let (one, other) = (one.sessions(), other.sessions());
        let sessions = |sessions: &Sessions| -> Vec<_> {
            sessions
                .rules
                .iter()
                .map(|rule| (rule.session.clone(), rule.by_path.clone(), rule.problems.len()))
                .collect()
        };
        prop_assert_eq!(sessions(&one), sessions(&other));
        prop_assert_eq!(&one.policies, &other.policies);
    }

    #[test]
    fn no_two_rules_of_a_route_write_one_cookie((policies, routes, days) in cases()) {
        let named: Vec<_> = days.iter().enumerate().map(|(index, day)| (format!("p{index}"), *day)).collect();
        let world = world_of(&policies, &routes, &named);
        let sessions = world.sessions();
        let mut written = BTreeSet::new();
        for (facts, rule) in world.rules().iter().zip(&sessions.rules) {
            let of_rule = std::iter::once(&rule.session).chain(rule.by_path.values());
            let cookies = of_rule.filter_map(|session| match session {
                Session::Rule(session) => sessions.policies[&session.policy].cookie.as_ref(),
                _ => None,
            });
            let own = cookies.filter(|cookie| cookie.mode == limpet_core::config::schema::CookieModeConfig::Insert);
            let of_rule: BTreeSet<_> = own.map(|cookie| {
                let scope = cookie.per_scope.then(|| facts.name.clone());
                (facts.route.clone(), cookie.name.clone(), cookie.path.clone(), scope)
            }).collect();
            for cookie in of_rule {
                prop_assert!(written.insert(cookie.clone()), "{:?}", cookie);
            }
        }
        for report in sessions.session_policies.values() {
            for ancestor in &report.ancestors {
                let kinds: Vec<_> = ancestor.conditions.iter().map(|condition| condition.kind).collect();
                let is_accepted = ancestor.conditions[0].status == ConditionStatus::True;
                prop_assert!(
                    kinds == ["Accepted"] || (is_accepted && kinds == ["Accepted", "Programmed"]),
                    "{:?}",
                    ancestor
                );
            }
        }
    }
}
