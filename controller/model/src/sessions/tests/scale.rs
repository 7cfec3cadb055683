//! Run time with thousands of rules.
#![allow(clippy::disallowed_methods, reason = "a test may measure time")]

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;

/// The best of three runs, since other processes use the machine.
fn timed(world: &World) -> (Duration, Sessions) {
    let rules = world.rules();
    let build = |_| {
        let start = Instant::now();
        let sessions = sessions_of(world, &rules);
        (start.elapsed(), sessions)
    };
    (0..3).map(build).min_by_key(|(time, _)| *time).unwrap()
}

/// `count` rules, `per_route` in each route, on `count / per_service` Services with `policies` policies each.
fn large(count: usize, per_route: usize, per_service: usize, policies: usize) -> World {
    let mut world = World::default();
    for service in 0..count / per_service {
        let name = format!("s{service}");
        world.add(json!({"kind": "Service", "metadata": {"name": name}}));
        for index in 0..policies {
            let persistence = json!({"sessionName": format!("n{service}"), "idleTimeout": format!("{}m", index + 1)});
            world.add(policy(
                "BackendLBPolicy",
                &format!("p{service}-{index}"),
                &[&name],
                &persistence,
            ));
        }
    }
    for route in 0..count / per_route {
        let rules: Value = (0..per_route)
            .map(|index| rule(&[&format!("s{}", (route * per_route + index) / per_service)]))
            .collect();
        world.add(super::route(&format!("r{route}"), &rules));
    }
    world
}

#[test]
fn policies_of_one_service_were_multiplied_by_its_rules() {
    let world = large(20, 5, 20, 200);
    let rules = world.rules();
    crate::looked::take();
    let sessions = sessions_of(&world, &rules);
    let looked = crate::looked::take();
    assert!(looked < 20 * 200, "{looked}");
    let reports = sessions.session_policies.values();
    assert_eq!(reports.filter(|report| !report.ancestors.is_empty()).count(), 64);
}

/// Twenty times as many rules may take 150 times as long on a busy machine; quadratic would be four hundred times.
/// Takes seconds: what is quadratic shows with thousands of rules only.
#[test]
fn time_grows_with_the_number_of_rules() {
    for (shape, of) in [
        (
            "rules of several Services",
            Box::new(|count| large(count, 5, 5, 1)) as Box<dyn Fn(usize) -> World>,
        ),
        ("all rules in one route", Box::new(|count| large(count, count, 5, 1))),
        ("all rules on one Service", Box::new(|count| large(count, 5, count, 1))),
    ] {
        let (small, _) = timed(&of(500));
        let (large, sessions) = timed(&of(10_000));
        println!("{shape}: 500 rules in {small:?}, 10000 in {large:?}");
        assert!(
            large < small * 150,
            "{shape}: 500 rules in {small:?}, 10000 in {large:?}"
        );
        let has_session = |rule: &RuleSession| matches!(rule.session, Session::Rule(_));
        assert!(
            sessions.rules.len() == 10_000 && sessions.rules.iter().all(has_session),
            "{shape}"
        );
    }
}
