//! Session names: collisions, generated names, and names per scope.

use limpet_api::Text;
use serde_json::{Value, json};

use super::*;

fn named(name: &str) -> Value {
    json!({"sessionName": name})
}

/// The name of each rule's cookie, with `~` if it has one per scope; empty if it has none.
fn cookies(sessions: &Sessions) -> Vec<String> {
    let cookie = |rule: &RuleSession| match &rule.session {
        Session::Rule(session) | Session::EachDestination(session) => {
            let cookie = sessions.policies[&session.policy].cookie.as_ref().unwrap();
            format!("{}{}", cookie.name, if cookie.per_scope { "~" } else { "" })
        }
        _ => String::new(),
    };
    sessions.rules.iter().map(cookie).collect()
}

fn headers(sessions: &Sessions) -> Vec<String> {
    let header = |rule: usize| sessions.policy(rule).header.as_ref().unwrap().name.clone();
    (0..sessions.rules.len()).map(header).collect()
}

/// Check 4.
#[test]
fn a_policy_of_several_rules_has_a_cookie_for_each() {
    let mut world = with_policy(&named("s"));
    let one = world.sessions();
    assert_eq!(cookies(&one), ["s"]);
    world.add(route("web", &json!([rule(&["a"]), rule(&["a", "b"])])));
    let two = world.sessions();
    assert_eq!(cookies(&two), ["s", "s~"]);
    assert_eq!(two.status("p").len(), 1);
    let scope = |sessions: &Sessions| match &sessions.rules[0].session {
        Session::Rule(session) => session.scope.clone(),
        _ => Text::default(),
    };
    assert_eq!(scope(&one), "httproute/shop/web/0");
    assert_eq!(scope(&one), scope(&two));
    world.add(made(route("web", &json!([rule(&["a"])])), 1));
    world.add(made(route("other", &json!([rule(&["a"])])), 2));
    assert_eq!(cookies(&world.sessions()), ["s~", "s"]);
    world.add(made(for_hosts("other", &["other.example"], &json!([rule(&["a"])])), 2));
    world.add(made(for_hosts("web", &["web.example"], &json!([rule(&["a"])])), 1));
    assert_eq!(cookies(&world.sessions()), ["s", "s"]);
}

#[test]
fn another_teams_route_renamed_a_cookie_in_use() {
    let of = |name: &str, day: u32, sessions: &str| made(route(name, &json!([inline(&["a"], &named(sessions))])), day);
    let mut world = world(SERVICE_AND_ROUTE);
    world.add(of("web", 2, "s"));
    assert_eq!(cookies(&world.sessions()), ["s"]);
    for (name, other, expected) in [
        ("a", of("a", 3, "s"), ["s~", "s"]),
        ("z", of("z", 3, "s"), ["s", "s~"]),
        ("a", made(route("a", &json!([rule(&["b"])])), 1), ["s~", "s"]),
    ] {
        world.add(made(policy("BackendLBPolicy", "p", &["b"], &named("s")), 4));
        world.add(other);
        let sessions = world.sessions();
        assert_eq!(cookies(&sessions), expected, "{name}");
        let younger = usize::from(name == "z");
        let notes = [&sessions.rules[younger].notes, &sessions.rules[1 - younger].notes];
        let told = "because sessions of httproute/shop/web/0 had the name \"s\" before";
        assert!(notes[0].iter().any(|note| note.contains(told)), "{notes:?}");
        assert!(notes[1].is_empty(), "{notes:?}");
        world.objects.http_routes.remove(&ObjectName::new("shop", name));
    }
}

/// Check 9.
#[test]
fn a_cookie_without_a_name_has_one_for_each_scope() {
    let world = with_policy(&json!({}));
    assert_eq!(cookies(&world.sessions()), ["limpet~"]);
    let mut world = with_policy(&json!({}));
    world.add(route(
        "web",
        &json!([
            inline(&["a"], &json!({})),
            rule(&["a"]),
            inline(&["b"], &json!({"cookie": {}}))
        ]),
    ));
    let sessions = world.sessions();
    assert_eq!(cookies(&sessions), ["limpet~", "limpet~", "limpet~"]);
    assert_eq!(
        sessions.policies.len(),
        2,
        "equal policies are one, and backends see the newer shape's"
    );
    assert_eq!(
        sessions.status("p").len(),
        2,
        "one rule is overridden, and none conflicts"
    );
}

