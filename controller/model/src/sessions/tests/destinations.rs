//! `XBackend`: the split chooses the backend, and each backend has its own sessions.

use serde_json::{Value, json};

use super::*;
use crate::graph::SessionUse;
use crate::looked;

fn backend(name: &str, persistence: &Value) -> Value {
    let mut backend = json!({
        "kind": "XBackend",
        "metadata": {"name": name, "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"type": "EndpointSelector", "endpointSelector": {"matchLabels": {"app": name}},
            "port": {"number": 80}},
    });
    if !persistence.is_null() {
        backend["spec"]["sessionPersistence"] = persistence.clone();
    }
    backend
}

/// `x:` marks XBackends.
fn leading(to: &[&str]) -> Value {
    let reference = |name: &&str| match name.strip_prefix("x:") {
        Some(name) => json!({"group": "gateway.networking.x-k8s.io", "kind": "XBackend", "name": name}),
        None => json!({"name": name, "port": 80}),
    };
    json!({"backendRefs": to.iter().map(reference).collect::<Vec<_>>()})
}

fn with(backends: &[(&str, Value)], rules: &Value) -> World {
    let mut world = world(SERVICE_AND_ROUTE);
    for (name, persistence) in backends {
        world.add(backend(name, persistence));
    }
    world.add(route("web", rules));
    world
}

impl Sessions {
    fn of_backend(&self, name: &str) -> Option<(&SessionUse, Value)> {
        let session = self.destinations.get(&ObjectName::new("shop", name))?;
        Some((session, serde_json::to_value(&self.policies[&session.policy]).unwrap()))
    }

    fn backend_status(&self, name: &str) -> Vec<String> {
        only_ancestor(&self.backends[&ObjectName::new("shop", name)])
    }
}

const BACKEND_ACCEPTED: &str = "Accepted=True/Accepted: The backend is accepted";

#[test]
fn each_backend_has_sessions_of_its_own() {
    let backends = [
        ("blue", json!({"cookie": {}})),
        (
            "green",
            json!({"cookie": {"name": "g", "lifetimeType": "Permanent"}, "absoluteTimeout": "1h"}),
        ),
        ("red", json!({"type": "Header", "header": {"name": "x-red"}})),
        ("grey", Value::Null),
    ];
    let sessions = with(
        &backends,
        &json!([leading(&["x:blue", "x:green", "x:red", "x:grey"]), leading(&["x:blue"])]),
    )
    .sessions();
    assert_eq!(sessions.rules[0].session, Session::Destinations);
    assert_eq!(sessions.rules[1].session, Session::Destinations);
    let (blue, written) = sessions.of_backend("blue").unwrap();
    assert_eq!(blue.scope, "xbackend/shop/blue");
    assert_eq!(written["cookie"]["name"], "limpet");
    assert_eq!(written["cookie"]["perScope"], true);
    assert_eq!(written["cookie"]["path"], "/");
    assert_eq!(written["cookie"]["forward"], true, "SHOULD be forwarded");
    let (green, written) = sessions.of_backend("green").unwrap();
    assert_eq!(green.scope, "xbackend/shop/green");
    assert_eq!(
        written,
        json!({
            "cookie": {"name": "g", "mode": "insert", "path": "/", "secure": "auto", "sameSite": "Strict",
                "lifetimeType": "Permanent", "forward": true},
            "absoluteTimeout": "1h", "token": "sealed", "cacheControl": "private",
        })
    );
    let (_, written) = sessions.of_backend("red").unwrap();
    assert_eq!(
        written["header"],
        json!({"name": "x-red", "mode": "insert", "forward": true})
    );
    assert!(sessions.of_backend("grey").is_none());
    for name in ["blue", "green", "red", "grey"] {
        assert_eq!(sessions.backend_status(name), [BACKEND_ACCEPTED]);
        assert_eq!(sessions.backends[&ObjectName::new("shop", name)].observed_generation, 3);
    }
}

#[test]
fn backends_of_other_rules_do_not_overwrite_each_others_cookies() {
    let named = |name: &str| json!({"cookie": {"name": name}});
    let backends = [("blue", named("s")), ("green", named("s")), ("red", named("r"))];
    let rules = [leading(&["x:blue"]), leading(&["x:green", "x:red"])];
    let mut world = with(&backends, &json!(rules));
    let per_scope = |sessions: &Sessions| {
        ["blue", "green", "red"].map(|name| sessions.of_backend(name).unwrap().1["cookie"]["perScope"] == true)
    };
    assert_eq!(per_scope(&world.sessions()), [false, true, false]);
    world.add(route(
        "web",
        &json!([leading(&["x:blue"]), leading(&["x:blue", "x:red"])]),
    ));
    world.add(route("other", &json!([leading(&["x:green"])])));
    assert_eq!(per_scope(&world.sessions()), [false, true, false]);
    let mut of_host = route("other", &json!([leading(&["x:green"])]));
    of_host["spec"]["hostnames"] = json!(["other.example"]);
    world.add(of_host);
    let mut of_host = route("web", &json!([leading(&["x:blue", "x:red"])]));
    of_host["spec"]["hostnames"] = json!(["web.example"]);
    world.add(of_host);
    assert_eq!(per_scope(&world.sessions()), [false, false, false]);
}

