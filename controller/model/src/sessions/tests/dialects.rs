//! `sessionPersistence` in all its shapes, valid and invalid.

use serde_json::{Value, json};

use super::*;

fn both(kind: &str, persistence: &Value) -> (Sessions, Sessions) {
    let mut of_policy = world(SERVICE_AND_ROUTE);
    of_policy.add(policy(kind, "p", &["a"], persistence));
    let mut of_rule = world(SERVICE_AND_ROUTE);
    of_rule.add(route("web", &json!([inline(&["a"], persistence)])));
    (of_policy.sessions(), of_rule.sessions())
}

#[test]
fn both_shapes_mean_the_same_in_policies_and_rules() {
    let plain = json!({
        "cookie": {"name": "s", "mode": "insert", "path": "/", "secure": "auto", "sameSite": "Strict",
            "lifetimeType": "Session"},
        "token": "sealed", "cacheControl": "private",
    });
    let with = |pointer: &str, value: Value| {
        let mut expected = plain.clone();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        expected.pointer_mut(parent).unwrap()[field] = value;
        expected
    };
    let header =
        json!({"header": {"name": "X-Session", "mode": "insert"}, "token": "sealed", "cacheControl": "private"});
    let mut permanent = with("/cookie/lifetimeType", json!("Permanent"));
    permanent["absoluteTimeout"] = json!("8h");
    for (persistence, expected) in [
        (json!({"sessionName": "s"}), plain.clone()),
        (json!({"sessionName": "s", "type": "Cookie"}), plain.clone()),
        (json!({"cookie": {"name": "s"}}), plain.clone()),
        (
            json!({"cookie": {"name": "s", "path": "/", "lifetimeType": "Session"}, "type": "Cookie"}),
            plain.clone(),
        ),
        (
            json!({"sessionName": "s", "idleTimeout": "1h30m"}),
            with("/idleTimeout", json!("1h30m")),
        ),
        (
            json!({"sessionName": "s", "absoluteTimeout": "90m"}),
            with("/absoluteTimeout", json!("1h30m")),
        ),
        (
            json!({"cookie": {"name": "s"}, "absoluteTimeout": "500ms"}),
            with("/absoluteTimeout", json!("500ms")),
        ),
        (
            json!({"cookie": {"name": "s", "path": "/shop"}}),
            with("/cookie/path", json!("/shop")),
        ),
        (json!({"sessionName": "s", "cookieConfig": {}}), plain.clone()),
        (
            json!({"sessionName": "s", "absoluteTimeout": "8h", "cookieConfig": {"lifetimeType": "Permanent"}}),
            permanent.clone(),
        ),
        (
            json!({"absoluteTimeout": "8h", "cookie": {"name": "s", "lifetimeType": "Permanent"}}),
            permanent.clone(),
        ),
        (json!({"sessionName": "X-Session", "type": "Header"}), header.clone()),
        (
            json!({"header": {"name": "X-Session"}, "type": "Header"}),
            header.clone(),
        ),
    ] {
        let (of_policy, of_rule) = both("XBackendTrafficPolicy", &persistence);
        let is_newer = persistence.get("cookie").or(persistence.get("header")).is_some();
        for sessions in [&of_policy, &of_rule] {
            let mut written = sessions.written(0);
            let carrier = if written.get("cookie").is_some() {
                "cookie"
            } else {
                "header"
            };
            let forward = written[carrier].as_object_mut().unwrap().remove("forward");
            // GEP-1619 of release 1.7: "SHOULD be forwarded to the backend".
            assert_eq!(forward, is_newer.then_some(json!(true)), "{persistence}");
            assert_eq!(written, expected, "{persistence}");
        }
        let deprecates = |what: &str| {
            format!(
                "release 1.7 of the Gateway API deprecates sessionPersistence of {what}: an XBackend with it, and with \
                 the selector and the port of its Service, replaces it, where backendRefs lead there, and clients get \
                 new sessions (shop/a)"
            )
        };
        let status = only_ancestor(of_policy.report_of("XBackendTrafficPolicy", "p"));
        let of_policy = format!("{ACCEPTED}; {}", deprecates("an XBackendTrafficPolicy"));
        assert_eq!(status, [if is_newer { &of_policy } else { ACCEPTED }], "{persistence}");
        let notes: Vec<String> = is_newer.then(|| deprecates("a rule")).into_iter().collect();
        assert_eq!(of_rule.rules[0].notes, notes, "{persistence}");
        assert!(of_rule.problems(0).is_empty(), "{persistence}");
        if persistence.get("cookie").is_none() && persistence.get("header").is_none() {
            assert_eq!(
                both("BackendLBPolicy", &persistence).0.written(0),
                expected,
                "{persistence}"
            );
        }
    }
}

