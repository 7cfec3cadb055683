//! Renamed sessions: tokens in their former carriers still count.

use serde_json::{Value, json};

use super::*;

const ROUTE: &str = "
kind: HTTPRoute
metadata: {namespace: shop, name: web, uid: route, ANNOTATIONS}
spec:
  parentRefs: [{name: web}]
  rules: [RULES]
---
";
const PLAIN: &str = "{backendRefs: [{name: v1, port: 80}]}";

fn route(annotations: &str, rules: &[String]) -> String {
    let annotations = format!("annotations: {{{annotations}}}");
    ROUTE
        .replace("ANNOTATIONS", &annotations)
        .replace("RULES", &rules.join(", "))
}

fn inline(persistence: &str) -> String {
    let rule = format!("{{sessionPersistence: {{{persistence}}}, backendRefs: [{{name: v1, port: 80}}]}}");
    route("", &[rule])
}

fn policy(kind: &str, annotations: &str, persistence: &str) -> String {
    let policy = format!(
        "kind: {kind}\nmetadata: {{namespace: shop, name: p, uid: one, annotations: {{{annotations}}}}}\n\
         spec: {{targetRefs: [{{group: '', kind: Service, name: v1}}], sessionPersistence: {{{persistence}}}}}\n---\n"
    );
    route("", &[PLAIN.to_owned()]) + &policy
}

const QUERY: &str = "session.limpet.dev/query: '{name: q, redirects: true}'";

fn of_policy(annotations: &str) -> String {
    let policy = policy("BackendLBPolicy", "", "sessionName: old");
    policy.replacen("annotations: {}", &format!("annotations: {{{annotations}}}"), 1)
}

fn x_backend(cookie: &str) -> String {
    let backend = format!(
        "kind: XBackend\nmetadata: {{namespace: shop, name: blue, uid: one}}\n\
         spec: {{type: EndpointSelector, endpointSelector: {{matchLabels: {{app: v1}}}}, port: {{number: 80}}, \
         sessionPersistence: {{type: Cookie, cookie: {{{cookie}}}}}}}\n---\n"
    );
    let rule = "{backendRefs: [{group: gateway.networking.x-k8s.io, kind: XBackend, name: blue}]}";
    route("", &[rule.to_owned()]) + &backend
}

/// The former carriers of all policies, and the last messages, after these versions of objects.
fn after(versions: &[String]) -> (Value, Vec<String>) {
    let settings = Settings::default();
    let mut memory = limpet_model::Memory::default();
    let mut last = (Value::Null, Vec::new());
    for version in versions {
        let mut objects = objects::read_any(&format!("{CLASS}{SHOP}{version}"));
        objects.memory = memory.clone();
        let (graph, reports) = build(&objects, &settings);
        memory = graph.memory.clone();
        objects.memory = memory.clone();
        let (again, _) = build(&objects, &settings);
        assert!(again == graph, "{version}: what is remembered changes it");
        assert!(refusal(&graph).is_none(), "{version}: {:?}", refusal(&graph));
        let also = graph.policies.values().flat_map(|policy| &policy.also);
        let former = also.filter(|further| further.former).map(|further| {
            let mut further = serde_json::to_value(further).expect("JSON");
            further["former"].take();
            let fields = further.as_object().expect("an object").iter();
            let mut named = fields.filter(|(_, value)| !value.is_null());
            named
                .next()
                .map(|(place, value)| format!("{place} {}", value["name"].as_str().unwrap_or_default()))
        });
        last = (json!(former.collect::<Vec<_>>()), super::messages(&reports));
    }
    last
}

fn refusal(graph: &Graph) -> Option<String> {
    let policies = graph.policies.iter();
    let policies = policies.map(|(name, policy)| (name.to_string(), json!(policy)));
    let config = json!({
        "sdsKeys": {"name": "keyring"},
        "policies": policies.collect::<serde_json::Map<_, _>>(),
    });
    let config = limpet_core::config::parse(config.to_string().as_bytes()).expect("a configuration");
    limpet_core::Filter::without_keys(&config)
        .err()
        .map(|error| error.to_string())
}