#[test]
fn backends_without_sessions_leave_the_rule_as_it_is() {
    let mut world = with(&[("grey", Value::Null)], &json!([leading(&["x:grey"])]));
    assert_eq!(world.sessions().rules[0].session, Session::None);
    world.add(route("web", &json!([leading(&["x:grey", "a"])])));
    world.add(policy("BackendLBPolicy", "p", &["a"], &json!({"sessionName": "s"})));
    assert_eq!(world.sessions().policy(0).cookie.as_ref().unwrap().name, "s");
}

#[test]
fn a_policy_of_the_rule_would_override_the_split() {
    let mut world = with(&[("blue", json!({"cookie": {}}))], &json!([leading(&["x:blue", "a"])]));
    world.add(policy("BackendLBPolicy", "p", &["a"], &json!({"sessionName": "s"})));
    let sessions = world.sessions();
    assert_eq!(sessions.rules[0].session, Session::Destinations);
    assert_eq!(
        sessions.status("p"),
        [
            ACCEPTED,
            "Programmed=False/Overridden: sessions of XBackends take precedence on: HTTPRoute shop/web spec.rules[0]"
        ]
    );
    world.add(backend("blue", &json!({"cookie": {"path": "x"}})));
    let sessions = world.sessions();
    assert_eq!(sessions.rules[0].session, Session::None);
    assert!(sessions.status("p")[1].starts_with("Programmed=False/Overridden"));
}

/// GEP-1619, Route Rule API.
#[test]
fn a_rules_own_persistence_counts_over_its_backends() {
    let mut rule = leading(&["x:blue", "x:green"]);
    rule["sessionPersistence"] = json!({"cookie": {"name": "s"}});
    let backends = [
        ("blue", json!({"cookie": {"name": "b"}})),
        ("green", json!({"cookie": {"name": "b"}})),
    ];
    let world = with(&backends, &json!([rule, leading(&["x:blue"])]));
    let sessions = world.sessions();
    assert_eq!(sessions.policy(0).cookie.as_ref().unwrap().name, "s");
    assert_eq!(sessions.rules[1].session, Session::Destinations);
    assert!(sessions.of_backend("blue").is_some());
    assert!(sessions.of_backend("green").is_none(), "nobody would use it");
    let text =
        "sessionPersistence of the rule takes precedence over the backend's on: HTTPRoute shop/web spec.rules[0]";
    assert_eq!(sessions.backend_status("blue"), [format!("{BACKEND_ACCEPTED}; {text}")]);
}

#[test]
fn two_backends_of_a_split_with_one_name_are_refused() {
    let cookie = |name: &str| json!({"cookie": {"name": name}});
    let header = |name: &str| json!({"type": "Header", "header": {"name": name}});
    for (blue, green, collide) in [
        (cookie("s"), cookie("s"), true),
        (cookie("s"), cookie("S"), false),
        (cookie("s"), cookie("t"), false),
        (header("X-S"), header("x-s"), true),
        (cookie("s"), header("s"), false),
        (json!({"cookie": {}}), json!({"cookie": {}}), false),
    ] {
        let backends = [("blue", blue.clone()), ("green", green.clone())];
        let world = with(
            &backends,
            &json!([leading(&["x:green", "x:blue"]), leading(&["x:blue", "x:blue"])]),
        );
        let sessions = world.sessions();
        assert_eq!(
            sessions.rules[1].session,
            Session::Destinations,
            "one backend twice is no two backends"
        );
        if collide {
            assert_eq!(sessions.rules[0].session, Session::None, "{blue} {green}");
            assert_eq!(
                sessions.problems(0),
                [
                    "spec.rules[0].backendRefs: expected backends whose sessions have different names: XBackend \
                     shop/blue and XBackend shop/green have the same"
                ]
            );
            let text = "spec.sessionPersistence: expected a name that no other backend of the rule has; there are no \
                        sessions on: HTTPRoute shop/web spec.rules[0]";
            assert_eq!(
                sessions.backend_status("green"),
                [format!("Accepted=False/Conflicted: {text}")]
            );
            assert_eq!(sessions.backend_status("blue"), [format!("{BACKEND_ACCEPTED}; {text}")]);
        } else {
            assert_eq!(sessions.rules[0].session, Session::Destinations, "{blue} {green}");
            assert_eq!(sessions.backend_status("green"), [BACKEND_ACCEPTED]);
        }
    }
}