#[test]
fn what_cannot_be_followed_is_named() {
    const NAME: &str = "1 to 256 letters, digits or !#$%&'*+-.^_`|~";
    const DURATION: &str = "expected a duration like 30m, 1h30m or 500ms (one to four numbers of up to five digits, \
                            each with h, m, s or ms; less than 100000h in all), found";
    let newer = "remove it beside cookie or header, which are the newer shape of sessionPersistence";
    let lifetime_alone = "remove it here: cookieConfig has only lifetimeType, and the name is sessionName";
    let long = "x".repeat(257);
    for (persistence, expected) in [
        (
            json!({"type": "Query"}),
            vec!["type: expected Cookie or Header, found \"Query\"".to_owned()],
        ),
        (
            json!({"sessionName": "a b"}),
            vec![format!(
                "sessionName: expected a cookie name: {NAME}, found \"a b\" with ' '"
            )],
        ),
        (
            json!({"sessionName": ""}),
            vec![format!("sessionName: expected a cookie name: {NAME}, found none")],
        ),
        (
            json!({"sessionName": "x".repeat(129)}),
            vec!["sessionName: expected at most 128 characters, found 129".to_owned()],
        ),
        (
            json!({"cookie": {"name": "a;b"}}),
            vec![format!(
                "cookie.name: expected a cookie name: {NAME}, found \"a;b\" with ';'"
            )],
        ),
        (
            json!({"cookie": {"name": long}}),
            vec![format!(
                "cookie.name: expected a cookie name: {NAME}, found 257 characters"
            )],
        ),
        (
            json!({"type": "Header", "sessionName": "a:b"}),
            vec![format!(
                "sessionName: expected a header name: {NAME}, found \"a:b\" with ':'"
            )],
        ),
        (
            json!({"type": "Header", "header": {"name": "a b"}}),
            vec![format!(
                "header.name: expected a header name: {NAME}, found \"a b\" with ' '"
            )],
        ),
        (
            json!({"type": "Header", "header": {"name": "Cookie"}}),
            vec![
                "header.name: expected a header that nothing else uses, found \"Cookie\": HTTP has this name"
                    .to_owned(),
            ],
        ),
        (
            json!({"type": "Header", "sessionName": "grpc-status"}),
            vec![
                "sessionName: expected a header that nothing else uses, found \"grpc-status\": gRPC has all names that \
                 begin with grpc-"
                    .to_owned(),
            ],
        ),
        (
            json!({"absoluteTimeout": "1d"}),
            vec![format!("absoluteTimeout: {DURATION} \"1d\": write 24h")],
        ),
        (
            json!({"absoluteTimeout": ""}),
            vec![format!("absoluteTimeout: {DURATION} \"\"")],
        ),
        (
            json!({"idleTimeout": "1.5h"}),
            vec![format!("idleTimeout: {DURATION} \"1.5h\": write 1h30m")],
        ),
        (
            json!({"idleTimeout": "100000s"}),
            vec![format!("idleTimeout: {DURATION} \"100000s\": write 27h46m40s")],
        ),
        (
            json!({"idleTimeout": "1h1m1s1ms1h"}),
            vec![format!("idleTimeout: {DURATION} \"1h1m1s1ms1h\": write 2h1m1s1ms")],
        ),
        (
            json!({"absoluteTimeout": "0s"}),
            vec!["absoluteTimeout: expected a duration greater than zero".to_owned()],
        ),
        (
            json!({"idleTimeout": "0h0m"}),
            vec!["idleTimeout: expected a duration greater than zero".to_owned()],
        ),
        (
            json!({"cookieConfig": {"lifetimeType": "Permanent"}}),
            vec!["absoluteTimeout: expected a duration, because the cookie's lifetimeType is Permanent".to_owned()],
        ),
        (
            json!({"cookie": {"lifetimeType": "Permanent"}}),
            vec!["absoluteTimeout: expected a duration, because the cookie's lifetimeType is Permanent".to_owned()],
        ),
        (
            json!({"cookieConfig": {"lifetimeType": "Forever"}}),
            vec!["cookieConfig.lifetimeType: expected Session or Permanent, found \"Forever\"".to_owned()],
        ),
        (
            json!({"cookie": {"lifetimeType": "session"}}),
            vec!["cookie.lifetimeType: expected Session or Permanent, found \"session\"".to_owned()],
        ),
        (
            json!({"type": "Header", "cookieConfig": {}}),
            vec!["cookieConfig: remove it with type Header".to_owned()],
        ),
        (
            json!({"type": "Header", "cookie": {}}),
            vec![
                "cookie: remove it with type Header".to_owned(),
                "header: expected the header's name, because the type is Header".to_owned(),
            ],
        ),
        (
            json!({"type": "Header", "cookie": {}, "header": {"name": "x"}}),
            vec!["cookie: remove it with type Header".to_owned()],
        ),
        (
            json!({"header": {"name": "x"}}),
            vec![
                "header: remove it with type Cookie".to_owned(),
                "cookie: expected the cookie, which may be empty, because the type is Cookie".to_owned(),
            ],
        ),
        (
            json!({"cookie": {}, "header": {"name": "x"}}),
            vec!["header: remove it with type Cookie".to_owned()],
        ),
        (
            json!({"type": "Header", "header": {}}),
            vec!["header.name: expected the header's name, because the type is Header".to_owned()],
        ),
        (
            json!({"sessionName": "s", "cookie": {}}),
            vec![format!("sessionName: {newer}")],
        ),
        (
            json!({"cookieConfig": {}, "cookie": {}}),
            vec![format!("cookieConfig: {newer}")],
        ),
        (
            json!({"idleTimeout": "1h", "cookie": {}}),
            vec![format!("idleTimeout: {newer}")],
        ),
        (
            json!({"sessionName": "s", "type": "Header", "header": {"name": "x"}}),
            vec![format!("sessionName: {newer}")],
        ),
        (
            json!({"cookieConfig": {"name": "s"}}),
            vec![format!("cookieConfig.name: {lifetime_alone}")],
        ),
        (
            json!({"cookieConfig": {"path": "/"}}),
            vec![format!("cookieConfig.path: {lifetime_alone}")],
        ),
        (
            json!({"cookie": {"path": "shop"}}),
            vec![
                "cookie.path: expected a path: it begins with /, has at most 1024 characters, and none of space, \
                  comma, semicolon or beyond ASCII"
                    .to_owned(),
            ],
        ),
        (
            json!({"cookie": {"path": format!("/{}", "x".repeat(1024))}}),
            vec![
                "cookie.path: expected a path: it begins with /, has at most 1024 characters, and none of space, \
                  comma, semicolon or beyond ASCII"
                    .to_owned(),
            ],
        ),
    ] {
        let (of_policy, of_rule) = both("XBackendTrafficPolicy", &persistence);
        assert_eq!(of_policy.rules[0].session, Session::None, "{persistence}");
        let in_policy: Vec<String> = expected
            .iter()
            .map(|e| format!("spec.sessionPersistence.{e}"))
            .collect();
        let status = only_ancestor(of_policy.report_of("XBackendTrafficPolicy", "p"));
        assert_eq!(status, [format!("Accepted=False/Invalid: {}", in_policy.join("; "))]);
        assert!(
            of_policy.problems(0).is_empty(),
            "a policy's mistakes are not its routes'"
        );

        let in_rule: Vec<String> = expected
            .iter()
            .map(|e| format!("spec.rules[0].sessionPersistence.{e}"))
            .collect();
        assert_eq!(of_rule.problems(0), in_rule, "{persistence}");
        assert_eq!(of_rule.rules[0].session, Session::None, "{persistence}");
    }
}

