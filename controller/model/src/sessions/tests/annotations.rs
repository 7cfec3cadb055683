//! The effects of annotations and defaults on sessions.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::session_fields::{FieldTarget, FieldValues, SessionField};
use crate::sessions::annotations::camel_case;
use crate::{CookiePath, SessionFields, SessionScope, SessionSplit, ValueOrNone};
use limpet_core::config::schema::{
    CacheControlConfig, CookieModeConfig, FurtherConfig, LifetimeTypeConfig, SameSiteConfig, SecureConfig, TellConfig,
    TokenConfig,
};

pub(super) fn named(name: &str) -> Value {
    json!({"sessionName": name})
}

/// The value at this JSON pointer in the policy of the first rule.
pub(super) fn at(sessions: &Sessions, pointer: &str) -> Value {
    sessions.written(0).pointer(pointer).cloned().unwrap_or_default()
}

/// The annotation on the policy, on a route with a policy, and on a route whose rule has its own `sessionPersistence`.
pub(super) fn worlds(persistence: &Value, name: &str, value: &str) -> [World; 3] {
    let policy = policy("BackendLBPolicy", "p", &["a"], persistence);
    let mut of_policy = world(SERVICE_AND_ROUTE);
    of_policy.add(annotated(policy.clone(), name, value));
    let mut over_policy = world(SERVICE_AND_ROUTE);
    over_policy.add(policy);
    over_policy.add(annotated(route("web", &json!([rule(&["a"])])), name, value));
    let mut of_rule = world(SERVICE_AND_ROUTE);
    of_rule.add(annotated(
        route("web", &json!([inline(&["a"], persistence)])),
        name,
        value,
    ));
    [of_policy, over_policy, of_rule]
}

#[test]
fn every_annotation_does_what_it_says() {
    let mut tested = BTreeSet::new();
    for (name, value, pointer, expected) in [
        ("strict", "true", "/strict", json!(true)),
        ("strict-status", "410", "/strictStatus", json!(410)),
        ("same-site", "Lax", "/cookie/sameSite", json!("Lax")),
        ("same-site", "None", "/cookie/sameSite", json!("None")),
        ("secure", "never", "/cookie/secure", json!("never")),
        ("domain", "example.com", "/cookie/domain", json!("example.com")),
        ("script-access", "true", "/cookie/httpOnly", json!(false)),
        ("partitioned", "true", "/cookie/partitioned", json!(true)),
        ("path", "root", "/cookie/path", json!("/")),
        ("path", "/", "/cookie/path", json!("/")),
        ("path", "/shop", "/cookie/path", json!("/shop")),
        ("lifetime-type", "Session", "/cookie/lifetimeType", json!("Session")),
        ("lifetime-type", "Permanent", "/cookie/lifetimeType", json!("Permanent")),
        ("absolute-timeout", "90m", "/absoluteTimeout", json!("1h30m")),
        ("idle-timeout", "500ms", "/idleTimeout", json!("500ms")),
        ("token", "signed", "/token", json!("signed")),
        ("mode", "prefix", "/cookie/mode", json!("prefix")),
        ("mode", "rewrite", "/cookie/mode", json!("rewrite")),
        ("forward", "true", "/cookie/forward", json!(true)),
        ("cache-control", "keep", "/cacheControl", json!("keep")),
        (
            "also",
            "[{header: {name: x-session}}, {query: {name: token, forward: true}}]",
            "/also",
            json!([{"header": {"name": "x-session"}}, {"query": {"name": "token", "forward": true}}]),
        ),
        (
            "also",
            "- cookie: {name: older}",
            "/also",
            json!([{"cookie": {"name": "older"}}]),
        ),
        (
            "also",
            r#"[{"cookie": {"name": "older"}}]"#,
            "/also",
            json!([{"cookie": {"name": "older"}}]),
        ),
        ("also", "[]", "/also", Value::Null),
        (
            "tell",
            "{header: {name: x-session}}",
            "/tell/header/name",
            json!("x-session"),
        ),
        ("tell", "{header: {name: on}}", "/tell/header/name", json!("on")),
        ("tell", "none", "/tell", Value::Null),
        (
            "begin",
            "{cookie: SID, methods: [POST, PUT]}",
            "/begin",
            json!({"cookie": "SID", "methods": ["POST", "PUT"]}),
        ),
        ("begin", "{header: x-login}", "/begin", json!({"header": "x-login"})),
        ("begin", "always", "/begin", Value::Null),
        ("end", "{cookie: SID}", "/end", json!({"cookie": "SID"})),
        ("end", "none", "/end", Value::Null),
        ("move", "{header: x-move}", "/move", json!({"header": "x-move"})),
        ("move", "none", "/move", Value::Null),
        ("rebalance", "5s", "/rebalance", json!("5s")),
        ("rebalance", "none", "/rebalance", Value::Null),
        (
            "query",
            "{name: s, redirects: true}",
            "/query",
            json!({"name": "s", "redirects": true}),
        ),
        ("query", "none", "/query", Value::Null),
        (
            "source",
            "{timeout: 1h, prefixV4: 24}",
            "/source",
            json!({"timeout": "1h", "prefixV4": 24}),
        ),
        ("source", "{}", "/source", json!({})),
        ("source", "none", "/source", Value::Null),
    ] {
        for mut world in worlds(&named("s"), name, value) {
            // Some values require Secure, and one an absolute timeout.
            world.settings.session_defaults.secure = Some(SecureConfig::Always);
            world.settings.session_defaults.absolute_timeout = Some(Duration::from_secs(60).into());
            assert_eq!(at(&world.sessions(), pointer), expected, "{name}: {value}");
        }
        tested.insert(name.to_owned());
    }
    tested.extend(["scope", "split"].map(str::to_owned));
    let all: BTreeSet<String> = SessionField::annotations().into_iter().collect();
    assert_eq!(tested, all, "every annotation needs a row above");
}