#[test]
fn a_header_without_a_name_has_one_of_its_scope() {
    let mut world = with_policy(&json!({"type": "Header"}));
    world.add(route(
        "web",
        &json!([rule(&["a"]), inline(&["b"], &json!({"type": "Header"})), rule(&["a"])]),
    ));
    let sessions = world.sessions();
    let names = headers(&sessions);
    // printf httproute/shop/web/0 | sha256sum | head -c 8
    assert_eq!(names[0], "limpet-session-d249823b");
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 3, "{names:?}");
    let mut rules = world.rules();
    rules.reverse();
    let reversed = sessions_of(&world, &rules);
    assert_eq!(headers(&reversed), names.into_iter().rev().collect::<Vec<_>>());
}

/// Check 14, the GEP's own example: two Services of one split.
#[test]
fn of_two_policies_of_a_split_with_one_name_the_younger_loses() {
    for persistence in [named("s"), json!({"sessionName": "S-H", "type": "Header"})] {
        for (p, q, winner, loser) in [(1, 2, "p", "q"), (2, 1, "q", "p")] {
            let mut world = world(SERVICE_AND_ROUTE);
            world.add(route("web", &json!([rule(&["a", "b"])])));
            world.add(made(policy("BackendLBPolicy", "p", &["a"], &persistence), p));
            world.add(made(policy("BackendLBPolicy", "q", &["b"], &persistence), q));
            let sessions = world.sessions();
            assert!(matches!(sessions.rules[0].session, Session::Rule(_)));
            assert!(sessions.status(winner)[0].starts_with(ACCEPTED));
            assert_eq!(
                sessions.status(loser),
                [format!(
                    "Accepted=False/Conflicted: spec.sessionPersistence.sessionName: expected a name that no older \
                     policy has on the route; BackendLBPolicy shop/{winner} has it, on: HTTPRoute shop/web"
                )]
            );
        }
    }
}

/// Check 14: two rules of one route.
#[test]
fn of_two_policies_of_a_route_with_one_name_the_younger_loses() {
    for (p, q, expected, winner, loser) in [(1, 2, ["s", ""], "p", "q"), (2, 1, ["", "s"], "q", "p")] {
        let mut world = world(SERVICE_AND_ROUTE);
        world.add(route("web", &json!([rule(&["a"]), rule(&["b"])])));
        world.add(made(policy("BackendLBPolicy", "p", &["a"], &named("s")), p));
        world.add(made(policy("BackendLBPolicy", "q", &["b"], &named("s")), q));
        let sessions = world.sessions();
        assert_eq!(cookies(&sessions), expected);
        assert_eq!(sessions.status(winner), [ACCEPTED]);
        assert!(
            sessions.status(loser)[0].starts_with("Accepted=False/Conflicted: spec.sessionPersistence.sessionName")
        );
        assert!(
            sessions.problems(0).is_empty() && sessions.problems(1).is_empty(),
            "it is no mistake of the route"
        );

        world.add(route("other", &json!([rule(&["a"]), rule(&["c"])])));
        world.add(for_hosts("own", &["own.example"], &json!([rule(&["b"])])));
        let sessions = world.sessions();
        assert_eq!(sessions.status(winner), [ACCEPTED]);
        if loser == "q" {
            assert_eq!(cookies(&sessions), ["s", "", "s~", "s~", ""]);
            assert!(
                sessions.status("q")[1]
                    .starts_with("Programmed=True/PartiallyProgrammed: spec.sessionPersistence.sessionName")
            );
        }
    }
}