#[test]
fn a_path_of_1024_characters_is_one() {
    let path = format!("/{}", "x".repeat(1023));
    let (of_policy, _) = both("XBackendTrafficPolicy", &json!({"cookie": {"path": path}}));
    assert_eq!(of_policy.written(0)["cookie"]["path"], json!(path));
}

#[test]
fn a_backend_lb_policy_has_its_own_shape_alone() {
    let message = "remove it in a BackendLBPolicy, which has sessionName and cookieConfig";
    for (field, value) in [("cookie", json!({"name": "s"})), ("header", json!({"name": "s"}))] {
        let sessions = with_policy(&json!({field: value})).sessions();
        assert_eq!(
            sessions.status("p"),
            [format!(
                "Accepted=False/Invalid: spec.sessionPersistence.{field}: {message}"
            )]
        );
    }
}

#[test]
fn rules_of_grpc_routes_have_them_too() {
    let mut world = world(SERVICE_AND_ROUTE);
    let mut grpc = route(
        "grpc",
        &json!([inline(&["b"], &json!({"type": "Header", "header": {"name": "x-s"}}))]),
    );
    grpc["kind"] = json!("GRPCRoute");
    world.add(grpc);
    let sessions = world.sessions();
    assert_eq!(sessions.written(1)["header"]["name"], "x-s");
    let expected = crate::graph::SessionUse {
        policy: sessions.policies.keys().next().unwrap().clone(),
        scope: "grpcroute/shop/grpc/0".into(),
    };
    assert_eq!(sessions.rules[1].session, Session::EachDestination(expected));
}

#[test]
fn rules_without_any_persistence_have_no_session() {
    let sessions = world(SERVICE_AND_ROUTE).sessions();
    assert_eq!(sessions.rules[0].session, Session::None);
    assert!(sessions.policies.is_empty() && sessions.problems(0).is_empty());
}
