//! Fields of `sessionPersistence` count before annotations, and these where a shape has no field.

use serde_json::{Value, json};

use super::*;
use crate::CookiePath;
use limpet_core::config::schema::LifetimeTypeConfig;

/// The filter's policy and the object's message, in each shape of a policy, a rule and an XBackend.
fn everywhere(annotations: &[(&str, &str)], named: &Value, union: &Value) -> Vec<(Value, String)> {
    let annotate = |object: Value| {
        let all = annotations.iter();
        all.fold(object, |object, (name, value)| annotated(object, name, value))
    };
    let mut found = Vec::new();
    for (kind, persistence) in [
        ("BackendLBPolicy", named),
        ("XBackendTrafficPolicy", named),
        ("XBackendTrafficPolicy", union),
    ] {
        let mut world = world(SERVICE_AND_ROUTE);
        world.add(annotate(policy(kind, "p", &["a"], persistence)));
        let sessions = world.sessions();
        let status = only_ancestor(sessions.report_of(kind, "p"));
        found.push((sessions.written(0), status.join("\n")));
    }
    for (kind, persistence) in [("HTTPRoute", named), ("GRPCRoute", named), ("HTTPRoute", union)] {
        let mut world = world(SERVICE_AND_ROUTE);
        world.objects.http_routes.clear();
        let mut route = route("web", &json!([inline(&["a"], persistence)]));
        route["kind"] = json!(kind);
        world.add(annotate(route));
        let sessions = world.sessions();
        found.push((sessions.written(0), sessions.rules[0].notes.join("\n")));
    }
    let mut world = world(SERVICE_AND_ROUTE);
    world.add(annotate(json!({
        "kind": "XBackend",
        "metadata": {"name": "x"},
        "spec": {"type": "EndpointSelector", "sessionPersistence": union},
    })));
    let reference = json!({"group": "gateway.networking.x-k8s.io", "kind": "XBackend", "name": "x"});
    world.add(route("web", &json!([{"backendRefs": [reference]}])));
    let sessions = world.sessions();
    let x = ObjectName::new("shop", "x");
    let policy = serde_json::to_value(&sessions.policies[&sessions.destinations[&x].policy]).unwrap();
    found.push((policy, only_ancestor(&sessions.backends[&x]).join("\n")));
    for (index, (policy, _)) in found.iter_mut().enumerate() {
        let forward = policy["cookie"].as_object_mut().unwrap().remove("forward");
        assert_eq!(forward, [2, 5, 6].contains(&index).then_some(json!(true)), "{index}");
    }
    found
}

fn named() -> Value {
    json!({"sessionName": "s"})
}

fn union() -> Value {
    json!({"cookie": {"name": "s"}})
}

#[test]
fn annotations_say_what_a_shape_has_no_field_for() {
    let annotations = [
        ("idle-timeout", "30m"),
        ("absolute-timeout", "8h"),
        ("lifetime-type", "Permanent"),
        ("path", "/shop"),
    ];
    let expected = json!({
        "cookie": {"name": "s", "mode": "insert", "path": "/shop", "secure": "auto", "sameSite": "Strict",
            "lifetimeType": "Permanent"},
        "token": "sealed", "cacheControl": "private", "absoluteTimeout": "8h", "idleTimeout": "30m",
    });
    for (index, (policy, said)) in everywhere(&annotations, &named(), &union()).into_iter().enumerate() {
        assert_eq!(policy, expected, "{index}");
        assert!(!said.contains("no effect"), "{index}: {said}");
    }
}

#[test]
fn a_field_counts_before_its_annotation_and_the_status_says_so() {
    let annotations = [
        ("idle-timeout", "30m"),
        ("absolute-timeout", "8h"),
        ("lifetime-type", "Session"),
        ("path", "/shop"),
    ];
    let named = json!({
        "sessionName": "s", "idleTimeout": "10m", "absoluteTimeout": "1h",
        "cookieConfig": {"lifetimeType": "Permanent"},
    });
    let union = json!({"cookie": {"name": "s", "path": "/", "lifetimeType": "Permanent"}, "absoluteTimeout": "1h"});
    for (index, (policy, said)) in everywhere(&annotations, &named, &union).into_iter().enumerate() {
        let at = |pointer: &str| policy.pointer(pointer).cloned().unwrap_or_default();
        let (is_union, parent) = (
            [2, 5, 6].contains(&index),
            if (3..6).contains(&index) {
                "spec.rules[0]"
            } else {
                "spec"
            },
        );
        assert_eq!(at("/absoluteTimeout"), json!("1h"), "{index}");
        assert_eq!(at("/cookie/lifetimeType"), json!("Permanent"), "{index}");
        let overruled = |annotation: &str, field: &str| {
            format!(
                "metadata.annotations[session.limpet.dev/{annotation}]: it has no effect, because \
                 {parent}.sessionPersistence.{field} says otherwise"
            )
        };
        let lifetime = if is_union { "cookie" } else { "cookieConfig" };
        let mut all = vec![
            overruled("absolute-timeout", "absoluteTimeout"),
            overruled("lifetime-type", &format!("{lifetime}.lifetimeType")),
        ];
        if is_union {
            assert_eq!(
                (at("/cookie/path"), at("/idleTimeout")),
                (json!("/"), json!("30m")),
                "{index}"
            );
            all.push(overruled("path", "cookie.path"));
        } else {
            assert_eq!(
                (at("/cookie/path"), at("/idleTimeout")),
                (json!("/shop"), json!("10m")),
                "{index}"
            );
            all.push(overruled("idle-timeout", "idleTimeout"));
        }
        assert!(all.iter().all(|why| said.contains(why.as_str())), "{index}: {said}");
        assert_eq!(said.matches("no effect").count(), all.len(), "{index}: {said}");
    }
}

