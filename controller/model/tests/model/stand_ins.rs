//! Objects whose sessions cannot be followed any more.

use limpet_model::{Gateways, Objects, SessionLimits};
use std::time::Duration;

use super::*;

/// What leads to the Services: a route for each way to have sessions.
const ROUTES: &str = "
kind: HTTPRoute
metadata: {namespace: shop, name: plain, generation: 1}
spec:
  parentRefs: [{name: web}]
  hostnames: [plain.example]
  rules: [{backendRefs: [{name: v1, port: 80}]}]
---
kind: HTTPRoute
metadata: {namespace: shop, name: split, generation: 1}
spec:
  parentRefs: [{name: web}]
  hostnames: [split.example]
  rules:
  - sessionPersistence: {sessionName: split}
    backendRefs: [{name: v1, port: 80}, {name: v2, port: 80}]
---
kind: HTTPRoute
metadata: {namespace: shop, name: blue, generation: 1}
spec:
  parentRefs: [{name: web}]
  hostnames: [blue.example]
  rules: [{backendRefs: [{group: gateway.networking.x-k8s.io, kind: XBackend, name: blue}]}]
---
";

fn settings() -> Settings {
    Settings {
        contour: Some(serde_json::from_str(r#"{"gateway": "limpet/contour"}"#).expect("settings")),
        ..Settings::default()
    }
}

fn read(manifests: &str) -> Objects {
    objects::read_any(&format!("{CLASS}{SHOP}{ROUTES}{manifests}"))
}

/// The graph without what is remembered, and every message of the reports.
fn built(objects: &Objects, settings: &Settings) -> (Graph, Vec<String>, limpet_model::Memory) {
    let (mut graph, reports) = build(objects, settings);
    let memory = std::mem::take(&mut graph.memory);
    (graph, messages(&reports), memory)
}

/// Checks that sessions stay as they were where `good` becomes `bad`, that the report says so with these words, and
/// that they end with `gone`, if that is said.
#[track_caller]
fn stays(name: &str, good: &str, bad: &str, words: &str, gone: Option<&str>) {
    let settings = settings();
    let (before, _, memory) = built(&read(good), &settings);
    let mut objects = read(bad);
    let (without, ..) = built(&objects, &settings);
    assert!(without != before, "{name}: it changes nothing");
    objects.memory = memory.clone();
    let (graph, said, remembered) = built(&objects, &settings);
    assert!(graph == before, "{name}: the sessions are other ones: {said:#?}");
    let in_effect = "the sessions of its last valid version (generation 1) stay in effect";
    let told = said.iter().any(|said| said.contains(words) && said.contains(in_effect));
    assert!(told, "{name}: {said:#?}");
    // Another replica, and this one after a restart, read what was remembered.
    for _ in 0..2 {
        objects.memory = remembered.clone();
        let (again, said_again, remembered_again) = built(&objects, &settings);
        assert!(
            again == graph && said_again == said && remembered_again == remembered,
            "{name}"
        );
    }
    if let Some(gone) = gone {
        let mut objects = read(gone);
        let (without, ..) = built(&objects, &settings);
        objects.memory = remembered;
        let (ended, said, _) = built(&objects, &settings);
        assert!(ended == without, "{name}: sessions outlast their end: {said:#?}");
    }
}

fn policy(kind: &str, generation: u32, annotations: &str, persistence: &str, target: &str) -> String {
    format!(
        "kind: {kind}\nmetadata: {{namespace: shop, name: p, uid: one, generation: {generation}, \
         creationTimestamp: '2026-01-01T00:00:00Z', annotations: {{{annotations}}}}}\n\
         spec: {{targetRefs: [{{group: '', kind: Service, name: {target}}}]{persistence}}}\n---\n"
    )
}

const NAMED: &str = ", sessionPersistence: {sessionName: shop, absoluteTimeout: 1h}";
const STRICT: &str = "session.limpet.dev/strict: 'true'";

#[test]
fn a_typo_in_a_policy_ended_all_sessions() {
    for kind in ["BackendLBPolicy", "XBackendTrafficPolicy"] {
        let good = policy(kind, 1, STRICT, NAMED, "v1");
        let none = policy(kind, 3, STRICT, "", "v1");
        let unknown = "session.limpet.dev/strikt: 'true'";
        for (bad, words) in [
            (policy(kind, 1, unknown, NAMED, "v1"), "strikt"),
            (
                policy(kind, 2, "session.limpet.dev/strict: 'yes'", NAMED, "v1"),
                "session.limpet.dev/strict",
            ),
            (
                policy(kind, 2, STRICT, ", sessionPersistence: {sessionName: 'a b'}", "v1"),
                "spec.sessionPersistence.sessionName",
            ),
            (
                policy(kind, 2, STRICT, ", sessionPersistence: {absoluteTimeout: 1x}", "v1"),
                "spec.sessionPersistence.absoluteTimeout",
            ),
            (policy(kind, 2, STRICT, NAMED, "''"), "spec.targetRefs[0].name"),
            (
                policy(kind, 2, "session.limpet.dev/domain: other.org", NAMED, "v1"),
                "browsers drop the cookie",
            ),
        ] {
            stays(&bad, &good, &bad, words, Some(&none));
            stays(&bad, &good, &bad, words, Some(""));
        }
    }
}

#[test]
fn a_younger_policy_takes_nothing_over_from_one_with_a_typo() {
    let younger = policy(
        "BackendLBPolicy",
        1,
        "",
        ", sessionPersistence: {sessionName: younger}",
        "v1",
    )
    .replace("name: p,", "name: younger,")
    .replace("2026-01-01", "2026-01-02");
    let good = policy("BackendLBPolicy", 1, STRICT, NAMED, "v1");
    let bad = policy("BackendLBPolicy", 1, "session.limpet.dev/strict: 'on'", NAMED, "v1");
    let (good, bad) = (format!("{good}{younger}"), format!("{bad}{younger}"));
    stays("younger", &good, &bad, "session.limpet.dev/strict", Some(&younger));
}

fn route(kind: &str, generation: u32, annotations: &str, persistence: &str) -> String {
    format!(
        "kind: {kind}\nmetadata: {{namespace: shop, name: r, uid: one, generation: {generation}, \
         annotations: {{{annotations}}}}}\n\
         spec: {{parentRefs: [{{name: web}}], hostnames: [r.example], \
         rules: [{{backendRefs: [{{name: v1, port: 80}}]{persistence}}}]}}\n---\n"
    )
}

#[test]
fn a_typo_in_a_route_ended_its_sessions() {
    for kind in ["HTTPRoute", "GRPCRoute"] {
        let good = route(kind, 1, STRICT, NAMED);
        let none = route(kind, 3, STRICT, "");
        for (bad, words) in [
            (
                route(kind, 1, "session.limpet.dev/strict: 'on'", NAMED),
                "PartiallyInvalid=Fall Back: metadata.annotations[session.limpet.dev/strict]",
            ),
            (
                route(kind, 2, STRICT, ", sessionPersistence: {sessionName: 'a b'}"),
                "spec.rules[0].sessionPersistence.sessionName",
            ),
            (
                route(kind, 2, "session.limpet.dev/domain: other.org", NAMED),
                "browsers drop the cookie",
            ),
        ] {
            stays(&bad, &good, &bad, words, Some(&none));
        }
    }
}

#[test]
fn a_typo_in_a_routes_annotations_ended_a_policys_sessions() {
    let policy = policy("BackendLBPolicy", 1, "", NAMED, "v1");
    let good = format!("{policy}{}", route("HTTPRoute", 1, STRICT, ""));
    let bad = format!(
        "{policy}{}",
        route("HTTPRoute", 1, "session.limpet.dev/strict: maybe", "")
    );
    let none = route("HTTPRoute", 2, "", "");
    stays("policy", &good, &bad, "session.limpet.dev/strict", Some(&none));
}

#[test]
fn a_typo_in_an_x_backend_ended_its_sessions() {
    let backend = |generation: u32, annotations: &str, persistence: &str| {
        format!(
            "kind: XBackend\nmetadata: {{namespace: shop, name: blue, uid: one, generation: {generation}, \
             annotations: {{{annotations}}}}}\n\
             spec: {{type: EndpointSelector, endpointSelector: {{matchLabels: {{app: blue}}}}, \
             port: {{number: 80}}{persistence}}}\n---\n"
        )
    };
    let named = ", sessionPersistence: {type: Cookie, cookie: {name: blue}}";
    let good = backend(1, STRICT, named);
    let none = backend(3, "", "");
    for (bad, words) in [
        (
            backend(1, "session.limpet.dev/token: open", named),
            "session.limpet.dev/token",
        ),
        (
            backend(2, STRICT, ", sessionPersistence: {type: Cookie, cookie: {name: 'a b'}}"),
            "spec.sessionPersistence.cookie.name",
        ),
        (
            backend(2, "session.limpet.dev/domain: other.org", named),
            "browsers drop the cookie",
        ),
    ] {
        stays(&bad, &good, &bad, words, Some(&none));
    }
}

#[test]
fn a_typo_in_a_services_annotations_let_sessions_begin() {
    let service = |begin: &str| {
        format!(
            "kind: Service\nmetadata: {{namespace: shop, name: v2, uid: one, generation: 1, \
             annotations: {{{begin}}}}}\nspec: {{ports: [{{name: web, port: 80}}]}}\n---\n"
        )
    };
    let good = service("session.limpet.dev/begin: never");
    let bad = service("session.limpet.dev/begin: nver");
    stays("service", &good, &bad, "expected never", Some(&service("")));
}

#[test]
fn a_typo_in_an_ingress_route_ended_its_service() {
    let root = |annotations: &str, strategy: &str| {
        format!(
            "kind: IngressRoute\nmetadata: {{namespace: shop, name: root, uid: one, generation: 1, \
             annotations: {{{annotations}}}}}\nspec: {{virtualhost: {{fqdn: root.example}}, \
             routes: [{{match: /, services: [{{name: v1, port: 80{strategy}}}]}}]}}\n---\n"
        )
    };
    let good = root(STRICT, ", strategy: Cookie");
    let foreign = root("session.limpet.dev/domain: other.org", ", strategy: Cookie");
    stays("domain", &good, &foreign, "browsers drop the cookie", None);
    let bad = root("session.limpet.dev/strict: maybe", ", strategy: Cookie");
    stays(
        "root",
        &good,
        &bad,
        "invalid=metadata.annotations[session.limpet.dev/strict]",
        Some(&root("", "")),
    );
}

#[test]
fn a_typo_in_a_route_rolled_its_policy_back() {
    let of_policy = |timeout: &str| {
        let persistence = format!(", sessionPersistence: {{sessionName: shop, absoluteTimeout: {timeout}}}");
        policy("BackendLBPolicy", 1, "", &persistence, "v2")
    };
    let to_v2 = |annotations: &str| route("HTTPRoute", 1, annotations, "").replace("name: v1", "name: v2");
    let (good, bad) = (to_v2(STRICT), to_v2("session.limpet.dev/domain: exmaple.com"));
    let settings = settings();
    let (_, _, memory) = built(&read(&format!("{}{good}", of_policy("8h"))), &settings);
    let (expected, ..) = built(&read(&format!("{}{good}", of_policy("1h"))), &settings);
    let mut objects = read(&format!("{}{bad}", of_policy("1h")));
    objects.memory = memory;
    let (graph, said, _) = built(&objects, &settings);
    assert!(graph == expected, "{said:#?}");
    let refused = said.iter().filter(|said| said.contains("stay in effect"));
    assert_eq!(refused.count(), 1, "{said:#?}");
}

#[test]
fn a_rule_that_cannot_have_sessions_left_the_others_without_protection() {
    let backends: String = ["one", "two"]
        .map(|name| {
            format!(
                "kind: XBackend\nmetadata: {{namespace: shop, name: {name}, uid: one, generation: 1}}\n\
                 spec: {{type: EndpointSelector, endpointSelector: {{matchLabels: {{app: {name}}}}}, \
                 port: {{number: 80}}, sessionPersistence: {{type: Cookie, cookie: {{name: same}}}}}}\n---\n"
            )
        })
        .concat();
    let route = |annotations: &str| {
        let to = |name: &str| format!("{{group: gateway.networking.x-k8s.io, kind: XBackend, name: {name}}}");
        let (one, two) = (to("one"), to("two"));
        format!(
            "{backends}kind: HTTPRoute\nmetadata: {{namespace: shop, name: r, uid: one, generation: 1, \
             annotations: {{{annotations}}}}}\n\
             spec: {{parentRefs: [{{name: web}}], hostnames: [r.example], rules: [\
             {{matches: [{{path: {{value: /x}}}}], backendRefs: [{one}, {two}]}}, \
             {{backendRefs: [{{name: v1, port: 80}}]{NAMED}}}]}}\n---\n"
        )
    };
    let (good, bad) = (route(STRICT), route("session.limpet.dev/strict: 'on'"));
    stays("rule", &good, &bad, "session.limpet.dev/strict", None);
}

#[test]
fn an_object_that_is_made_again_has_no_former_sessions() {
    let good = policy("BackendLBPolicy", 1, STRICT, NAMED, "v1");
    let bad = policy("BackendLBPolicy", 1, "session.limpet.dev/strict: 'on'", NAMED, "v1");
    let (_, _, memory) = built(&read(&good), &settings());
    let mut objects = read(&bad.replace("uid: one", "uid: other"));
    let (without, ..) = built(&objects, &settings());
    objects.memory = memory;
    let (graph, said, _) = built(&objects, &settings());
    assert!(graph == without, "{said:#?}");
}

#[test]
fn what_the_operator_forbids_now_does_not_stay() {
    let good = policy("BackendLBPolicy", 1, STRICT, NAMED, "v1");
    let bad = policy("BackendLBPolicy", 1, "session.limpet.dev/strict: 'on'", NAMED, "v1");
    let (_, _, memory) = built(&read(&good), &settings());
    let strict = Settings {
        session_limits: SessionLimits {
            life: Duration::from_secs(60).into(),
            ..SessionLimits::default()
        },
        ..settings()
    };
    let mut objects = read(&bad);
    let (without, before, _) = built(&objects, &strict);
    objects.memory = memory;
    let (graph, said, _) = built(&objects, &strict);
    assert!(graph == without, "{said:#?}");
    assert_eq!(said, before);
}

#[test]
fn a_typo_ended_sessions_with_another_control_plane() {
    let settings = Settings {
        gateways: Gateways::Of(["limpet.dev/controller".to_owned()].into()),
        ..Settings::default()
    };
    let good = route("HTTPRoute", 1, STRICT, NAMED);
    let bad = route("HTTPRoute", 1, "session.limpet.dev/strict: 'on'", NAMED);
    let (before, _, memory) = built(&read(&good), &settings);
    let mut objects = read(&bad);
    objects.memory = memory;
    let (graph, said, _) = built(&objects, &settings);
    assert!(graph == before, "{said:#?}");
    assert!(said.iter().any(|said| said.contains("Fall Back: ")), "{said:#?}");
}
