//! The questions to the proxy. For the wasm filter, all headers together cost one host call, and every other question
//! one.

use std::time::{Duration, Instant};

use limpet_core::keyring::{KeyEntry, KeyId, KeyState, Keyring, Secret};
use limpet_core::token::{CarrierMode, PayloadForm, Realm};
use serde_json::{Value, json};

use crate::world::*;

fn steady_state(policy: Value, fields: Value, request: FakeRequest) -> (Vec<String>, Vec<String>) {
    let site = Site::configured(policy, fields);
    let response = FakeResponse::by(A).surely_as_asked();
    let visit = site.visit(&request, &response, at(1));
    assert_eq!(visit.outcomes(), (STEERED, UNCHANGED));
    (request.questions(), response.questions())
}

fn session() -> FakeRequest {
    bringing(&claims(A, at(0), at(0)))
}

#[test]
fn the_steady_state_asks_for_headers_only() {
    let (request, response) = steady_state(cookie_policy(json!({})), json!({}), session());
    assert_eq!(request, ["route_session", "cookie"]);
    assert_eq!(response, ["maybe_other_host"]);
}

#[test]
fn the_steady_state_does_not_ask_for_the_time_of_the_response() {
    let site = Site::new(cookie_policy(json!({ "strict": true, "strictStatus": 421 })));
    let (request, response) = (session(), FakeResponse::by(A).surely_as_asked());
    let mut session = site.session(&request);
    session.on_request(&mut request.clone(), at(1)).unwrap();
    let plan = session
        .on_response(&response, || panic!("the time was asked for"))
        .unwrap();
    assert_eq!(plan.outcome, UNCHANGED);
}

#[test]
fn a_strict_session_asks_for_its_cluster_too() {
    let (request, response) = steady_state(cookie_policy(json!({ "strict": true })), json!({}), session());
    assert_eq!(request, ["route_session", "cookie", "cluster_name"]);
    assert_eq!(response, ["maybe_other_host"]);
}

#[test]
fn a_strict_status_costs_one_more_question() {
    let policy = cookie_policy(json!({ "strict": true, "strictStatus": 421 }));
    assert_eq!(
        steady_state(policy, json!({}), session()).1,
        ["maybe_other_host", "code_details"]
    );
}

#[test]
fn a_policy_whose_sessions_move_costs_one_more_question() {
    for policy in [cookie_policy(json!({})), header_policy(json!({}))] {
        let token =
            realm(1, "cart", CarrierMode::Header, HEADER).seal(PayloadForm::Sealed, &claims(A, at(0), at(0)), [0; 4]);
        let session = || session().header(HEADER, &token);
        let moves = with(policy.clone(), json!({ "move": { "header": "X-Move" } }));
        let [before, after] = [policy, moves].map(|policy| steady_state(policy, json!({}), session()));
        assert_eq!(before.0, after.0);
        assert_eq!(
            (before.1, after.1),
            (
                vec!["maybe_other_host".into()],
                vec!["x-move".into(), "maybe_other_host".into()]
            )
        );
    }
}

#[test]
fn a_request_without_a_session_costs_one_question() {
    let site = Site::new(cookie_policy(json!({})));
    let request = FakeRequest::on_route("other").cookie("session=x");
    assert_eq!(site.policy_of(&request), Ok(None));
    assert_eq!(request.questions(), ["route_session"]);
}

fn first_response(fields: Value, response: FakeResponse) -> Vec<String> {
    let site = Site::new(cookie_policy(fields));
    site.visit(&FakeRequest::new().header(":method", "GET"), &response, at(0));
    response.questions()
}

#[test]
fn when_a_session_begins_costs_a_living_one_nothing() {
    let policy = cookie_policy(json!({ "begin": {"cookie": "login", "methods": ["POST"]} }));
    let (request, response) = steady_state(policy, json!({}), session());
    assert_eq!(request, ["route_session", "cookie"]);
    assert_eq!(response, ["maybe_other_host"]);
}

#[test]
fn who_begins_no_session_costs_one_question_at_most() {
    let by_cookie = json!({ "begin": {"cookie": "login"} });
    assert_eq!(first_response(by_cookie, FakeResponse::by(A)), ["set-cookie"]);
    let by_header = json!({ "begin": {"header": "x-login"} });
    assert_eq!(first_response(by_header, FakeResponse::by(A)), ["x-login"]);
    let by_method = json!({ "begin": {"cookie": "login", "methods": ["POST"]} });
    assert_eq!(first_response(by_method, FakeResponse::by(A)), [""; 0]);
}

#[test]
fn a_logout_is_looked_for_once_in_each_response() {
    let end = json!({ "end": {"cookie": "login"} });
    let (request, response) = steady_state(cookie_policy(end.clone()), json!({}), session());
    assert_eq!(request, ["route_session", "cookie"]);
    assert_eq!(response, ["set-cookie", "maybe_other_host"]);
    let both = with(end, json!({ "begin": {"cookie": "login"} }));
    assert_eq!(first_response(both, FakeResponse::by(A)), ["set-cookie"]);
}