#[test]
fn each_page_lists_every_field_with_its_values() {
    let annotations = include_str!("../../../../../docs/reference/annotations.md");
    let defaults = include_str!("../../../../../docs/reference/controller-configuration.md");
    for field in SessionField::ALL {
        let listed = |page: &str, name: &str, words: &[&str]| {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
            let row = row.unwrap_or_else(|| panic!("no row of {name}"));
            assert!(words.iter().all(|word| row.contains(word)), "{row}: {words:?}");
        };
        let words: Vec<String> = match field.values {
            FieldValues::Words(words) => words.iter().map(|word| format!("`{word}`")).collect(),
            FieldValues::Yaml(nothing, examples) => [nothing, examples[0]].map(|text| format!("`{text}`")).into(),
            FieldValues::Like(..) => Vec::new(),
        };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let annotation = field.annotation();
        listed(annotations, &annotation, &words);
        let is_flag = field.values.examples() == ["true", "false"];
        listed(
            defaults,
            &camel_case(&annotation),
            if is_flag { &["| bool |"] } else { &words },
        );
    }
}

#[test]
fn the_charts_schema_knows_every_field() {
    let schema = include_str!("../../../../deploy/chart/values.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    let known = &schema["properties"]["config"]["properties"]["sessionDefaults"]["properties"];
    let known: BTreeSet<&String> = known.as_object().unwrap().keys().collect();
    let all: BTreeSet<String> = SessionField::annotations()
        .iter()
        .map(|name| camel_case(name))
        .collect();
    assert_eq!(known, all.iter().collect());
}

/// Fields of the Gateway API, and fields that must not depend on an object.
const NOT_IN_THE_TABLE: [&str; 8] = [
    // `query` and `source` take the cookie's place.
    "cookie",
    "header",
    "cookie.mode",
    "header.mode",
    "cookie.name",
    "header.name",
    // By the rules that share a name.
    "cookie.perScope",
    // From what rules had before.
    "formerLags",
];

#[test]
fn every_field_of_the_filters_policies_can_be_set() {
    let schema = include_str!("../../../../../filter/core/schema/limpet.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    for (definition, prefix) in [
        ("PolicyConfig", ""),
        ("CookieConfig", "cookie."),
        ("HeaderConfig", "header."),
    ] {
        let properties = schema["$defs"][definition]["properties"].as_object().unwrap();
        for name in properties.keys() {
            let field = format!("{prefix}{name}");
            let is_set = SessionField::of_config(&field).is_some();
            assert!(
                is_set != NOT_IN_THE_TABLE.contains(&field.as_str()),
                "{field} needs an entry in session_fields.rs, or a reason in NOT_IN_THE_TABLE"
            );
        }
    }
}

#[test]
fn defaults_are_for_what_nobody_says() {
    let further: FurtherConfig = serde_json::from_value(json!({"query": {"name": "token"}})).unwrap();
    let tell: TellConfig = serde_json::from_value(json!({"header": {"name": "x-token"}})).unwrap();
    // No `..`: a new field does not compile until it is added here. Add it to the expected policy below as well.
    let defaults = SessionFields {
        strict: Some(true),
        strict_status: Some(410),
        same_site: Some(SameSiteConfig::None),
        secure: Some(SecureConfig::Always),
        domain: Some("example.com".to_owned()),
        script_access: Some(true),
        partitioned: Some(true),
        path: Some(CookiePath::At("/shop".to_owned())),
        token: Some(TokenConfig::Signed),
        mode: Some(CookieModeConfig::Insert),
        scope: Some(SessionScope::Service),
        split: Some(SessionSplit::Choose),
        forward: Some(true),
        cache_control: Some(CacheControlConfig::Keep),
        lifetime_type: Some(LifetimeTypeConfig::Permanent),
        absolute_timeout: Some(Duration::from_secs(7200).into()),
        idle_timeout: Some(Duration::from_secs(60).into()),
        also: Some(vec![further.clone()]),
        tell: Some(ValueOrNone(Some(tell.clone()))),
        begin: Some(serde_json::from_value(json!({"cookie": "SID"})).unwrap()),
        end: Some(serde_json::from_value(json!({"cookie": "SID"})).unwrap()),
        r#move: Some(serde_json::from_value(json!({"header": "x-move"})).unwrap()),
        rebalance: Some(ValueOrNone(Some(Duration::from_secs(5).into()))),
        query: Some(ValueOrNone(None)),
        source: Some(ValueOrNone(None)),
    };
    let mut world = with_policy(&named("s"));
    world.settings.session_defaults = defaults.clone();
    let cookie = json!({
        "name": "s", "mode": "insert", "path": "/shop", "domain": "example.com",
        "secure": "always", "httpOnly": false, "sameSite": "None",
        "partitioned": true, "lifetimeType": "Permanent", "forward": true,
    });
    let of_all = json!({
        "strict": true, "strictStatus": 410, "token": "signed", "cacheControl": "keep",
        "absoluteTimeout": "2h", "idleTimeout": "1m", "also": [further], "tell": tell,
    });
    let with = |name: &str, carrier: Value| {
        let mut all = of_all.clone();
        all["begin"] = json!({"cookie": "SID"});
        all["move"] = json!({"header": "x-move"});
        all["rebalance"] = json!("5s");
        all[name] = carrier;
        all
    };
    let mut expected = with("cookie", cookie);
    expected["end"] = json!({"cookie": "SID"});
    assert_eq!(world.sessions().written(0), expected);

    let mut world = with_policy(&json!({"sessionName": "x-s", "type": "Header"}));
    world.settings.session_defaults = defaults.clone();
    let header = json!({"name": "x-s", "mode": "insert", "forward": true});
    assert_eq!(world.sessions().written(0), with("header", header));

    // Defaults for attributes do not apply to the application's cookie.
    for mode in [CookieModeConfig::Prefix, CookieModeConfig::Rewrite] {
        let mut world = with_policy(&named("s"));
        world.settings.session_defaults = SessionFields {
            mode: Some(mode),
            ..defaults.clone()
        };
        let sessions = world.sessions();
        assert_eq!(sessions.status("p"), [ACCEPTED]);
        assert_eq!(at(&sessions, "/cookie/sameSite"), json!("Strict"));
        assert_eq!(at(&sessions, "/cookie/forward"), Value::Null);
        assert_eq!(at(&sessions, "/cookie/path"), json!("/"));
        assert_eq!(at(&sessions, "/cookie/lifetimeType"), json!("Session"));
        assert_eq!(at(&sessions, "/idleTimeout"), Value::Null);
        assert_eq!(at(&sessions, "/absoluteTimeout"), json!("2h"));
        assert_eq!(at(&sessions, "/tell"), json!(tell));
        assert_eq!(
            (at(&sessions, "/begin"), at(&sessions, "/end")),
            (Value::Null, Value::Null)
        );
    }
}

#[test]
fn a_routes_annotations_count_over_its_policies_field_by_field() {
    let mut world = world(SERVICE_AND_ROUTE);
    let policy = policy("BackendLBPolicy", "p", &["a"], &named("s"));
    world.add(annotated(annotated(policy, "strict", "true"), "same-site", "Lax"));
    world.add(annotated(route("web", &json!([rule(&["a"])])), "strict", "false"));
    world.add(route("other", &json!([rule(&["a"])])));
    let sessions = world.sessions();
    let strict = |rule: usize| {
        (
            sessions.policy(rule).strict,
            sessions.policy(rule).cookie.as_ref().unwrap().same_site,
        )
    };
    assert_eq!(sessions.rules.len(), 2);
    assert_eq!(strict(0), (true, SameSiteConfig::Lax), "route other");
    assert_eq!(strict(1), (false, SameSiteConfig::Lax), "route web");
    assert_eq!(sessions.status("p"), [ACCEPTED]);
}

#[test]
fn a_bad_annotation_is_named_and_nothing_is_guessed() {
    let names = SessionField::annotations().join(", ");
    let unknown = format!("expected no annotation of this name, but one of {names}");
    let secure = "set it to always: browsers drop a cookie with sameSite None that is not Secure";
    for (persistence, name, value, field, message) in [
        (
            named("s"),
            "strict",
            "yes",
            "strict",
            "expected true or false, found \"yes\"".to_owned(),
        ),
        (
            named("s"),
            "samesite",
            "Lax",
            "samesite",
            format!("{unknown}, found \"Lax\""),
        ),
        (
            named("s"),
            "domain",
            ".example.com",
            "domain",
            "expected a domain name like example.com, without a leading dot".to_owned(),
        ),
        (named("s"), "same-site", "None", "secure", secure.to_owned()),
    ] {
        let [of_policy, over_policy, of_rule] = worlds(&persistence, name, value).map(|world| world.sessions());
        let text = format!("metadata.annotations[session.limpet.dev/{field}]: {message}");
        assert_eq!(of_policy.status("p"), [format!("Accepted=False/Invalid: {text}")]);
        assert_eq!(of_rule.problems(0), std::slice::from_ref(&text));
        if field == name {
            assert_eq!(over_policy.problems(0), [text]);
        } else {
            assert_eq!(
                over_policy.problems(0),
                [format!("metadata.annotations: with BackendLBPolicy shop/p: {text}")]
            );
        }
        assert_eq!(
            over_policy.status("p"),
            [
                ACCEPTED,
                "Programmed=False/Overridden: the route's annotations cannot be followed, so there are no sessions on: \
                 HTTPRoute shop/web spec.rules[0]"
            ]
        );
        for sessions in [of_policy, over_policy, of_rule] {
            assert_eq!(sessions.rules[0].session, Session::None);
        }
    }
}

#[test]
fn a_routes_bad_annotation_is_told_once_and_ends_its_sessions() {
    let mut world = with_policy(&named("s"));
    let rules = json!([
        rule(&["b"]),
        rule(&["a"]),
        inline(&["a"], &named("t")),
        inline(&["a"], &json!({"type": "Query"}))
    ]);
    world.add(annotated(route("web", &rules), "strict", "yes"));
    world.add(route("other", &json!([rule(&["a"])])));
    let sessions = world.sessions();
    assert!(matches!(sessions.rules[0].session, Session::Rule(_)), "route other");
    let text = "metadata.annotations[session.limpet.dev/strict]: expected true or false, found \"yes\"";
    assert_eq!(sessions.problems(1), [text]);
    assert!(sessions.problems(2).is_empty() && sessions.problems(3).is_empty());
    assert_eq!(
        sessions.problems(4),
        ["spec.rules[3].sessionPersistence.type: expected Cookie or Header, found \"Query\""]
    );
    assert!(sessions.rules[1..].iter().all(|rule| rule.session == Session::None));
}

#[test]
fn idle_timeout_is_not_for_the_applications_cookie_or_header() {
    let message = "remove it in this mode: a token is renewed only when the application sets its cookie or header \
                   again, so the time of its last use would be unknown; absoluteTimeout bounds it";
    let cookie = json!({"sessionName": "s", "idleTimeout": "1h"});
    let header = json!({"sessionName": "s", "idleTimeout": "1h", "type": "Header"});
    let mut world = world(SERVICE_AND_ROUTE);
    let policy = annotated(policy("BackendLBPolicy", "p", &["a"], &named("s")), "mode", "prefix");
    world.add(annotated(policy, "idle-timeout", "1h"));
    assert_eq!(
        world.sessions().status("p"),
        [format!(
            "Accepted=False/Invalid: metadata.annotations[session.limpet.dev/idle-timeout]: {message}"
        )]
    );
    for (persistence, mode) in [(&cookie, "prefix"), (&cookie, "rewrite"), (&header, "prefix")] {
        let [of_policy, over_policy, of_rule] = worlds(persistence, "mode", mode).map(|world| world.sessions());
        let field = "sessionPersistence.idleTimeout";
        assert_eq!(
            of_policy.status("p"),
            [format!("Accepted=False/Invalid: spec.{field}: {message}")]
        );
        assert_eq!(
            over_policy.problems(0),
            [format!(
                "metadata.annotations: with BackendLBPolicy shop/p: spec.{field}: {message}"
            )]
        );
        assert_eq!(of_rule.problems(0), [format!("spec.rules[0].{field}: {message}")]);
    }
}

#[test]
fn the_applications_cookie_has_a_name_and_its_own_attributes() {
    let [of_policy, ..] = worlds(&json!({}), "mode", "prefix").map(|world| world.sessions());
    assert_eq!(
        of_policy.status("p"),
        [
            "Accepted=False/Invalid: spec.sessionPersistence.sessionName: expected the name of the application's \
             cookie or header, because the mode is not insert"
        ]
    );
    let message = "remove it in this mode: the cookie is the application's, which sets its attributes and gets it back";
    let prefixed = |name: &str, value: &str| {
        let mut world = world(SERVICE_AND_ROUTE);
        let policy = annotated(policy("BackendLBPolicy", "p", &["a"], &named("s")), "mode", "prefix");
        world.add(annotated(policy, name, value));
        world.settings.session_defaults.absolute_timeout = Some(Duration::from_secs(60).into());
        world.sessions().status("p")
    };
    // `root` and `route` have no effect on the application's cookie.
    let fields = SessionField::ALL
        .iter()
        .filter(|field| matches!(field.of, FieldTarget::Cookie | FieldTarget::Carrier));
    let fields = fields.map(SessionField::annotation);
    for name in fields.filter(|name| !["path", "idle-timeout", "rebalance"].contains(&name.as_str())) {
        let field = SessionField::of_annotation(&name).unwrap();
        let refused = format!("Accepted=False/Invalid: metadata.annotations[session.limpet.dev/{name}]: {message}");
        let statuses: Vec<_> = field
            .values
            .examples()
            .iter()
            .map(|value| prefixed(&name, value))
            .collect();
        assert!(
            statuses
                .iter()
                .all(|status| *status == [refused.clone()] || *status == [ACCEPTED]),
            "{statuses:?}"
        );
        let accepted = statuses.iter().filter(|status| **status == [ACCEPTED]).count();
        assert!(accepted < 2, "{name}: only the default is taken, {statuses:?}");
    }
    assert_eq!(prefixed("same-site", "Strict"), [ACCEPTED], "as it is by default");
    assert_eq!(
        prefixed("path", "/shop"),
        [format!(
            "Accepted=False/Invalid: metadata.annotations[session.limpet.dev/path]: {message}"
        )]
    );
    let permanent = json!({"sessionName": "s", "absoluteTimeout": "1h", "cookieConfig": {"lifetimeType": "Permanent"}});
    let [of_policy, ..] = worlds(&permanent, "mode", "prefix").map(|world| world.sessions());
    assert_eq!(
        of_policy.status("p"),
        [format!(
            "Accepted=False/Invalid: spec.sessionPersistence.cookieConfig.lifetimeType: {message}"
        )]
    );
    // Its name cannot get a suffix.
    let mut world = world(SERVICE_AND_ROUTE);
    world.add(annotated(
        policy("BackendLBPolicy", "p", &["a"], &named("s")),
        "mode",
        "prefix",
    ));
    world.add(route("web", &json!([rule(&["a"]), rule(&["a"])])));
    assert_eq!(at(&world.sessions(), "/cookie/perScope"), Value::Null);
}

#[test]
fn a_header_named_as_one_that_is_made_had_all_policies_refused() {
    let name = "limpet-session-d249823b";
    let further = json!([{"cookie": {"name": "c"}}, {"header": {"name": name.to_uppercase()}}]);
    let tell = json!({"header": {"name": name}});
    for (annotation, value, field) in [("also", further, "[1].header.name"), ("tell", tell, "header.name")] {
        let mut world = world(SERVICE_AND_ROUTE);
        let unnamed = policy("BackendLBPolicy", "p", &["a"], &json!({"type": "Header"}));
        world.add(annotated(unnamed, annotation, &value.to_string()));
        world.add(route("web", &json!([rule(&["a"])])));
        let sessions = world.sessions();
        assert_eq!(sessions.policies.len(), 0);
        let status = sessions.status("p").join(" ");
        let expected =
            format!("Accepted=False/Invalid: metadata.annotations[session.limpet.dev/{annotation}]: {field}:");
        assert!(status.starts_with(&expected), "{status}");
    }
}

#[test]
fn what_is_for_cookies_is_refused_for_a_header() {
    let header = json!({"sessionName": "x-s", "type": "Header"});
    for field in SessionField::ALL.iter().filter(|field| field.of.is_for_cookies()) {
        let (name, value) = (&field.annotation(), field.values.examples()[0]);
        let text = format!("metadata.annotations[session.limpet.dev/{name}]: remove it with type Header");
        let [of_policy, over_policy, of_rule] = worlds(&header, name, value).map(|world| world.sessions());
        assert_eq!(of_policy.status("p"), [format!("Accepted=False/Invalid: {text}")]);
        assert_eq!(over_policy.problems(0), std::slice::from_ref(&text));
        assert_eq!(of_rule.problems(0), [text]);
    }
    let [of_policy, ..] = worlds(&header, "mode", "rewrite").map(|world| world.sessions());
    assert_eq!(
        of_policy.status("p"),
        [
            "Accepted=False/Invalid: metadata.annotations[session.limpet.dev/mode]: expected insert or prefix, because \
             the type is Header"
        ]
    );
    let mut world = world(SERVICE_AND_ROUTE);
    world.add(annotated(
        route("web", &json!([inline(&["a"], &header), inline(&["b"], &named("s"))])),
        "same-site",
        "Lax",
    ));
    let sessions = world.sessions();
    assert!(sessions.policy(0).header.is_some());
    assert_eq!(
        sessions.policy(1).cookie.as_ref().unwrap().same_site,
        SameSiteConfig::Lax
    );
}

/// RFC 6265bis, section 4.1.3.
#[test]
fn names_with_a_prefix_keep_its_rules() {
    let message = "set it to always: the name begins with __Host-";
    let world = with_policy(&named("__Host-s"));
    assert_eq!(
        world.sessions().status("p"),
        [format!(
            "Accepted=False/Invalid: metadata.annotations[session.limpet.dev/secure]: {message}"
        )]
    );
    let [of_policy, ..] = worlds(&named("__Host-s"), "secure", "always").map(|world| world.sessions());
    assert_eq!(of_policy.status("p"), [ACCEPTED]);
}

/// Check 8.
#[test]
fn the_older_rule_takes_the_path_from_the_rules_matches() {
    let matched = |paths: &[&str], persistence: &Value| {
        let mut rule = inline(&["a"], persistence);
        rule["matches"] = paths.iter().map(|path| json!({"path": {"value": path}})).collect();
        route("web", &json!([rule]))
    };
    let path_of =
        |session: &Session, sessions: &Sessions| sessions.policy_of(session).cookie.as_ref().unwrap().path.clone();
    for (annotation, default, paths, all, each) in [
        (None, CookiePath::Root, vec!["/a"], "/", vec![]),
        (None, CookiePath::Route, vec!["/a"], "/a", vec![]),
        (Some("route"), CookiePath::Root, vec!["/a"], "/a", vec![]),
        (Some("root"), CookiePath::Route, vec!["/a"], "/", vec![]),
        (Some("route"), CookiePath::Root, vec![], "/", vec![]),
        (Some("route"), CookiePath::Root, vec!["/"], "/", vec![]),
        (
            Some("route"),
            CookiePath::Root,
            vec!["/a/b", "/a/c"],
            "/a",
            vec!["/a/b", "/a/c"],
        ),
    ] {
        let mut world = super::world(SERVICE_AND_ROUTE);
        world.settings.session_defaults.path = Some(default.clone());
        let mut route = matched(&paths, &named("s"));
        if let Some(value) = annotation {
            route = annotated(route, "path", value);
        }
        world.add(route);
        let sessions = world.sessions();
        let rule = &sessions.rules[0];
        assert_eq!(path_of(&rule.session, &sessions), all, "{paths:?}");
        assert_eq!(rule.by_path.len(), each.len());
        for path in each {
            assert_eq!(
                path_of(rule.of_path(&PathMatch::Prefix(path.to_owned())), &sessions),
                path
            );
        }
        assert_eq!(
            path_of(rule.of_path(&PathMatch::Prefix("/elsewhere".to_owned())), &sessions),
            all
        );
    }
    let mut world = super::world(SERVICE_AND_ROUTE);
    world.settings.session_defaults.path = Some(CookiePath::Route);
    let [one, other] =
        [&["/a", "/b"][..], &["/a"]].map(|paths| matched(paths, &named("s"))["spec"]["rules"][0].clone());
    world.add(route("web", &json!([one, other])));
    let sessions = world.sessions();
    let per_scope = [0, 1].map(|rule| sessions.policy(rule).cookie.as_ref().unwrap().per_scope);
    assert_eq!(per_scope, [false, true]);
    let mut world = super::world(SERVICE_AND_ROUTE);
    world.settings.session_defaults.path = Some(CookiePath::Route);
    world.add(matched(&["/a"], &json!({"cookie": {}})));
    let sessions = world.sessions();
    assert_eq!(path_of(&sessions.rules[0].session, &sessions), "/");
    world.add(annotated(matched(&["/a"], &json!({"cookie": {}})), "path", "route"));
    assert_eq!(
        world.sessions().problems(0),
        ["metadata.annotations[session.limpet.dev/path]: expected root, or none: sessionPersistence.cookie has a path"]
    );
    // For the filter, no path is `/`.
    let mut world = with_policy(&named("s"));
    world.settings.session_defaults.path = Some(CookiePath::Route);
    let mut rule = rule(&["a"]);
    rule["matches"] = json!([{"path": {"value": "/a"}}]);
    world.add(super::route("web", &json!([rule])));
    let sessions = world.sessions();
    assert_eq!(path_of(&sessions.rules[0].session, &sessions), "/");
    let mut world = super::world(SERVICE_AND_ROUTE);
    world.add(annotated(matched(&["/a;b"], &named("s")), "path", "route"));
    assert_eq!(
        world.sessions().problems(0),
        [
            "spec.rules[0].matches: expected a path: it begins with /, has at most 1024 characters, and none of space, \
             comma, semicolon or beyond ASCII"
        ]
    );
}
