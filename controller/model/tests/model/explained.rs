//! Why rules have their sessions, with the origin of each field.

use limpet_api::{Kind, ObjectName, ObjectRef};
use limpet_model::explanation::{FieldExplanation, RuleExplanation};
use limpet_model::{Settings, build, explain};
use serde_json::{Value, json};

use super::{CLASS, SHOP, objects};

const OLD: &str = "
kind: BackendLBPolicy
metadata:
  namespace: shop
  name: old
  creationTimestamp: '2026-01-01T00:00:00Z'
  annotations: {session.limpet.dev/strict: 'true', session.limpet.dev/same-site: Lax}
spec:
  targetRefs: [{group: '', kind: Service, name: v1}]
  sessionPersistence: {sessionName: s, idleTimeout: 30m}
---
";

fn explained_with(settings: &Settings, manifests: &str) -> Vec<RuleExplanation> {
    let objects = objects::read(&format!("{CLASS}{SHOP}{manifests}"));
    let route = ObjectRef {
        kind: Kind::HttpRoute,
        name: ObjectName::new("shop", "shop"),
    };
    let (graph, reports, rules) = explain(&objects, settings, &route);
    assert_eq!((graph, reports), build(&objects, settings), "it is what is served");
    rules
}

fn explained(manifests: &str) -> Vec<RuleExplanation> {
    explained_with(&Settings::default(), manifests)
}

fn route(annotations: &str, rules: &str) -> String {
    format!(
        "
kind: HTTPRoute
metadata: {{namespace: shop, name: shop, annotations: {{{annotations}}}}}
spec: {{parentRefs: [{{name: web}}], rules: [{rules}]}}
---
"
    )
}

fn field<'r>(rule: &'r RuleExplanation, name: &str) -> &'r FieldExplanation {
    let session = rule.session.as_ref().expect("a session");
    let found = session.fields.iter().find(|field| field.field == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", session.fields))
}

#[track_caller]
fn expect(rule: &RuleExplanation, name: &str, value: &Value, from: &str) {
    let field = field(rule, name);
    assert_eq!((&field.value, field.from.to_string().as_str()), (value, from), "{name}");
}

fn contenders(rule: &RuleExplanation) -> Vec<(&str, bool, &str)> {
    let all = rule.contenders.iter();
    all.map(|one| (one.who.as_str(), one.counts, one.why.as_str()))
        .collect()
}

const TO_V1: &str = "{name: all, backendRefs: [{name: v1, port: 80}]}";

#[test]
fn every_field_names_what_it_came_from() {
    let annotations = "session.limpet.dev/same-site: None, session.limpet.dev/secure: always";
    let settings = Settings {
        session_defaults: serde_json::from_value(json!({"cacheControl": "keep", "strict": false})).expect("defaults"),
        ..Settings::default()
    };
    let rules = explained_with(&settings, &format!("{OLD}{}", route(annotations, TO_V1)));
    let [rule] = rules.as_slice() else {
        panic!("{rules:?}");
    };
    let policy = "BackendLBPolicy shop/old";
    for (name, value, from) in [
        (
            "cookie.name",
            json!("s"),
            format!("{policy}: spec.sessionPersistence.sessionName"),
        ),
        (
            "idleTimeout",
            json!("30m"),
            format!("{policy}: spec.sessionPersistence.idleTimeout"),
        ),
        (
            "strict",
            json!(true),
            format!("{policy}: annotation session.limpet.dev/strict"),
        ),
        (
            "cookie.sameSite",
            json!("None"),
            "HTTPRoute shop/shop: annotation session.limpet.dev/same-site".to_owned(),
        ),
        (
            "cookie.secure",
            json!("always"),
            "HTTPRoute shop/shop: annotation session.limpet.dev/secure".to_owned(),
        ),
        (
            "cacheControl",
            json!("keep"),
            "configuration of the controller: sessionDefaults.cacheControl".to_owned(),
        ),
        ("cookie.httpOnly", json!(true), "default".to_owned()),
        ("absoluteTimeout", Value::Null, "default".to_owned()),
        ("strictStatus", json!(503), "default".to_owned()),
    ] {
        expect(rule, name, &value, &from);
    }
    assert_eq!(rule.scope, "httproute/shop/shop/all");
    assert!(
        ["all", "spec.rules[0]", "httproute/shop/shop/all"]
            .iter()
            .all(|name| rule.is_called(name))
    );
    assert!(!rule.is_called("shop"));
}

#[test]
fn every_field_has_the_value_of_the_policy() {
    let annotations = "session.limpet.dev/path: route, session.limpet.dev/move: '{header: x-move}'";
    let matches = "matches: [{path: {value: /a/b}}, {path: {value: /a/c}}]";
    let rule =
        format!("{{{matches}, sessionPersistence: {{absoluteTimeout: 1h}}, backendRefs: [{{name: v1, port: 80}}]}}");
    let rules = explained(&route(annotations, &rule));
    let [rule] = rules.as_slice() else {
        panic!("{rules:?}");
    };
    for session in rule.sessions() {
        let written = serde_json::to_value(&session.config).expect("JSON");
        let mut told = 0;
        for FieldExplanation { field, value, .. } in &session.fields {
            let found = written.pointer(&format!("/{}", field.replace('.', "/")));
            assert!(found.is_none_or(|found| found == value), "{field}: {value}, {written}");
            told += usize::from(found.is_some());
        }
        let fields = |value: &Value| value.as_object().map_or(0, serde_json::Map::len);
        assert_eq!(told, fields(&written) - 1 + fields(&written["cookie"]), "{written}");
    }
    let of_matches = "HTTPRoute shop/shop: spec.rules[0].matches";
    expect(rule, "cookie.path", &json!("/a"), of_matches);
    expect(rule, "cookie.name", &json!("limpet"), "default: the object names none");
    assert_eq!(rule.by_path.len(), 2);
    let paths = rule
        .by_path
        .iter()
        .map(|of_path| of_path.session.config.cookie.clone().expect("a cookie").path);
    assert_eq!(paths.collect::<Vec<_>>(), ["/a/b", "/a/c"]);
}