#[test]
fn names_that_a_client_keeps_apart_do_not_collide() {
    let cookie = |name: &str, path: &str| json!({"cookie": {"name": name, "path": path}});
    let header = |name: &str| json!({"type": "Header", "header": {"name": name}});
    for (p, q, collide) in [
        (cookie("s", "/"), cookie("s", "/"), true),
        (cookie("s", "/a"), cookie("s", "/b"), false),
        (cookie("s", "/"), cookie("S", "/"), false),
        (cookie("s", "/"), header("s"), false),
        (header("s"), header("s"), false),
        (json!({}), json!({"cookie": {"name": "limpet"}}), false),
        (json!({}), json!({}), false),
    ] {
        let mut world = world(SERVICE_AND_ROUTE);
        world.add(route("web", &json!([rule(&["a"]), rule(&["b"])])));
        world.add(made(policy("XBackendTrafficPolicy", "p", &["a"], &p), 1));
        world.add(made(policy("XBackendTrafficPolicy", "q", &["b"], &q), 2));
        let sessions = world.sessions();
        assert_eq!(sessions.rules[1].session == Session::None, collide, "{p} {q}");
        let status = only_ancestor(sessions.report_of("XBackendTrafficPolicy", "q"));
        assert_eq!(
            status[0].starts_with("Accepted=False/Conflicted"),
            collide,
            "{p} {q}: {status:?}"
        );
    }
}

#[test]
fn an_applications_cookie_collides_with_one_of_the_filters_own() {
    for (p, q, collide) in [
        ("insert", "prefix", true),
        ("prefix", "insert", true),
        ("prefix", "prefix", false),
    ] {
        let mut world = world(SERVICE_AND_ROUTE);
        world.add(route("web", &json!([rule(&["a"]), rule(&["b"])])));
        let of = |name: &str, service: &str, mode: &str| {
            annotated(
                policy("BackendLBPolicy", name, &[service], &named("JSESSIONID")),
                "mode",
                mode,
            )
        };
        world.add(made(of("p", "a", p), 1));
        world.add(made(of("q", "b", q), 2));
        assert_eq!(world.sessions().rules[1].session == Session::None, collide, "{p} {q}");
    }
}

/// Check 2.
#[test]
fn rules_own_cookies_give_way_to_others_of_their_route() {
    let mut world = with_policy(&named("s"));
    world.add(route("web", &json!([inline(&["b"], &named("s")), rule(&["a"])])));
    let sessions = world.sessions();
    assert_eq!(cookies(&sessions), ["s~", "s"]);
    assert_eq!(sessions.status("p"), [ACCEPTED]);

    world.add(route(
        "web",
        &json!([
            inline(&["b"], &named("s")),
            inline(&["a"], &named("s")),
            inline(&["a"], &named("t"))
        ]),
    ));
    assert_eq!(cookies(&world.sessions()), ["s", "s~", "t"]);
    let at = |path: &str| json!({"cookie": {"name": "s", "path": path}});
    world.add(route(
        "web",
        &json!([inline(&["b"], &at("/b")), inline(&["a"], &at("/a"))]),
    ));
    assert_eq!(cookies(&world.sessions()), ["s", "s"]);
}

fn for_hosts(name: &str, hosts: &[&str], rules: &Value) -> Value {
    let mut route = route(name, rules);
    route["spec"]["hostnames"] = json!(hosts);
    route
}

