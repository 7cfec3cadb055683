//! Objects whose sessions cannot be followed any more.

use limpet_model::{GatewayOwner, Memory, Objects, SessionLimits};
use std::time::Duration;

use super::*;

/// A route for each way to have sessions.
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

/// The graph without what is remembered, all messages, and what is remembered, as it is written.
fn built(objects: &Objects, settings: &Settings) -> (Graph, Vec<String>, Memory) {
    let (mut graph, reports) = build(objects, settings);
    let memory = std::mem::take(&mut graph.memory);
    let mut written = Memory::default();
    for part in Memory::parts() {
        let text = memory.text(part);
        written.add(text.map_or_else(Memory::default, |text| Memory::parse(part, &text).expect("a memory")));
    }
    assert!(written == memory, "it is read in another way than it is written");
    (graph, messages(&reports), written)
}

/// Sessions stay where `good` becomes `bad`, the report says so with these words, and they end with `gone`.
#[track_caller]
fn stays(name: &str, good: &str, bad: &str, words: &str, gone: Option<&str>) {
    let in_effect = "the sessions of its last valid version (generation 1) stay in effect";
    stays_so(name, [good, bad], [words, in_effect], gone);
}

#[track_caller]
fn stays_silent(good: &str, bad: &str, words: &str, gone: Option<&str>) {
    let in_effect = "the sessions of its last valid version, which said nothing of them, stay in effect";
    stays_so(bad, [good, bad], [words, in_effect], gone);
}