/// A query's name may be no cookie's, and the other way round. The filter would refuse all policies.
#[test]
fn what_no_one_has_checked_is_no_former_name() {
    let query = |name: &str| format!("session.limpet.dev/query: \"{{name: '{name}', redirects: true}}\"");
    let without = |annotations: &str| {
        let redirect = "{filters: [{type: RequestRedirect, requestRedirect: {hostname: b.example}}]}";
        route(annotations, &[redirect.to_owned()])
    };
    let long = "q".repeat(300);
    for (first, later) in [
        (without(&query("q")), inline("sessionName: 'a!b'")),
        (without(&query("bad name")), inline("")),
        (without(&query(&long)), inline("")),
        (inline("sessionName: 'a!b'"), policy("BackendLBPolicy", &query("q"), "")),
        (
            inline("type: Header, sessionName: 'x-a'"),
            policy("BackendLBPolicy", &query("q"), "sessionName: q"),
        ),
        (
            policy("BackendLBPolicy", &query("q"), ""),
            policy("BackendLBPolicy", "", "sessionName: 'a!b'"),
        ),
        (
            policy("BackendLBPolicy", "", "sessionName: 'a!b'"),
            policy(
                "BackendLBPolicy",
                "session.limpet.dev/source: '{timeout: 1h}'",
                "sessionName: 'a!b'",
            ),
        ),
    ] {
        after(&[first, later]);
    }
}

#[test]
fn a_renamed_session_ended() {
    let named = |name: &str| format!("sessionName: {name}");
    let union = |name: &str| format!("type: Cookie, cookie: {{name: {name}}}");
    let header = "type: Header, sessionName: x-session";
    for (versions, expected) in [
        (
            ["old", "new"]
                .map(|name| policy("BackendLBPolicy", "", &named(name)))
                .to_vec(),
            json!(["cookie old"]),
        ),
        (
            ["old", "new"]
                .map(|name| policy("XBackendTrafficPolicy", "", &named(name)))
                .to_vec(),
            json!(["cookie old"]),
        ),
        (
            ["old", "new"]
                .map(|name| policy("XBackendTrafficPolicy", "", &union(name)))
                .to_vec(),
            json!(["cookie old"]),
        ),
        (
            ["old", "new"].map(|name| inline(&named(name))).to_vec(),
            json!(["cookie old"]),
        ),
        (
            ["old", "new"].map(|name| x_backend(&format!("name: {name}"))).to_vec(),
            json!(["cookie old"]),
        ),
        (
            [named("old"), header.to_owned()]
                .map(|said| policy("BackendLBPolicy", "", &said))
                .to_vec(),
            json!(["cookie old"]),
        ),
        (
            [header.to_owned(), named("new")].map(|said| inline(&said)).to_vec(),
            json!(["header x-session"]),
        ),
        (
            ["session.limpet.dev/query: '{name: old, redirects: true}'", ""]
                .map(|annotations| policy("BackendLBPolicy", annotations, ""))
                .to_vec(),
            json!(["query old"]),
        ),
        (["", QUERY].map(of_policy).to_vec(), json!(["cookie old"])),
        (["", QUERY, ""].map(of_policy).to_vec(), json!(["query old"])),
        (["", "sessionName: new"].map(inline).to_vec(), json!(["cookie limpet"])),
        (["sessionName: old", ""].map(inline).to_vec(), json!(["cookie old"])),
        (
            ["a", "b", "c", "d"].map(|name| inline(&named(name))).to_vec(),
            json!(["cookie c", "cookie b"]),
        ),
        (
            ["a", "b", "a"].map(|name| inline(&named(name))).to_vec(),
            json!(["cookie b"]),
        ),
        (
            [named("old"), union("old")]
                .map(|said| policy("XBackendTrafficPolicy", "", &said))
                .to_vec(),
            json!([]),
        ),
        (
            [named("old"), "sessionName: old, absoluteTimeout: 1h".to_owned()]
                .map(|said| inline(&said))
                .to_vec(),
            json!([]),
        ),
        (
            vec![
                inline("sessionName: old"),
                route("", &[PLAIN.to_owned()]),
                inline("sessionName: new"),
            ],
            json!([]),
        ),
        (
            ["session.limpet.dev/mode: prefix", ""]
                .map(|annotations| policy("BackendLBPolicy", annotations, "sessionName: sid"))
                .to_vec(),
            json!([]),
        ),
        (
            ["", "session.limpet.dev/source: '{timeout: 1h}'"]
                .map(|annotations| policy("BackendLBPolicy", annotations, "sessionName: sid"))
                .to_vec(),
            json!([]),
        ),
    ] {
        let (former, messages) = after(&versions);
        assert_eq!(former, expected, "{versions:#?}");
        let is_said = messages.iter().any(|said| said.contains("tokens in the former"));
        assert_eq!(is_said, expected != json!([]), "{versions:#?}\n{messages:#?}");
    }
}

