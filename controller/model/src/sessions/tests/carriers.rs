//! What annotations and defaults say of carriers, and of addresses in their place.

use serde_json::{Value, json};

use super::annotations::{at, named, worlds};
use super::*;
use crate::SessionFields;
use crate::session_fields::{FieldTarget, SessionField};

#[test]
fn defaults_for_cookies_do_not_hurt_what_is_in_their_place() {
    let defaults: SessionFields = serde_json::from_value(json!({
        "sameSite": "Lax", "path": "/shop", "mode": "prefix", "forward": true, "idleTimeout": "1h", "token": "signed",
        "strict": true, "begin": {"methods": ["POST"]}, "move": {"header": "x-move"}, "end": {"cookie": "SID"},
        "tell": {"header": {"name": "x-token"}}, "also": [{"header": {"name": "x-other"}}],
    }))
    .unwrap();
    let of_all = json!({
        "strict": true, "begin": {"methods": ["POST"]}, "move": {"header": "x-move"}, "token": "sealed",
        "cacheControl": "private",
    });
    let mut of_query = of_all.clone();
    of_query["query"] = json!({"name": "s", "forward": true});
    of_query["tell"] = json!(defaults.tell);
    of_query["also"] = json!(defaults.also);
    of_query["idleTimeout"] = json!("1h");
    of_query["token"] = json!("signed");
    let mut of_source = of_all;
    of_source["end"] = json!({"cookie": "SID"});
    of_source["source"] = json!({"timeout": "1h"});
    for (name, value, expected) in [
        ("query", "{name: elsewhere}", of_query),
        ("source", "{timeout: 1h}", of_source),
    ] {
        for mut world in worlds(&named("s"), name, value) {
            world.settings.session_defaults = defaults.clone();
            assert_eq!(world.sessions().written(0), expected, "{name}");
        }
    }
}

#[test]
fn what_is_in_the_cookies_place_is_by_default_too() {
    let cookie = |sessions: &Sessions| at(sessions, "/cookie/name");
    for place in [
        json!({"source": {}}),
        json!({"query": {"name": "p", "redirects": true}}),
    ] {
        let defaults: SessionFields = serde_json::from_value(place.clone()).unwrap();
        let (name, value) = place.as_object().unwrap().iter().next().unwrap();
        let mut world = with_policy(&json!({}));
        world.settings.session_defaults = defaults.clone();
        assert_eq!(at(&world.sessions(), &format!("/{name}")), *value);
        let mut world = with_policy(&json!({"sessionName": "x-s", "type": "Header"}));
        world.settings.session_defaults = defaults.clone();
        assert_eq!(at(&world.sessions(), "/header/name"), json!("x-s"));
        for (annotation, said) in [(name.as_str(), "none"), ("mode", "prefix")] {
            for mut world in worlds(&named("s"), annotation, said) {
                world.settings.session_defaults = defaults.clone();
                assert_eq!(cookie(&world.sessions()), json!("s"), "{annotation}: {said}");
            }
        }
    }
}

#[test]
fn a_default_that_does_not_fit_an_object_is_not_called_its_annotation() {
    let mut world = with_policy(&json!({"sessionName": "SID"}));
    let said = |default: &str, what: &str| {
        let place = format!("metadata.annotations[session.limpet.dev/{default}]");
        [format!(
            "Accepted=False/Invalid: {place}{what}: cookie: expected a cookie of the application, found \"SID\", which \
             carries tokens"
        )]
    };
    for default in ["begin", "end"] {
        let value = json!({default: {"cookie": "SID"}});
        world.settings.session_defaults = serde_json::from_value(value).unwrap();
        let what = ", or its default in the controller's sessionDefaults";
        assert_eq!(world.sessions().status("p"), said(default, what));
    }
    for world in &mut worlds(&named("SID"), "begin", "{cookie: SID}")[..1] {
        assert_eq!(world.sessions().status("p"), said("begin", ""));
    }
}

#[test]
fn one_of_query_and_source_counts_and_the_routes_first() {
    let mut world = world(SERVICE_AND_ROUTE);
    let policy = policy("BackendLBPolicy", "p", &["a"], &json!({}));
    world.add(annotated(policy, "query", "{name: s, redirects: true}"));
    world.add(annotated(
        route("web", &json!([rule(&["a"])])),
        "source",
        "{timeout: 1h}",
    ));
    let sessions = world.sessions();
    assert_eq!(at(&sessions, "/source/timeout"), json!("1h"));
    assert_eq!(at(&sessions, "/query"), Value::Null);
    world.add(annotated(route("web", &json!([rule(&["a"])])), "query", "none"));
    assert_eq!(at(&world.sessions(), "/cookie/name"), json!("limpet"));
}