#[track_caller]
fn stays_so(name: &str, [good, bad]: [&str; 2], [words, in_effect]: [&str; 2], gone: Option<&str>) {
    let settings = settings();
    let (before, _, memory) = built(&read(good), &settings);
    let mut objects = read(bad);
    let (without, ..) = built(&objects, &settings);
    assert!(without != before, "{name}: it changes nothing");
    objects.memory = memory.clone();
    let (graph, said, remembered) = built(&objects, &settings);
    assert!(graph == before, "{name}: the sessions are other ones: {said:#?}");
    let told = said.iter().any(|said| said.contains(words) && said.contains(in_effect));
    assert!(told, "{name}: {said:#?}");
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

const SERVICE: &str = "
kind: Service
metadata: {namespace: shop, name: new}
spec: {ports: [{name: web, port: 80}]}
---
";

#[test]
fn a_typo_in_the_name_of_a_target_ended_all_sessions() {
    let and = |first: &str, second: &str| format!("{first}}}, {{group: '', kind: Service, name: {second}");
    let to_second = route("HTTPRoute", 1, "", "").replace("name: v1", "name: v2");
    for kind in ["BackendLBPolicy", "XBackendTrafficPolicy"] {
        let version = |generation, targets: &str| {
            let policy = policy(kind, generation, STRICT, NAMED, targets);
            format!("{to_second}{policy}")
        };
        for (good, bad, index) in [
            ("v1".to_owned(), "new".to_owned(), 0),
            (and("v1", "v2"), and("v1", "new"), 1),
            (and("v1", "v2"), and("new", "v2"), 0),
            (and("v1", "later"), and("new", "later"), 0),
        ] {
            let (good, bad) = (version(1, &good), version(2, &bad));
            let words = format!("spec.targetRefs[{index}].name: expected an existing Service, found shop/new");
            for gone in [
                String::new(),
                policy(kind, 3, STRICT, "", "v1"),
                version(3, "v2"),
                format!("{bad}{SERVICE}"),
                bad.replace("name: p, uid: one", "name: p, uid: other"),
            ] {
                stays(&bad, &good, &bad, &words, Some(&gone));
            }
        }
    }
}

/// Whether the last version is built as if there had been none before.
fn is_as_without_memory(versions: &[&str]) -> bool {
    let mut memory = Memory::default();
    let mut last = None;
    for version in versions {
        let mut objects = read(version);
        let without = built(&objects, &settings());
        objects.memory = memory;
        let with = built(&objects, &settings());
        objects.memory = with.2.clone();
        assert!(
            built(&objects, &settings()) == with,
            "{version}: it leads to something else"
        );
        last = Some((without.0 == with.0, without.1 == with.1));
        memory = with.2;
    }
    last == Some((true, true))
}

#[test]
fn targets_that_are_gone_or_never_were_there_are_no_typos() {
    let version = |generation, target: &str| policy("BackendLBPolicy", generation, STRICT, NAMED, target);
    let [never, other, good, bad] =
        [(1, "never"), (2, "other"), (2, "new"), (3, "bad")].map(|(n, name)| version(n, name));
    let annotated = good.replace("'true'", "'false'");
    let found = format!("{good}{SERVICE}");
    assert!(is_as_without_memory(&[&never, &other]), "it never worked");
    assert!(is_as_without_memory(&[&found, &good]), "its Service is deleted");
    assert!(
        is_as_without_memory(&[&found, &good, &annotated]),
        "its Service is deleted"
    );
    assert!(
        is_as_without_memory(&[&found, &good, &bad]),
        "its former Service does not exist either"
    );
    assert!(is_as_without_memory(&[&never, &found]), "it works at last");
    let bad_found = format!("{bad}{SERVICE}");
    assert!(
        !is_as_without_memory(&[&found, &good, &bad, &bad_found]),
        "it worked last with this Service"
    );
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
fn the_first_annotation_of_a_route_with_a_typo_ended_a_policys_sessions() {
    let policy = policy("BackendLBPolicy", 1, "", NAMED, "v1");
    for kind in ["HTTPRoute", "GRPCRoute"] {
        let version = |annotations: &str, persistence: &str| {
            let route = route(kind, 1, annotations, persistence);
            let named = route.replace("rules: [{", "rules: [{name: main, ");
            [route, named].map(|route| format!("{policy}{route}"))
        };
        let (good, strict) = (version("", ""), version(STRICT, ""));
        for (bad, words) in [
            (
                version("session.limpet.dev/strict: maybe", ""),
                "Fall Back: metadata.annotations[session.limpet.dev/strict]",
            ),
            (version("session.limpet.dev/strikt: 'true'", ""), "strikt"),
            (
                version("session.limpet.dev/domain: other.org", ""),
                "browsers drop the cookie",
            ),
            (
                version("", ", sessionPersistence: {sessionName: 'a b'}"),
                "spec.rules[0].sessionPersistence.sessionName",
            ),
        ] {
            for ((good, bad), strict) in good.iter().zip(&bad).zip(&strict) {
                stays_silent(good, bad, words, Some(strict));
            }
        }
    }
}

#[test]
fn the_first_annotation_of_a_route_with_a_typo_ended_the_sessions_of_its_backends() {
    let service = "kind: Service\nmetadata: {namespace: shop, name: v1, uid: one}\n\
                   spec: {sessionAffinity: ClientIP, ports: [{name: web, port: 80}]}\n---\n";
    let blue = "kind: XBackend\nmetadata: {namespace: shop, name: v1, uid: one}\n\
                spec: {type: EndpointSelector, endpointSelector: {matchLabels: {app: blue}}, port: {number: 80}, \
                sessionPersistence: {type: Cookie, cookie: {name: blue}}}\n---\n";
    let to_service = "{name: v1, port: 80}";
    let to_blue = "{group: gateway.networking.x-k8s.io, kind: XBackend, name: v1}";
    for (backend, reference) in [(service, to_service), (blue, to_blue)] {
        let version = |annotations: &str| {
            let route = route("HTTPRoute", 1, annotations, "");
            format!("{backend}{}", route.replace(to_service, reference))
        };
        stays_silent(
            &version(""),
            &version("session.limpet.dev/strikt: 'on'"),
            "strikt",
            None,
        );
    }
}

#[test]
fn a_new_route_with_a_typo_has_no_sessions() {
    let settings = settings();
    let policy = policy("BackendLBPolicy", 1, "", NAMED, "v1");
    let typo = route("HTTPRoute", 1, "session.limpet.dev/strict: maybe", "");
    let second = ", sessionPersistence: {sessionName: 'a b'}}, {name: other, backendRefs: [{name: v1, port: 80}]";
    let one_rule = route("HTTPRoute", 1, "", second);
    for route in [typo, one_rule] {
        let mut objects = read(&format!("{policy}{route}"));
        let (first, said, memory) = built(&objects, &settings);
        assert!(!said.iter().any(|said| said.contains("stay in effect")), "{said:#?}");
        objects.memory = memory.clone();
        let (again, said_again, remembered) = built(&objects, &settings);
        assert!(
            again == first && said_again == said && remembered == memory,
            "{said_again:#?}"
        );
    }
}

#[test]
fn a_route_that_said_nothing_is_known_after_a_time_without_sessions() {
    let settings = settings();
    let policy = policy("BackendLBPolicy", 1, "", NAMED, "v1");
    let [good, bad] =
        ["", "session.limpet.dev/strict: maybe"].map(|annotations| route("HTTPRoute", 1, annotations, ""));
    let (before, _, mut memory) = built(&read(&format!("{policy}{good}")), &settings);
    for version in [&good, &bad] {
        let mut objects = read(version);
        objects.memory = memory;
        (_, _, memory) = built(&objects, &settings);
    }
    let mut objects = read(&format!("{policy}{bad}"));
    objects.memory = memory;
    let (graph, said, _) = built(&objects, &settings);
    assert!(graph == before, "{said:#?}");
}

#[test]
fn the_first_mistake_in_an_x_backend_ended_a_policys_sessions() {
    let version = |annotations: &str, persistence: &str| {
        format!(
            "{}kind: XBackend\nmetadata: {{namespace: shop, name: blue, uid: one, generation: 1, \
             annotations: {{{annotations}}}}}\n\
             spec: {{type: EndpointSelector, endpointSelector: {{matchLabels: {{app: blue}}}}, \
             port: {{number: 80}}{persistence}}}\n---\n{}",
            policy("BackendLBPolicy", 1, "", NAMED, "v1"),
            route("HTTPRoute", 1, "", "").replace(
                "{name: v1, port: 80}",
                "{name: v1, port: 80}, {group: gateway.networking.x-k8s.io, kind: XBackend, name: blue}"
            )
        )
    };
    let good = version("", "");
    let bad = version("", ", sessionPersistence: {type: Cookie, cookie: {name: 'a b'}}");
    stays_silent(&good, &bad, "spec.sessionPersistence.cookie.name", None);
    let (before, ..) = built(&read(&good), &settings());
    let (graph, said, _) = built(&read(&version("session.limpet.dev/strikt: 'true'", "")), &settings());
    assert!(graph == before, "{said:#?}");
    assert!(said.iter().any(|said| said.contains("strikt")), "{said:#?}");
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
fn the_first_annotation_of_an_ingress_route_with_a_typo_ended_its_service() {
    let root = |annotations: &str, strategy: &str| {
        format!(
            "kind: IngressRoute\nmetadata: {{namespace: shop, name: root, uid: one, generation: 1, \
             annotations: {{{annotations}}}}}\nspec: {{virtualhost: {{fqdn: root.example}}, \
             routes: [{{match: /, services: [{{name: v1, port: 80{strategy}}}]}}]}}\n---\n"
        )
    };
    for strategy in ["", ", strategy: Cookie"] {
        stays_silent(
            &root("", strategy),
            &root("session.limpet.dev/strict: maybe", strategy),
            "invalid=metadata.annotations[session.limpet.dev/strict]",
            Some(&root(STRICT, strategy)),
        );
    }
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
        gateways: GatewayOwner::Of(["limpet.dev/controller".to_owned()].into()),
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