#[test]
fn rules_that_are_renamed_one_after_the_other_all_go_on() {
    let version = |names: [&str; 4]| {
        let rule = |(at, name): (usize, &str)| {
            format!(
                "{{name: r{at}, matches: [{{path: {{value: /r{at}}}}}], sessionPersistence: {{sessionName: {name}}}, \
                 backendRefs: [{{name: v1, port: 80}}]}}"
            )
        };
        route("", &names.into_iter().enumerate().map(rule).collect::<Vec<_>>())
    };
    let (former, _) = after(&[
        version(["a", "b", "c", "d"]),
        version(["A", "b", "c", "d"]),
        version(["A", "B", "c", "d"]),
        version(["A", "B", "C", "d"]),
        version(["A", "B", "C", "D"]),
    ]);
    let mut former: Vec<String> = serde_json::from_value(former).expect("names");
    former.sort();
    assert_eq!(former, ["cookie a", "cookie b", "cookie c", "cookie d"]);
}

#[test]
fn an_object_that_is_made_again_has_no_former_name() {
    let other = policy("BackendLBPolicy", "", "sessionName: new").replace("uid: one", "uid: two");
    let (former, _) = after(&[policy("BackendLBPolicy", "", "sessionName: old"), other]);
    assert_eq!(former, json!([]));
}

#[test]
fn a_typo_after_a_renaming_keeps_the_former_name() {
    let wrong = policy(
        "BackendLBPolicy",
        "session.limpet.dev/strikt: 'true'",
        "sessionName: new",
    );
    let said = ["old", "new"].map(|name| policy("BackendLBPolicy", "", &format!("sessionName: {name}")));
    let [old, new] = said;
    for versions in [
        vec![old.clone(), new.clone(), wrong.clone()],
        vec![old.clone(), new.clone(), wrong.clone(), new.clone()],
        vec![old, wrong, new],
    ] {
        assert_eq!(after(&versions).0, json!(["cookie old"]), "{versions:#?}");
    }
}

#[test]
fn former_names_leave_room_for_what_is_asked_for() {
    let also: Vec<Value> = (0..7)
        .map(|at| json!({"header": {"name": format!("x-{at}")}}))
        .collect();
    let also = format!("session.limpet.dev/also: '{}'", json!(also));
    let versions = ["a", "b", "c"].map(|name| policy("BackendLBPolicy", &also, &format!("sessionName: {name}")));
    assert_eq!(after(&versions).0, json!(["cookie b"]));
    let also = "session.limpet.dev/also: '[{cookie: {name: old}}]'";
    let versions = ["old", "new"].map(|name| {
        let annotations = if name == "new" { also } else { "" };
        policy("BackendLBPolicy", annotations, &format!("sessionName: {name}"))
    });
    assert_eq!(after(&versions).0, json!([]));
}