#[test]
fn the_sessions_name_is_that_of_its_parameter() {
    for mut world in worlds(&named("shop"), "query", "{name: other, redirects: true}") {
        assert_eq!(at(&world.sessions(), "/query/name"), json!("shop"));
        world.settings.session_defaults.strict = Some(true);
        assert_eq!(at(&world.sessions(), "/strict"), json!(true));
    }
    let [of_policy, _, of_rule] = worlds(&named("shop"), "query", "{name: other, redirects: true}");
    let said = |field: &str| {
        format!(
            "metadata.annotations[session.limpet.dev/query]: its name has no effect, because {field} says otherwise"
        )
    };
    let told = of_policy.sessions().report("p").ancestors[0].conditions[0]
        .message
        .clone();
    assert!(told.contains(&said("spec.sessionPersistence.sessionName")), "{told}");
    let notes = &of_rule.sessions().rules[0].notes;
    assert!(
        notes.contains(&said("spec.rules[0].sessionPersistence.sessionName")),
        "{notes:?}"
    );
    let [of_policy, ..] =
        worlds(&named("a+b"), "query", "{name: other, redirects: true}").map(|world| world.sessions());
    assert_eq!(
        of_policy.status("p"),
        [
            "Accepted=False/Invalid: spec.sessionPersistence.sessionName: expected a name for a parameter: 1 to 256 \
             letters, digits or -._~, found \"a+b\" with '+'"
        ]
    );
}

#[test]
fn what_is_for_cookies_is_refused_in_their_place() {
    for (place, value) in [("query", "{name: p, redirects: true}"), ("source", "{}")] {
        let mut refused = BTreeSet::new();
        for field in SessionField::ALL {
            let name = field.annotation();
            for example in field.values.examples() {
                let mut world = world(SERVICE_AND_ROUTE);
                let policy = annotated(policy("BackendLBPolicy", "p", &["a"], &json!({})), place, value);
                world.add(annotated(policy, &name, example));
                let status = world.sessions().status("p");
                if name != place && status != [ACCEPTED] {
                    let told = if name == "query" { "source" } else { &name };
                    let text = format!("metadata.annotations[session.limpet.dev/{told}]: ");
                    assert!(status[0].contains(&text), "{place}, {name}: {example}: {status:?}");
                    refused.insert(told.to_owned());
                }
            }
        }
        let mut expected: BTreeSet<String> = SessionField::ALL
            .iter()
            .filter(|field| field.of == FieldTarget::Cookie)
            .map(SessionField::annotation)
            .collect();
        expected.extend(["mode", "idle-timeout", "rebalance", "source"].map(str::to_owned));
        if place == "query" {
            // Without `tell`, most responses could not move a session.
            expected.extend(["end", "move"].map(str::to_owned));
        } else {
            expected.extend(["forward", "token", "cache-control", "also", "tell"].map(str::to_owned));
        }
        assert_eq!(refused, expected, "{place}");
    }
    let message = "expected Session, or none, with the annotation source";
    let permanent = json!({"absoluteTimeout": "1h", "cookieConfig": {"lifetimeType": "Permanent"}});
    let [of_policy, ..] = worlds(&permanent, "source", "{}").map(|world| world.sessions());
    assert_eq!(
        of_policy.status("p"),
        [format!(
            "Accepted=False/Invalid: spec.sessionPersistence.cookieConfig.lifetimeType: {message}"
        )]
    );
}

#[test]
fn the_wrong_part_of_an_annotation_is_named() {
    let persistence = json!({"sessionName": "x-own", "type": "Header"});
    for (name, value, message) in [
        (
            "tell",
            "{header: {name: X-Own}}",
            "header.name: expected another header than the policy's own, found \"x-own\": responses have the token in \
             it",
        ),
        (
            "also",
            "[{cookie: {name: a}}, {cookie: {name: a}}]",
            "[1].cookie.name: expected each carrier once, found the cookie \"a\" again",
        ),
        (
            "also",
            "[{cookie: {name: a}, header: {name: b}}]",
            "[0]: expected exactly one of cookie, header and query",
        ),
    ] {
        let text = format!("metadata.annotations[session.limpet.dev/{name}]: {message}");
        let [of_policy, over_policy, of_rule] = worlds(&persistence, name, value).map(|world| world.sessions());
        assert_eq!(of_policy.status("p"), [format!("Accepted=False/Invalid: {text}")]);
        assert_eq!(over_policy.problems(0), std::slice::from_ref(&text));
        assert_eq!(of_rule.problems(0), [text]);
    }
    let [of_policy, ..] = worlds(&json!({}), "source", "{prefixV4: 33, timeout: 721h}").map(|world| world.sessions());
    assert_eq!(
        of_policy.status("p"),
        [
            "Accepted=False/Invalid: metadata.annotations[session.limpet.dev/source]: timeout: expected at most 720h, \
             the maxSessionLife of the controller's configuration, found 721h"
        ]
    );
    let [of_policy, ..] = worlds(&json!({}), "source", "{prefixV4: 33}").map(|world| world.sessions());
    assert_eq!(
        of_policy.status("p"),
        [
            "Accepted=False/Invalid: metadata.annotations[session.limpet.dev/source]: prefixV4: expected 1 to 32 bits, \
             found 33"
        ]
    );
}
