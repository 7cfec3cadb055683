//! The domains of cookies, and the hosts of the rules that they are for.

use serde_json::json;

use super::*;

const EXPECTED: &str = "session.limpet.dev/domain, or domain of the controller's sessionDefaults: expected a domain of \
                        a hostname that the rule is served for";

fn with_domain(domain: &str, hostnames: &[&str]) -> Sessions {
    let mut world = with_policy(&json!({"sessionName": "s"}));
    let policy = policy("BackendLBPolicy", "p", &["a"], &json!({"sessionName": "s"}));
    world.add(annotated(policy, "domain", domain));
    let mut route = route("web", &json!([rule(&["a"])]));
    route["spec"]["hostnames"] = json!(hostnames);
    world.add(route);
    world.sessions()
}

#[test]
fn a_public_suffix_is_refused_on_the_policy() {
    for domain in ["com", "co.uk", "github.io"] {
        let sessions = with_domain(domain, &[]);
        let [status] = &sessions.status("p")[..] else {
            panic!("{domain}: {:?}", sessions.status("p"))
        };
        assert!(
            status.starts_with(&format!(
                "Accepted=False/Invalid: metadata.annotations[session.limpet.dev/domain]: expected a registered \
                 domain, found {domain:?}"
            )),
            "{status}"
        );
        assert_eq!(sessions.rules[0].session, Session::None);
    }
}

#[test]
fn a_domain_of_one_of_the_hostnames_is_taken() {
    for hostnames in [
        &[][..],
        &["example.com"],
        &["shop.example.com"],
        &["*.example.com"],
        &["*.com"],
        &["other.org", "a.b.example.com"],
    ] {
        let sessions = with_domain("example.com", hostnames);
        assert_eq!(sessions.status("p"), [ACCEPTED], "{hostnames:?}");
        assert_eq!(sessions.policy(0).domain(), Some("example.com"), "{hostnames:?}");
    }
}

#[test]
fn a_domain_of_no_hostname_is_told_on_policy_and_route() {
    for hostnames in [&["example.org"][..], &["badexample.com", "*.example.org"]] {
        let sessions = with_domain("example.com", hostnames);
        assert_eq!(sessions.rules[0].session, Session::None, "{hostnames:?}");
        let found = format!("found \"example.com\" for {}", hostnames.join(", "));
        assert_eq!(
            sessions.problems(0),
            [format!("spec.rules[0]: {EXPECTED}, {found}: browsers drop the cookie")]
        );
        assert_eq!(
            sessions.status("p"),
            [
                ACCEPTED.to_owned(),
                format!(
                    "Programmed=False/Overridden: {EXPECTED}, because browsers drop the cookie otherwise; there are no \
                     sessions on: HTTPRoute shop/web spec.rules[0]"
                ),
            ]
        );
    }
}

#[test]
fn a_default_domain_is_held_to_the_hostnames_too() {
    let mut world = world(SERVICE_AND_ROUTE);
    world.settings.session_defaults.domain = Some("example.com".to_owned());
    let mut web = route("web", &json!([inline(&["a"], &json!({"sessionName": "s"}))]));
    web["spec"]["hostnames"] = json!(["example.org"]);
    world.add(web);
    let sessions = world.sessions();
    assert_eq!(sessions.rules[0].session, Session::None);
    assert_eq!(sessions.problems(0).len(), 1);
}

#[test]
fn a_backend_tells_of_a_domain_of_no_hostname() {
    let mut world = world(SERVICE_AND_ROUTE);
    let backend = json!({
        "kind": "XBackend",
        "metadata": {"name": "blue", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"type": "EndpointSelector", "endpointSelector": {"matchLabels": {"app": "blue"}},
            "port": {"number": 80}, "sessionPersistence": {"cookie": {}}},
    });
    world.add(annotated(backend, "domain", "example.com"));
    let reference = json!({"group": "gateway.networking.x-k8s.io", "kind": "XBackend", "name": "blue"});
    let mut web = route("web", &json!([{"backendRefs": [reference]}]));
    web["spec"]["hostnames"] = json!(["example.org"]);
    world.add(web);
    let sessions = world.sessions();
    assert_eq!(
        only_ancestor(&sessions.backends[&ObjectName::new("shop", "blue")]),
        [format!(
            "Accepted=True/Accepted: The backend is accepted; {EXPECTED}, found \"example.com\": browsers drop the \
             cookie on: HTTPRoute shop/web spec.rules[0]"
        )]
    );
}