#[test]
fn what_cannot_be_followed_is_the_backends_alone() {
    let none = "remove it in an XBackend, which has cookie and header";
    for (persistence, expected) in [
        (
            json!({}),
            "spec.sessionPersistence.cookie: expected the cookie, which may be empty, because the type is Cookie"
                .to_owned(),
        ),
        (
            json!({"type": "Header"}),
            "spec.sessionPersistence.header: expected the header's name, because the type is Header".to_owned(),
        ),
        (
            json!({"cookie": {}, "sessionName": "s"}),
            format!("spec.sessionPersistence.sessionName: {none}"),
        ),
        (
            json!({"cookie": {}, "idleTimeout": "1h"}),
            format!("spec.sessionPersistence.idleTimeout: {none}"),
        ),
        (
            json!({"cookie": {}, "cookieConfig": {}}),
            format!("spec.sessionPersistence.cookieConfig: {none}"),
        ),
    ] {
        let backends = [("blue", persistence), ("green", json!({"cookie": {}}))];
        let sessions = with(&backends, &json!([leading(&["x:blue", "x:green"])])).sessions();
        assert_eq!(
            sessions.backend_status("blue"),
            [format!("Accepted=False/Invalid: {expected}")]
        );
        assert!(sessions.of_backend("blue").is_none());
        assert_eq!(
            sessions.rules[0].session,
            Session::Destinations,
            "green has its sessions"
        );
        assert!(sessions.problems(0).is_empty());
    }
    let mut external = backend("blue", &json!({"cookie": {}}));
    external["spec"]["type"] = json!("ExternalHostname");
    let mut world = with(&[], &json!([leading(&["x:blue"])]));
    world.add(external);
    assert_eq!(
        world.sessions().backend_status("blue"),
        [
            "Accepted=False/Invalid: spec.sessionPersistence: remove it with type ExternalHostname: only an \
             EndpointSelector has sessions"
        ]
    );
}

#[test]
fn a_backends_annotations_are_its_own() {
    let of = |name: &str, value: &str| {
        let mut world = with(&[], &json!([leading(&["x:blue"])]));
        world.add(annotated(
            backend("blue", &json!({"cookie": {"name": "s"}})),
            name,
            value,
        ));
        world.sessions()
    };
    assert_eq!(
        of("forward", "false").of_backend("blue").unwrap().1["cookie"].get("forward"),
        None
    );
    assert_eq!(of("strict", "true").of_backend("blue").unwrap().1["strict"], true);
    assert_eq!(
        of("mode", "prefix").of_backend("blue").unwrap().1["cookie"]["mode"],
        "prefix"
    );
    let sessions = of("strict", "yes");
    assert!(sessions.of_backend("blue").is_none());
    assert_eq!(
        sessions.backend_status("blue"),
        [
            "Accepted=False/Invalid: metadata.annotations[session.limpet.dev/strict]: expected true or false, found \
             \"yes\""
        ]
    );
    let mut world = with(&[("blue", json!({"cookie": {"name": "s"}}))], &json!([]));
    world.add(annotated(
        route("web", &json!([leading(&["x:blue"])])),
        "strict",
        "true",
    ));
    let sessions = world.sessions();
    assert_eq!(sessions.of_backend("blue").unwrap().1.get("strict"), None);
    assert_eq!(sessions.rules[0].session, Session::Destinations);
}

#[test]
fn fields_that_nothing_reads_are_named() {
    let mut blue = backend("blue", &json!({"cookie": {"name": "s", "colour": "blue"}}));
    blue["spec"]["shape"] = json!("round");
    let mut world = with(&[], &json!([leading(&["x:blue"])]));
    world.add(blue);
    assert_eq!(
        world.sessions().backend_status("blue"),
        [format!(
            "{BACKEND_ACCEPTED}. Not supported and ignored: spec.sessionPersistence.cookie.colour, spec.shape"
        )]
    );
}

#[test]
fn each_backend_and_each_policy_looked_at_all_rules() {
    const MANY: usize = 200;
    let mut world = World::default();
    let persistence = json!({"cookie": {}});
    for index in 0..MANY {
        let name = format!("s{index}");
        world.add(json!({"kind": "Service", "metadata": {"name": name}}));
        world.add(policy("BackendLBPolicy", &format!("p{index}"), &[&name], &json!({})));
        world.add(backend(&format!("x{index}"), &persistence));
        let rules = json!([leading(&[&format!("x:x{index}")]), leading(&[&name])]);
        world.add(route(&format!("r{index}"), &rules));
    }
    let rules = world.rules();
    looked::take();
    let sessions = sessions_of(&world, &rules);
    assert_eq!(sessions.destinations.len(), MANY);
    assert!((1..=4 * MANY).contains(&looked::take()));
}
