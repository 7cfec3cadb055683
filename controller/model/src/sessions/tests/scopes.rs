//! Rules that share sessions, and splits that keep or choose the backend.

use serde_json::{Value, json};

use super::*;
use crate::graph::SessionRequester;
use crate::{SessionScope, SessionSplit};

fn named(name: &str) -> Value {
    json!({"sessionName": name})
}

fn union(name: &str) -> Value {
    json!({"cookie": {"name": name}})
}

/// The scope of each rule's tokens, with `*` behind it where its cluster follows.
fn scopes(sessions: &Sessions) -> Vec<String> {
    let scope = |rule: &RuleSession| match &rule.session {
        Session::Rule(session) => session.scope.to_string(),
        Session::EachDestination(session) => format!("{}/*", session.scope),
        Session::Destinations => "destinations".to_owned(),
        Session::None => String::new(),
    };
    sessions.rules.iter().map(scope).collect()
}

/// The name of each rule's cookie, with `~` if each scope has its own.
fn cookies(sessions: &Sessions) -> Vec<String> {
    let cookie = |rule: usize| {
        let cookie = sessions.policy(rule).cookie.as_ref().unwrap();
        format!("{}{}", cookie.name, if cookie.per_scope { "~" } else { "" })
    };
    (0..sessions.rules.len()).map(cookie).collect()
}

fn scoped(scope: &str, persistence: &Value) -> World {
    let mut world = world(SERVICE_AND_ROUTE);
    let policy = policy("BackendLBPolicy", "p", &["a"], persistence);
    world.add(annotated(policy, "scope", scope));
    world
}

#[test]
fn a_page_and_its_socket_had_two_pods() {
    for (scope, expected) in [("service", "service/shop/a/80"), ("{name: basket}", "name/shop/basket")] {
        for persistence in [named("s"), json!({}), json!({"type": "Header", "sessionName": "x-s"})] {
            let mut world = scoped(scope, &persistence);
            world.add(route("web", &json!([rule(&["a"]), rule(&["a"])])));
            world.add(route("other", &json!([rule(&["a"])])));
            let sessions = world.sessions();
            assert_eq!(scopes(&sessions), [expected; 3], "{persistence}");
            assert_eq!(sessions.policies.len(), 1, "{persistence}");
            let session = |rule: usize| &sessions.rules[rule].session;
            assert!(session(0) == session(1) && session(1) == session(2));
            assert_eq!(sessions.status("p"), [ACCEPTED]);
        }
    }
    let mut world = scoped("service", &named("s"));
    world.add(route("web", &json!([rule(&["a"]), rule(&["a"])])));
    assert_eq!(cookies(&world.sessions()), ["s", "s"]);
    let mut world = scoped("service", &json!({}));
    world.add(route("web", &json!([rule(&["a"]), rule(&["a"])])));
    assert_eq!(cookies(&world.sessions()), ["limpet~", "limpet~"]);
}