#[test]
fn routes_of_one_host_do_not_overwrite_each_others_cookies() {
    let at = |path: &str| json!({"cookie": {"name": "s", "path": path}});
    let (s, hosts) = (named("s"), ["shop.example", "*.example"]);
    for (one, other, hosts, expected) in [
        (rule(&["a"]), rule(&["b"]), hosts, ["s", "s~"]),
        (rule(&["a"]), rule(&["b"]), ["shop.example", "pay.example"], ["s", "s"]),
        (inline(&["a"], &s), inline(&["a"], &s), hosts, ["s", "s~"]),
        (
            inline(&["a"], &s),
            inline(&["a"], &s),
            ["a.example", "b.example"],
            ["s", "s"],
        ),
        (inline(&["a"], &at("/a")), inline(&["a"], &at("/b")), hosts, ["s", "s"]),
        (inline(&["a"], &named("t")), inline(&["a"], &s), hosts, ["t", "s"]),
        (inline(&["c"], &s), rule(&["a"]), hosts, ["s~", "s"]),
        (rule(&["a"]), inline(&["c"], &s), hosts, ["s", "s~"]),
    ] {
        let mut world = world(SERVICE_AND_ROUTE);
        world.add(policy("BackendLBPolicy", "p", &["a"], &named("s")));
        world.add(policy("BackendLBPolicy", "q", &["b"], &named("s")));
        world.add(for_hosts("web", &hosts[..1], &json!([one])));
        world.add(for_hosts("web2", &hosts[1..], &json!([other])));
        let sessions = world.sessions();
        assert_eq!(cookies(&sessions), expected, "{one} {other}");
        let mut rules = world.rules();
        rules.reverse();
        let mut reversed = cookies(&sessions_of(&world, &rules));
        reversed.reverse();
        assert_eq!(reversed, expected, "{one} {other}");
        for policy in ["p", "q"] {
            for ancestor in &sessions.report(policy).ancestors {
                assert!(conditions(ancestor)[0].starts_with(ACCEPTED), "nobody is in conflict");
            }
        }
    }
}

#[test]
fn an_older_route_without_a_host_renamed_the_cookies_of_all_gateways() {
    let rules = json!([inline(&["a"], &named("s"))]);
    for (gateways, host, expected) in [
        (&["other"][..], None, ["s", "s"]),
        (&["other"], Some("*.example"), ["s", "s"]),
        (&["other", "gw"], None, ["s", "s~"]),
        (&["gw"], Some("*.example"), ["s", "s~"]),
        (&["other"], Some("shop.example"), ["s", "s~"]),
    ] {
        let mut world = world(SERVICE_AND_ROUTE);
        world.add(made(for_hosts("web", &["shop.example"], &rules), 2));
        let mut older = route_at("older", gateways, &rules);
        older["spec"]["hostnames"] = json!(host.into_iter().collect::<Vec<_>>());
        world.add(made(older, 1));
        assert_eq!(cookies(&world.sessions()), expected, "{gateways:?} {host:?}");
    }
}

#[test]
fn a_rule_gives_way_to_all_rules_of_a_policy() {
    let mut world = world(SERVICE_AND_ROUTE);
    world.add(policy("BackendLBPolicy", "p", &["a"], &named("s")));
    world.add(route("web", &json!([rule(&["a"]), rule(&["a"])])));
    world.add(route("web2", &json!([inline(&["b"], &named("s"))])));
    assert_eq!(cookies(&world.sessions()), ["s", "s~", "s~"]);
}

#[test]
fn policies_are_called_by_session_and_content() {
    let mut world = with_policy(&named("s"));
    let sessions = world.sessions();
    let (name, policy) = sessions.policies.first_key_value().unwrap();
    let (stem, digest) = name.rsplit_once('-').unwrap();
    assert_eq!((stem, digest.len()), ("s", 16));
    let name = name.clone();
    assert_eq!(policy.cookie.as_ref().unwrap().name, "s");
    world.add(super::policy("BackendLBPolicy", "q", &["b"], &named("s")));
    world.add(super::policy(
        "BackendLBPolicy",
        "r",
        &["c"],
        &json!({"sessionName": "s", "idleTimeout": "1h"}),
    ));
    world.add(for_hosts("web", &["web.example"], &json!([rule(&["a"])])));
    world.add(for_hosts("other", &["other.example"], &json!([rule(&["b"])])));
    world.add(for_hosts("third", &["third.example"], &json!([rule(&["c"])])));
    let sessions = world.sessions();
    assert_eq!(sessions.policies.len(), 2);
    assert!(sessions.policies.contains_key(&name));
}