#[test]
fn other_cookies_do_not_make_the_filter_ask_for_the_time() {
    let site = Site::new(cookie_policy(json!({ "end": {"cookie": "login"} })));
    let request = session();
    let mut session = site.session(&request);
    session.on_request(&mut request.clone(), at(1)).unwrap();
    let response = FakeResponse::by(A).surely_as_asked().header("set-cookie", "other=1");
    let plan = session.on_response(&response, || panic!("the time was asked for"));
    assert_eq!(plan.unwrap().outcome, UNCHANGED);
}

#[test]
fn a_split_asks_about_its_destination_with_a_new_token_alone() {
    let split = || session().session("@split/shop/cart").destinations(&[CLUSTER]);
    let (_, response) = steady_state(cookie_policy(json!({})), json!({}), split());
    assert_eq!(response, ["maybe_other_host"]);
    let site = Site::new(cookie_policy(json!({})));
    for (response, times) in [(FakeResponse::by(A), 0), (FakeResponse::by(B), 1)] {
        site.visit(&split(), &response, at(1));
        let asked = response.questions();
        let of_cluster = asked.iter().filter(|question| *question == "cluster_session");
        assert_eq!(of_cluster.count(), times, "{asked:?}");
    }
}

#[test]
fn an_entry_in_use_costs_nothing_more() {
    let fields = json!({ "source": {}, "begin": {"cookie": "login", "methods": ["POST"]}, "strict": true });
    let site = Site::new(fields);
    let client = || {
        FakeRequest::new()
            .client("192.0.2.1:1")
            .session("@split/shop/cart")
            .header(":method", "POST")
    };
    site.visit(&client(), &FakeResponse::by(A).header("set-cookie", "login=1"), at(0));
    let (request, response) = (client().destinations(&[CLUSTER]), FakeResponse::by(A));
    let visit = site.visit(&request, &response, at(1));
    assert_eq!(visit.outcomes(), (STEERED, UNCHANGED));
    assert_eq!(request.questions(), ["route_session", "client_address", "reroute"]);
    assert_eq!(
        response.questions(),
        ["code_details", "upstream_address", "cluster_name"]
    );
}

#[test]
fn nothing_is_asked_twice() {
    let site = Site::new(cookie_policy(
        json!({ "strict": true, "strictStatus": 421, "idleTimeout": "10s" }),
    ));
    for (request, response) in [
        (FakeRequest::new(), FakeResponse::by(A)),
        (session(), FakeResponse::by(A)),
        (session(), FakeResponse::by(B)),
        (session(), FakeResponse::local(503, "no_healthy_upstream", A)),
    ] {
        for now in [at(0), at(5), at(50)] {
            let before = (request.questions().len(), response.questions().len());
            site.visit(&request, &response, now);
            for mut asked in [
                request.questions().split_off(before.0),
                response.questions().split_off(before.1),
            ] {
                let all = asked.len();
                asked.sort();
                asked.dedup();
                assert_eq!(asked.len(), all, "{request:?} {response:?}");
            }
        }
    }
}

/// A token names its key, so no other key is tried.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test compares two costs")]
fn the_number_of_keys_costs_a_request_nothing() {
    let realm = |others: u8| {
        let entry = |id: u8| KeyEntry {
            id: KeyId(id),
            state: if id == 0 { KeyState::Signing } else { KeyState::Retiring },
            secret: Some(Secret::new([id; 32])),
        };
        let entries: Vec<KeyEntry> = (0..=others).map(entry).collect();
        let keyring = Keyring::from_entries(&entries).unwrap();
        Realm::new(&keyring, b"cart", CarrierMode::Cookie, COOKIE)
    };
    // When keys were tried one by one, this was the last.
    let token = |others: u8| {
        let secret = Secret::new([others; 32]);
        let signing = limpet_core::keyring::Key::new(KeyId(others), KeyState::Signing, &secret);
        let realm = Realm::new(
            &Keyring::new(vec![signing]).unwrap(),
            b"cart",
            CarrierMode::Cookie,
            COOKIE,
        );
        realm.seal(PayloadForm::Sealed, &claims(A, at(0), at(0)), [0; 4])
    };
    let cases = [1, 255].map(|others| (realm(others), token(others)));
    let mut best = [Duration::MAX; 2];
    for _ in 0..40 {
        for (best, (realm, token)) in best.iter_mut().zip(&cases) {
            let start = Instant::now();
            for _ in 0..50 {
                realm.open(token.as_bytes()).unwrap();
            }
            *best = start.elapsed().min(*best);
        }
    }
    let ratio = best[1].as_secs_f64() / best[0].as_secs_f64();
    assert!(ratio < 1.5, "256 keys cost {ratio:.2} times what 2 keys cost");
}
