//! What responses tell of sessions, for who counts them.

use limpet_core::census::{Backend, Census, ObservedSession, SessionDeparture, SessionIdentity};
use limpet_core::token::{DestinationId, TokenRefusal};
use serde_json::json;

use crate::world::*;

fn counting(policy: serde_json::Value) -> Site {
    let reports = json!({ "cluster": "limpet.controller", "nodeCluster": "shop/web" });
    Site::configured(policy, json!({ "reportSessions": reports }))
}

fn backend(host: &str, live_for: u32) -> Backend {
    Backend {
        destination: DestinationId::of_cluster(CLUSTER.as_bytes()),
        host: host.parse().unwrap(),
        live_for,
    }
}

#[test]
fn a_session_is_the_same_one_while_it_lives() {
    let site = counting(cookie_policy(json!({ "idleTimeout": "100s" })));
    let client = site.client();
    let first = client.visit(A, at(0)).seen.unwrap();
    let SessionIdentity::Token(nonce) = first.session else {
        panic!("{first:?}");
    };
    let expected = |seconds| ObservedSession {
        backend: backend(A, 100),
        session: SessionIdentity::Token(nonce),
        began: at(0),
        at: at(seconds),
    };
    assert_eq!(first, expected(0));
    for (seconds, outcome) in [(5, UNCHANGED), (15, RENEWED), (16, UNCHANGED), (30, RENEWED)] {
        let visit = client.visit(A, at(seconds));
        assert_eq!((visit.response, visit.left), (outcome, None));
        assert_eq!(visit.seen, Some(expected(seconds)), "{seconds}");
    }
}

#[test]
fn a_session_that_another_backend_answers_is_another_one() {
    let site = counting(cookie_policy(json!({})));
    let client = site.client();
    let first = client.visit(A, at(0)).seen.unwrap();
    let moved = client.visit_by(FakeRequest::new(), &FakeResponse::by(B).nonce([9; 4]), at(1));
    let seen = moved.seen.unwrap();
    assert_eq!((seen.backend.host, seen.began), (B.parse().unwrap(), at(1)));
    assert_ne!(seen.session, first.session);
    assert_eq!(moved.left, Some(SessionDeparture::Backend(backend(A, 7 * 24 * 3600))));
}

#[test]
fn a_session_lives_as_long_as_its_policy_says() {
    for (policy, seconds) in [
        (json!({ "idleTimeout": "90s", "absoluteTimeout": "1h" }), 90),
        (json!({ "absoluteTimeout": "1h" }), 3600),
        (json!({ "idleTimeout": "1500ms" }), 2),
        (json!({}), 7 * 24 * 3600),
    ] {
        let site = counting(cookie_policy(policy.clone()));
        let seen = site.client().visit(A, at(0)).seen.unwrap();
        assert_eq!(seen.backend, backend(A, seconds), "{policy}");
    }
}

#[test]
fn a_refused_token_is_why_a_session_begins_anew() {
    let site = counting(cookie_policy(json!({ "idleTimeout": "10s" })));
    let idle = site.visit(&bringing(&claims(A, at(0), at(0))), &FakeResponse::by(B), at(60));
    assert_eq!(idle.left, Some(SessionDeparture::Refused(TokenRefusal::Idle)));
    assert_eq!(idle.seen.unwrap().backend.host, B.parse().unwrap());
    let none = site.visit(&FakeRequest::new(), &FakeResponse::by(B), at(60));
    assert_eq!(none.left, None);
}

#[test]
fn who_gets_no_answer_of_its_backend_is_not_seen() {
    let site = counting(cookie_policy(json!({ "strict": true })));
    let session = bringing(&claims(A, at(0), at(0)));
    let local = FakeResponse::local(503, "no_healthy_upstream", "");
    assert_eq!(site.visit(&session, &local, at(1)).seen, None);
    let unanswered = site.visit(
        &FakeRequest::new(),
        &FakeResponse::local(503, "no_healthy_upstream", ""),
        at(1),
    );
    assert_eq!((unanswered.seen, unanswered.left), (None, None));
}