#[test]
fn a_page_and_its_grpc_calls_had_two_pods() {
    for (scope, split, expected) in [
        ("service", "keep", "service/shop/a/80"),
        ("service", "choose", "service/shop/*"),
        ("{name: basket}", "choose", "name/shop/basket/*"),
    ] {
        let mut world = world(SERVICE_AND_ROUTE);
        let policy = annotated(policy("BackendLBPolicy", "p", &["a"], &named("s")), "scope", scope);
        world.add(annotated(policy, "split", split));
        world.add(route("web", &json!([rule(&["a"])])));
        let mut calls = route("calls", &json!([rule(&["a"])]));
        calls["kind"] = json!("GRPCRoute");
        world.add(calls);
        let sessions = world.sessions();
        assert_eq!(scopes(&sessions), [expected; 2]);
        assert_eq!(cookies(&sessions), ["s", "s"]);
        let destinations = |rule: usize| match &sessions.rules[rule].session {
            Session::Rule(session) | Session::EachDestination(session) => session.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(destinations(0), destinations(1));
    }
}

#[test]
fn other_services_ports_and_namespaces_have_other_sessions() {
    let mut world = world(SERVICE_AND_ROUTE);
    let shared = policy("BackendLBPolicy", "p", &["a", "b"], &named("s"));
    world.add(annotated(shared, "scope", "service"));
    let mut at_8080 = rule(&["a"]);
    at_8080["backendRefs"][0]["port"] = json!(8080);
    world.add(route("web", &json!([rule(&["a"]), rule(&["b"]), at_8080])));
    let sessions = world.sessions();
    let expected = ["service/shop/a/80", "service/shop/b/80", "service/shop/a/8080"];
    assert_eq!(scopes(&sessions), expected);
    assert_eq!(cookies(&sessions), ["s", "s~", "s~"]);

    let mut world = scoped("service", &named("s"));
    let mut elsewhere = route("elsewhere", &json!([rule(&["a"])]));
    elsewhere["metadata"]["namespace"] = json!("pay");
    elsewhere["spec"]["rules"][0]["backendRefs"][0]["namespace"] = json!("shop");
    world.add(elsewhere);
    let mut scopes = scopes(&world.sessions());
    scopes.sort();
    assert_eq!(scopes, ["service/pay/a/80", "service/shop/a/80"]);
}

/// A canary comes beside the Service of a policy, which may target both.
#[test]
fn a_second_service_changed_the_scope() {
    for targets in [&["a"][..], &["a", "b"]] {
        let mut world = world(SERVICE_AND_ROUTE);
        let policy = policy("BackendLBPolicy", "p", targets, &named("s"));
        world.add(annotated(policy, "scope", "service"));
        let before = scopes(&world.sessions());
        for services in [["a", "b"], ["b", "a"]] {
            world.add(route("web", &json!([rule(&services)])));
            assert_eq!(scopes(&world.sessions()), before);
        }
    }
}

#[test]
fn a_route_says_the_scope_of_its_own_rules() {
    let mut world = world(SERVICE_AND_ROUTE);
    let rules = json!([inline(&["a"], &named("s")), inline(&["a"], &named("s"))]);
    world.add(annotated(route("web", &rules), "scope", "{name: basket}"));
    let sessions = world.sessions();
    assert_eq!(scopes(&sessions), ["name/shop/basket"; 2]);
    assert_eq!(cookies(&sessions), ["s", "s"]);
    let mut world = scoped("service", &named("s"));
    world.settings.session_defaults.scope = Some(SessionScope::Service);
    world.add(annotated(route("web", &json!([rule(&["a"])])), "scope", "rule"));
    assert_eq!(scopes(&world.sessions()), ["httproute/shop/web/0"]);
    world.add(route("web", &json!([inline(&["a"], &named("s"))])));
    assert_eq!(scopes(&world.sessions()), ["service/shop/a/80"]);
}

#[test]
fn rules_of_one_scope_with_other_backends_or_names_are_told() {
    let shared = |rules: Value| annotated(route("web", &rules), "scope", "{name: basket}");
    for (rules, expected) in [
        (json!([inline(&["a"], &named("s")), inline(&["a"], &named("s"))]), None),
        (json!([inline(&["a"], &union("s")), inline(&["b"], &union("s"))]), None),
        (
            json!([inline(&["a"], &named("s")), inline(&["b"], &named("s"))]),
            Some("have different backends"),
        ),
        (
            json!([inline(&["a"], &named("s")), inline(&["a"], &named("t"))]),
            Some("have cookies or headers with different names"),
        ),
        (
            json!([
                inline(&["a"], &union("s")),
                inline(&["a"], &json!({"cookie": {"name": "s", "path": "/b"}}))
            ]),
            Some("have cookies or headers with different names, paths or domains"),
        ),
        (
            json!([
                inline(&["a"], &json!({"sessionName": "s", "absoluteTimeout": "1h"})),
                inline(&["a"], &json!({"sessionName": "s", "absoluteTimeout": "2h"}))
            ]),
            Some("have different timeouts"),
        ),
    ] {
        let mut world = world(SERVICE_AND_ROUTE);
        world.add(shared(rules.clone()));
        let sessions = world.sessions();
        for rule in &sessions.rules {
            let told = rule.notes.iter().find(|note| note.contains("basket"));
            assert_eq!(told.is_some(), expected.is_some(), "{rules}: {:?}", rule.notes);
            if let (Some(told), Some(expected)) = (told, expected) {
                assert!(told.contains(expected), "{told}");
                assert!(told.starts_with("the rules of the scope name/shop/basket"), "{told}");
                let both = "HTTPRoute shop/web spec.rules[0], HTTPRoute shop/web spec.rules[1]";
                assert!(told.ends_with(both), "{told}");
            }
        }
    }
}

#[test]
fn the_path_of_a_match_is_for_one_rule() {
    let mut world = world(SERVICE_AND_ROUTE);
    let shared = annotated(route("web", &json!([inline(&["a"], &named("s"))])), "scope", "service");
    world.add(annotated(shared.clone(), "path", "route"));
    let expected = "metadata.annotations[session.limpet.dev/path]: expected root or a path like /shop, because rules \
        share the session";
    assert_eq!(world.sessions().problems(0), [expected]);
    world.add(shared);
    world.settings.session_defaults.path = Some(crate::CookiePath::Route);
    let sessions = world.sessions();
    assert_eq!(sessions.written(0)["cookie"]["path"], "/");
}

/// A browser that has a `Secure` cookie refuses the same over HTTP.
#[test]
fn a_rule_for_https_made_a_shared_cookie_secure() {
    let mut world = scoped("service", &named("s"));
    world.add(route("web", &json!([rule(&["a"]), rule(&["a"])])));
    let mut rules = world.rules();
    let host = BTreeSet::from([Hostname::Any]);
    rules[0].schemes.over_https.clone_from(&host);
    rules[1].schemes.over_http.clone_from(&host);
    let sessions = sessions_of(&world, &rules);
    assert_eq!(sessions.policies.len(), 1);
    assert_eq!(sessions.written(0)["cookie"]["secure"], "never");
}

#[test]
fn the_split_chooses_in_the_newer_shape_and_not_in_the_older_one() {
    for (persistence, kind, expected) in [
        (named("s"), "BackendLBPolicy", "httproute/shop/web/0"),
        (named("s"), "XBackendTrafficPolicy", "httproute/shop/web/0"),
        (json!({}), "XBackendTrafficPolicy", "httproute/shop/web/0"),
        (union("s"), "XBackendTrafficPolicy", "httproute/shop/web/0/*"),
    ] {
        for (said, of_said) in [
            (None, expected),
            (Some("keep"), "httproute/shop/web/0"),
            (Some("choose"), "httproute/shop/web/0/*"),
        ] {
            for place in 0..4 {
                let mut world = world(SERVICE_AND_ROUTE);
                let mut policy = policy(kind, "p", &["a"], &persistence);
                let own = place == 2;
                let rules = json!([if own {
                    inline(&["a", "b"], &persistence)
                } else {
                    rule(&["a", "b"])
                }]);
                let mut route = route("web", &rules);
                match (said, place) {
                    (Some(said), 0) => policy = annotated(policy, "split", said),
                    (Some(said), 1 | 2) => route = annotated(route, "split", said),
                    (Some(said), _) => {
                        world.settings.session_defaults.split = serde_json::from_value(json!(said)).unwrap();
                    }
                    (None, _) => {}
                }
                world.add(policy);
                world.add(route);
                let sessions = world.sessions();
                assert_eq!(scopes(&sessions), [of_said], "{persistence} {kind} {said:?} {place}");
                let per_scope = of_said.ends_with('*') || persistence == json!({});
                assert_eq!(sessions.policy(0).cookie.as_ref().unwrap().per_scope, per_scope);
            }
        }
    }
}

#[test]
fn a_rule_with_one_backend_has_one_cookie_whatever_the_split() {
    let mut world = world(SERVICE_AND_ROUTE);
    world.add(route("web", &json!([inline(&["a"], &union("s"))])));
    assert_eq!(cookies(&world.sessions()), ["s"]);
    // The scope is the same.
    world.add(route("web", &json!([inline(&["a", "b"], &union("s"))])));
    let sessions = world.sessions();
    assert_eq!(cookies(&sessions), ["s~"]);
    assert_eq!(scopes(&sessions), ["httproute/shop/web/0/*"]);
}

#[test]
fn rules_that_share_a_scope_and_choose_share_it_backend_by_backend() {
    let mut world = world(SERVICE_AND_ROUTE);
    let mut policy = policy("XBackendTrafficPolicy", "p", &["a", "b"], &union("s"));
    policy = annotated(policy, "scope", "service");
    world.add(policy);
    world.add(route("web", &json!([rule(&["a", "b"]), rule(&["b"])])));
    let sessions = world.sessions();
    assert_eq!(scopes(&sessions), ["service/shop/*"; 2]);
    assert_eq!(cookies(&sessions), ["s~", "s~"]);
}

const BACKENDS: &str = "
kind: XBackend
metadata: {name: one}
spec: {type: EndpointSelector, port: {number: 80}, sessionPersistence: {cookie: {name: s1}}}
---
kind: XBackend
metadata: {name: two}
spec: {type: EndpointSelector, port: {number: 80}, sessionPersistence: {cookie: {name: s1}}}
";

fn to_backends() -> Value {
    let backend = |name: &str| json!({"group": "gateway.networking.x-k8s.io", "kind": "XBackend", "name": name});
    route("web", &json!([{"backendRefs": [backend("one"), backend("two")]}]))
}

#[test]
fn a_canary_of_xbackends_could_not_be_sticky() {
    let mut world = world(BACKENDS);
    world.add(to_backends());
    assert!(!world.sessions().rules[0].problems.is_empty());
    world.add(annotated(to_backends(), "split", "keep"));
    for of_defaults in [false, true] {
        if of_defaults {
            world.add(to_backends());
            world.settings.session_defaults.split = Some(SessionSplit::Keep);
        }
        let sessions = world.sessions();
        assert_eq!(scopes(&sessions), ["httproute/shop/web/0"]);
        let cookie = sessions.policy(0).cookie.as_ref().unwrap();
        assert!(cookie.forward && cookie.name == "s1" && !cookie.per_scope);
        assert!(sessions.destinations.is_empty());
        let first = ObjectName::new("shop", "one");
        assert_eq!(
            sessions.rules[0].requested_by,
            Some(SessionRequester::Backends(vec![first.clone()]))
        );
        for (name, expected) in [
            ("one", "so its sessions are for all backends of"),
            ("two", "so the sessions of XBackend shop/one apply on"),
        ] {
            let report = &sessions.backends[&ObjectName::new("shop", name)];
            let status = only_ancestor(report);
            assert!(
                status[0].starts_with("Accepted=True/Accepted") && status[0].contains(expected),
                "{status:?}"
            );
        }
    }
}

#[test]
fn what_is_about_rules_is_refused_on_an_xbackend() {
    for (name, value) in [("scope", "service"), ("split", "keep")] {
        let mut world = world(BACKENDS);
        let key = ObjectName::new("shop", "one");
        let mut backend = limpet_api::Object::clone(&world.objects.backends[&key]);
        backend
            .meta
            .annotations
            .insert(format!("session.limpet.dev/{name}"), value.to_owned());
        world.objects.backends.insert(key.clone(), backend.into());
        world.add(to_backends());
        let status = only_ancestor(&world.sessions().backends[&key]);
        assert!(
            status[0].contains(&format!("session.limpet.dev/{name}]: expected on the route")),
            "{status:?}"
        );
    }
}

#[test]
fn many_cookies_of_a_host_are_told_on_routes_and_policies() {
    let rules = |count: usize| Value::from(vec![rule(&["a"]); count]);
    for (count, is_told) in [(20, false), (21, true)] {
        let mut world = with_policy(&named("s"));
        world.add(route("web", &rules(count - 7)));
        world.add(route("more", &rules(7)));
        let sessions = world.sessions();
        let text = format!("the sessions of any host have {count} cookies");
        for rule in &sessions.rules {
            assert_eq!(
                rule.notes.iter().any(|note| note.starts_with(&text)),
                is_told,
                "{count}"
            );
        }
        assert_eq!(sessions.status("p")[0].contains(&text), is_told, "{count}");
    }
    let mut world = scoped("service", &named("s"));
    world.add(route("web", &rules(192)));
    assert_eq!(world.sessions().status("p"), [ACCEPTED]);
    let mut world = world_with_split();
    for (count, is_told) in [(10, false), (11, true)] {
        world.add(route("web", &Value::from(vec![rule(&["a", "b"]); count])));
        let told = format!("the sessions of any host have {} cookies", 2 * count);
        assert_eq!(world.sessions().status_of_x("p").contains(&told), is_told, "{count}");
    }
}

fn world_with_split() -> World {
    let mut world = world(SERVICE_AND_ROUTE);
    world.add(policy("XBackendTrafficPolicy", "p", &["a", "b"], &union("s")));
    world
}

impl Sessions {
    fn status_of_x(&self, name: &str) -> String {
        only_ancestor(self.report_of("XBackendTrafficPolicy", name)).concat()
    }
}

#[test]
fn rules_that_share_a_session_have_one_name_whatever_is_beside_them() {
    let of_hosts = |name: &str, hosts: &[&str], rules: Value| {
        let mut route = route(name, &rules);
        route["spec"]["hostnames"] = json!(hosts);
        route
    };
    let shared = |name: &str, hosts: &[&str]| {
        let route = of_hosts(name, hosts, json!([inline(&["a"], &named("s"))]));
        annotated(route, "scope", "{name: basket}")
    };
    let mut world = world(SERVICE_AND_ROUTE);
    world.add(of_hosts("web", &["c.example"], json!([rule(&["c"])])));
    world.add(shared("x1", &["a.example"]));
    world.add(shared("x2", &["a.example", "b.example"]));
    for (name, per_scope) in [("x3", false), ("a", true)] {
        world.add(of_hosts(name, &["b.example"], json!([inline(&["a"], &named("s"))])));
        let sessions = world.sessions();
        let of_scope = world.rules().into_iter().zip(&sessions.rules);
        let of_scope: Vec<&Session> = of_scope
            .filter(|(facts, _)| ["x1", "x2"].contains(&facts.route.name.name.as_str()))
            .map(|(_, rule)| &rule.session)
            .collect();
        assert_eq!(of_scope[0], of_scope[1], "{name}");
        assert_eq!(
            sessions.policy_of(of_scope[0]).cookie.as_ref().unwrap().per_scope,
            per_scope,
            "{name}"
        );
    }

    // Where the weights choose, a rule with both backends has a cookie for each, and so has one with one of them.
    let mut world = self::world(SERVICE_AND_ROUTE);
    let rules = json!([inline(&["a", "b"], &union("s")), inline(&["a"], &union("s"))]);
    world.add(annotated(route("web", &rules), "scope", "{name: basket}"));
    assert_eq!(cookies(&world.sessions()), ["s~", "s~"]);
}

#[test]
fn the_cookie_of_a_backend_is_secure_on_all_rules_or_on_none() {
    let mut world = world(SERVICE_AND_ROUTE);
    let rules = json!([inline(&["a", "b"], &union("s")), inline(&["b"], &union("s"))]);
    world.add(annotated(route("web", &rules), "scope", "service"));
    let mut rules = world.rules();
    let host = BTreeSet::from([Hostname::Any]);
    rules[0].schemes.over_https.clone_from(&host);
    rules[0].schemes.over_http.clone_from(&host);
    rules[1].schemes.over_https.clone_from(&host);
    let sessions = sessions_of(&world, &rules);
    for rule in [0, 1] {
        assert_eq!(sessions.written(rule)["cookie"]["secure"], "never");
    }
}

#[test]
fn rules_that_no_client_has_one_session_of_are_no_strangers() {
    let mut world = world(SERVICE_AND_ROUTE);
    for (name, service) in [("p", "a"), ("q", "b")] {
        let policy = policy("XBackendTrafficPolicy", name, &[service], &union(name));
        world.add(annotated(policy, "scope", "service"));
    }
    world.add(route("web", &json!([rule(&["a"]), rule(&["b"])])));
    let is_told = |sessions: &Sessions| {
        sessions
            .rules
            .iter()
            .any(|rule| rule.notes.iter().any(|note| note.contains("scope")))
    };
    assert!(!is_told(&world.sessions()));
    let mut world = self::world(SERVICE_AND_ROUTE);
    for (name, service) in [("web", "a"), ("other", "b")] {
        let mut route = route(name, &json!([inline(&[service], &named("s"))]));
        route["spec"]["hostnames"] = json!([format!("{name}.example")]);
        world.add(annotated(route, "scope", "{name: basket}"));
    }
    assert!(!is_told(&world.sessions()));
}

/// Half of the rules of a scope are served over HTTP and half over HTTPS, with their own hosts.
#[test]
fn hosts_of_a_shared_scope_were_compared_with_each_other_for_each_rule() {
    let looked = |count: usize| {
        let mut world = scoped("service", &named("s"));
        for number in 0..count {
            world.add(route(&format!("r{number}"), &json!([rule(&["a"])])));
        }
        let mut rules = world.rules();
        for (number, rule) in rules.iter_mut().enumerate() {
            let host = Hostname::Exact(format!("h{number}.example").into());
            let hosts = if number % 2 == 0 {
                &mut rule.schemes.over_http
            } else {
                &mut rule.schemes.over_https
            };
            hosts.insert(host);
        }
        crate::looked::take();
        sessions_of(&world, &rules);
        crate::looked::take()
    };
    let (few, many) = (looked(100), looked(1000));
    assert!(many > 0 && many < 20 * few, "{few} hosts of 100 rules, {many} of 1000");
}