#[test]
fn every_policy_that_does_not_count_says_why() {
    let policy = |name: &str, day: &str, targets: &str, persistence: &str| {
        format!(
            "
kind: BackendLBPolicy
metadata: {{namespace: shop, name: {name}, creationTimestamp: '2026-01-{day}T00:00:00Z'}}
spec: {{targetRefs: [{targets}], sessionPersistence: {{{persistence}}}}}
---
"
        )
    };
    let (v1, v2) = (
        "{group: '', kind: Service, name: v1}",
        "{group: '', kind: Service, name: v2}",
    );
    let all = [
        policy("wrong", "01", v1, "absoluteTimeout: soon"),
        policy("first", "02", v1, "sessionName: s"),
        policy("same", "03", v1, "sessionName: t"),
        policy("other", "04", v2, "sessionName: u"),
        policy("name", "05", v2, "sessionName: s"),
    ];
    let both = "backendRefs: [{name: v1, port: 80}, {name: v2, port: 80}]";
    let own = format!("{{name: own, sessionPersistence: {{sessionName: own}}, {both}}}");
    let rules = explained(&format!(
        "{}{}",
        all.concat(),
        route("", &format!("{{name: both, {both}}}, {own}"))
    ));
    let of_rule = "HTTPRoute shop/shop spec.rules[0].sessionPersistence";
    let found = contenders(&rules[0]);
    assert_eq!(found[0], (of_rule, false, "it is not set"));
    assert_eq!(found[1].0, "BackendLBPolicy shop/wrong");
    assert!(
        found[1]
            .2
            .starts_with("it is refused: spec.sessionPersistence.absoluteTimeout: "),
        "{found:?}"
    );
    assert_eq!(
        found[2..],
        [
            (
                "BackendLBPolicy shop/first",
                true,
                "the oldest one that targets a Service of the rule"
            ),
            (
                "BackendLBPolicy shop/same",
                false,
                "BackendLBPolicy shop/first, which is older, targets the same: Service shop/v1"
            ),
            (
                "BackendLBPolicy shop/other",
                false,
                "BackendLBPolicy shop/first, which is older and targets another backend, takes precedence"
            ),
            (
                "BackendLBPolicy shop/name",
                false,
                "BackendLBPolicy shop/other, which is older, targets the same: Service shop/v2"
            ),
        ]
    );
    let found = contenders(&rules[1]);
    assert!(found[0].1, "{found:?}");
    assert_eq!(found.iter().filter(|(_, counts, _)| *counts).count(), 1);
    assert_eq!(found[2].2, "sessionPersistence of the rule takes precedence");
}

#[test]
fn destinations_have_their_hashes_and_own_sessions() {
    let affine = "
kind: Service
metadata: {namespace: shop, name: affine}
spec:
  ports: [{name: web, port: 80}]
  sessionAffinity: ClientIP
  sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}
---
";
    let refs = "backendRefs: [{name: affine, port: 80, weight: 3}, {name: v2, port: 80}, {name: gone, port: 80}]";
    let rules = explained(&format!("{affine}{}", route("", &format!("{{name: all, {refs}}}"))));
    let [to, plain, invalid] = rules[0].destinations.as_slice() else {
        panic!("{rules:?}");
    };
    assert_eq!((to.weight, to.hash.as_deref().map(str::len)), (3, Some(8)));
    let session = to.session.as_ref().expect("the Service's sessions");
    assert_eq!(session.scope, "service/shop/affine/80");
    let from: Vec<String> = session.fields.iter().map(|field| field.from.to_string()).collect();
    assert_eq!(from[0], "Service shop/affine: spec.sessionAffinity");
    assert_eq!((plain.session.is_none(), &plain.invalid), (true, &None));
    assert!(invalid.invalid.as_deref().expect("why").contains("gone"), "{invalid:?}");
    let found = contenders(&rules[0]);
    assert_eq!(
        found[1..],
        [(
            "Service shop/affine, sessionAffinity",
            true,
            "nothing else asks for sessions"
        )]
    );
}

#[test]
fn what_cannot_be_followed_is_a_problem_of_the_rule() {
    let rules = explained(&format!("{OLD}{}", route("session.limpet.dev/strict: maybe", TO_V1)));
    assert!(rules[0].session.is_none());
    assert!(rules[0].problems[0].contains("session.limpet.dev/strict"), "{rules:?}");
    let found = contenders(&rules[0]);
    assert_eq!(
        found[1],
        (
            "BackendLBPolicy shop/old",
            false,
            "the route's annotations cannot be followed, so there are no sessions"
        )
    );
    let elsewhere = route("", TO_V1).replace("name: web", "name: gone");
    assert!(explained(&elsewhere).is_empty());
    assert!(explained(&route("", TO_V1))[0].sessions().next().is_none());
}