#[test]
fn what_agrees_with_a_field_is_not_worth_a_word() {
    let annotations = [
        ("absolute-timeout", "60m"),
        ("lifetime-type", "Session"),
        ("path", "root"),
    ];
    let named = json!({"sessionName": "s", "absoluteTimeout": "1h", "cookieConfig": {"lifetimeType": "Session"}});
    let union = json!({"cookie": {"name": "s", "path": "/", "lifetimeType": "Session"}, "absoluteTimeout": "1h"});
    for (index, (_, said)) in everywhere(&annotations, &named, &union).into_iter().enumerate() {
        assert!(!said.contains("no effect"), "{index}: {said}");
    }
}

#[test]
fn a_routes_annotation_cannot_change_what_its_policy_says() {
    let mut world = world(SERVICE_AND_ROUTE);
    let persistence = json!({"sessionName": "s", "absoluteTimeout": "1h"});
    let policy = policy("BackendLBPolicy", "p", &["a"], &persistence);
    world.add(annotated(policy, "idle-timeout", "20m"));
    let route = annotated(
        route("web", &json!([rule(&["a"]), rule(&["a"])])),
        "absolute-timeout",
        "2h",
    );
    world.add(annotated(route, "idle-timeout", "10m"));
    let sessions = world.sessions();
    let policy = sessions.written(0);
    assert_eq!(
        (&policy["absoluteTimeout"], &policy["idleTimeout"]),
        (&json!("1h"), &json!("10m"))
    );
    assert_eq!(sessions.status("p"), [ACCEPTED]);
    assert_eq!(
        sessions.rules[0].notes,
        [
            "metadata.annotations[session.limpet.dev/absolute-timeout]: it has no effect, because \
             spec.sessionPersistence.absoluteTimeout of BackendLBPolicy shop/p says otherwise"
        ]
    );
    assert!(sessions.rules[1].notes.is_empty(), "once for a route");
}

#[test]
fn a_permanent_cookie_needs_a_timeout_from_anywhere() {
    let with = |persistence: &Value, annotations: &[(&str, &str)], default: Option<u64>| {
        let mut world = world(SERVICE_AND_ROUTE);
        let annotations = annotations.iter();
        let policy = annotations.fold(
            policy("BackendLBPolicy", "p", &["a"], persistence),
            |object, (name, value)| annotated(object, name, value),
        );
        world.settings.session_defaults.absolute_timeout = default.map(|s| std::time::Duration::from_secs(s).into());
        world.add(policy);
        world.sessions().status("p")
    };
    let permanent = json!({"sessionName": "s", "cookieConfig": {"lifetimeType": "Permanent"}});
    let message = "Accepted=False/Invalid: spec.sessionPersistence.absoluteTimeout: expected a duration, because the \
                   cookie's lifetimeType is Permanent";
    let annotated = [("lifetime-type", "Permanent")];
    assert_eq!(with(&permanent, &[], None), [message]);
    assert_eq!(with(&named(), &annotated, None), [message]);
    assert_eq!(with(&named(), &annotated, Some(60)), [ACCEPTED]);
    assert_eq!(with(&permanent, &[("absolute-timeout", "1h")], None), [ACCEPTED]);
    let field = json!({"sessionName": "s", "absoluteTimeout": "1h"});
    assert_eq!(with(&field, &annotated, None), [ACCEPTED]);
}

#[test]
fn a_timeout_is_bounded_wherever_it_is_said() {
    for (name, value, message) in [
        ("idle-timeout", "0s", "expected a duration greater than zero"),
        ("absolute-timeout", "0h", "expected a duration greater than zero"),
        (
            "absolute-timeout",
            "721h",
            "expected at most 720h, the maxSessionLife of the controller's configuration, found 721h",
        ),
        (
            "idle-timeout",
            "43201m",
            "expected at most 720h, the maxSessionLife of the controller's configuration, found 720h1m",
        ),
    ] {
        let mut world = world(SERVICE_AND_ROUTE);
        world.add(annotated(policy("BackendLBPolicy", "p", &["a"], &named()), name, value));
        let text = format!("metadata.annotations[session.limpet.dev/{name}]: {message}");
        assert_eq!(
            world.sessions().status("p"),
            [format!("Accepted=False/Invalid: {text}")]
        );
    }
}

#[test]
fn defaults_give_way_to_fields_and_annotations() {
    let mut world = with_policy(&union());
    world.objects.session_policies.clear();
    world.add(policy(
        "XBackendTrafficPolicy",
        "p",
        &["a"],
        &json!({"cookie": {"name": "s", "path": "/a"}}),
    ));
    let defaults = &mut world.settings.session_defaults;
    defaults.path = Some(CookiePath::At("/b".to_owned()));
    defaults.lifetime_type = Some(LifetimeTypeConfig::Permanent);
    defaults.absolute_timeout = Some(std::time::Duration::from_secs(60).into());
    let policy = world.sessions().written(0);
    assert_eq!(
        (&policy["cookie"]["path"], &policy["cookie"]["lifetimeType"]),
        (&json!("/a"), &json!("Permanent"))
    );
}