#[test]
fn a_session_that_ends_is_not_seen() {
    let site = counting(cookie_policy(json!({ "end": { "cookie": "login" } })));
    let logout = FakeResponse::by(A).header("set-cookie", "login=; Max-Age=0");
    let visit = site.visit(&bringing(&claims(A, at(0), at(0))), &logout, at(1));
    assert_eq!(
        (visit.response, visit.seen),
        (limpet_core::outcome::ResponseOutcome::Ended, None)
    );
}

#[test]
fn the_sessions_of_addresses_are_seen_as_such() {
    let site = counting(json!({ "source": { "timeout": "10s" } }));
    let from = |client: &str| FakeRequest::new().client(client);
    let first = site
        .visit(&from("192.0.2.1:1"), &FakeResponse::by(A), at(0))
        .seen
        .unwrap();
    let again = site
        .visit(&from("192.0.2.1:2"), &FakeResponse::by(A), at(1))
        .seen
        .unwrap();
    let other = site
        .visit(&from("192.0.2.2:1"), &FakeResponse::by(A), at(1))
        .seen
        .unwrap();
    assert!(matches!(first.session, SessionIdentity::Client(_)));
    assert_eq!(first.session, again.session);
    assert_ne!(first.session, other.session);
    assert_eq!(again.backend, backend(A, 10));
    let moved = site.visit(&from("192.0.2.1:1"), &FakeResponse::by(B), at(2));
    assert_eq!(moved.left, Some(SessionDeparture::Backend(backend(A, 10))));
}

#[test]
fn nothing_is_told_where_nobody_counts() {
    let site = Site::new(cookie_policy(json!({})));
    let client = site.client();
    for (host, seconds) in [(A, 0), (A, 1), (B, 2)] {
        let visit = client.visit(host, at(seconds));
        assert_eq!((visit.seen, visit.left), (None, None));
    }
}

#[test]
fn counting_costs_no_question() {
    let site = counting(cookie_policy(json!({})));
    let (request, response) = (
        bringing(&claims(A, at(0), at(0))),
        FakeResponse::by(A).surely_as_asked(),
    );
    assert!(site.visit(&request, &response, at(1)).seen.is_some());
    assert_eq!(request.questions(), ["route_session", "cookie"]);
    assert_eq!(response.questions(), ["maybe_other_host"]);
}

#[test]
fn what_clients_do_is_counted() {
    let site = counting(cookie_policy(json!({ "idleTimeout": "100s" })));
    let census = Census::new([0; 16], 10);
    for number in 0..50 {
        let client = site.client();
        for seconds in 0..3 {
            let response = FakeResponse::by(A).nonce([number; 4]);
            census.record(
                &client
                    .visit_by(FakeRequest::new(), &response, at(seconds))
                    .seen
                    .unwrap(),
            );
        }
    }
    let report = census.report(at(3)).unwrap();
    let [change] = &report.backends[..] else {
        panic!("{report:?}");
    };
    assert_eq!((change.backend(), change.requests), (Some(backend(A, 100)), 150));
    assert_eq!(change.windows[0].sketch().unwrap().estimate(), 50);
}

/// All that leaves an Envoy.
#[test]
fn reports_say_nothing_of_clients() {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    let census = Census::new([9; 16], 10);
    let (cookies, addresses) = (counting(cookie_policy(json!({}))), counting(json!({ "source": {} })));
    let mut secrets = Vec::new();
    for number in 0..200 {
        let response = FakeResponse::by(A).nonce([number; 4]);
        let visit = cookies.visit(&FakeRequest::new(), &response, at(0));
        let token = visit.token().unwrap();
        secrets.push(token.clone().into_bytes());
        secrets.push(URL_SAFE_NO_PAD.decode(&token).unwrap());
        census.record(&visit.seen.unwrap());
        let client = [198, 51, 100, number];
        let request = FakeRequest::new().client(&format!("198.51.100.{number}:4711"));
        census.record(&addresses.visit(&request, &response, at(0)).seen.unwrap());
        secrets.push(client.to_vec());
        secrets.push(format!("198.51.100.{number}").into_bytes());
    }
    let body = census.report(at(1)).unwrap().grpc_body();
    assert!(body.len() > 1000, "there is something to search");
    for secret in secrets {
        // A longer part would contain one of these.
        let parts = secret.windows(secret.len().min(5));
        for part in parts {
            assert!(
                !body.windows(part.len()).any(|found| found == part),
                "{part:?} of {secret:?} is in the report"
            );
        }
    }
}
