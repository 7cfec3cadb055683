//! Sessions that begin only when the application says so.

use limpet_core::token::TokenRefusal;
use serde_json::{Value, json};

use crate::world::*;

const LOGIN: &str = "login=abc; Path=/";

fn site(begin: Value) -> Site {
    Site::new(cookie_policy(json!({ "begin": begin })))
}

fn setting(cookie: &str) -> FakeResponse {
    FakeResponse::by(A).header("set-cookie", cookie)
}

fn method(method: &str) -> FakeRequest {
    FakeRequest::new().header(":method", method)
}

#[test]
fn a_visitor_who_never_logs_in_gets_nothing() {
    for begin in [
        json!({"cookie": "login"}),
        json!({"header": "X-Login"}),
        json!({"methods": ["POST"]}),
    ] {
        let site = site(begin.clone());
        let visitor = site.client();
        for (host, now) in [(A, 0), (B, 1), (A, 2)] {
            let visit = visitor.visit(host, at(now));
            assert_eq!(visit.outcomes(), (NO_TOKEN, UNCHANGED), "{begin}");
            assert_eq!((visit.steering, visit.edits), (None, vec![]));
        }
    }
}

#[test]
fn the_applications_cookie_begins_a_session() {
    let site = site(json!({"cookie": "login"}));
    for (cookie, outcome) in [
        (LOGIN, ISSUED),
        ("login=abc; Max-Age=60", ISSUED),
        ("login=\"abc\"", ISSUED),
        ("Login=abc", UNCHANGED),
        ("other=abc", UNCHANGED),
        ("login=; Path=/", UNCHANGED),
        ("login=\"\"", UNCHANGED),
        ("login=deleteMe; Max-Age=0", UNCHANGED),
        ("login=abc; Expires=Thu, 01 Jan 1970 00:00:00 GMT", UNCHANGED),
    ] {
        let visit = site.visit(&FakeRequest::new(), &setting(cookie), at(0));
        assert_eq!(visit.outcomes(), (NO_TOKEN, outcome), "{cookie}");
        assert_eq!(visit.token().is_some(), outcome == ISSUED);
    }
    // Many applications delete the former cookie beside the new one.
    let both = setting("login=; Max-Age=0").header("set-cookie", LOGIN);
    assert_eq!(site.visit(&FakeRequest::new(), &both, at(0)).response, ISSUED);
}

#[test]
fn the_applications_header_begins_a_session() {
    let site = site(json!({"header": "X-Login"}));
    for (name, value, outcome) in [
        ("x-login", "yes", ISSUED),
        ("x-login", "", UNCHANGED),
        ("x-other", "yes", UNCHANGED),
    ] {
        let visit = site.visit(&FakeRequest::new(), &FakeResponse::by(A).header(name, value), at(0));
        assert_eq!(visit.outcomes(), (NO_TOKEN, outcome), "{name}: {value}");
    }
}

#[test]
fn only_these_methods_begin_a_session() {
    let site = site(json!({"methods": ["POST", "PUT"]}));
    for (request, outcome) in [
        (method("POST"), ISSUED),
        (method("PUT"), ISSUED),
        (method("GET"), UNCHANGED),
        (method("post"), UNCHANGED),
        (FakeRequest::new(), UNCHANGED),
    ] {
        let visit = site.visit(&request, &FakeResponse::by(A), at(0));
        assert_eq!(visit.outcomes(), (NO_TOKEN, outcome), "{request:?}");
    }
}

#[test]
fn a_cookie_and_a_method_must_both_be_there() {
    let site = site(json!({"cookie": "login", "methods": ["POST"]}));
    for (request, response, outcome) in [
        (method("POST"), setting(LOGIN), ISSUED),
        (method("GET"), setting(LOGIN), UNCHANGED),
        (method("POST"), FakeResponse::by(A), UNCHANGED),
    ] {
        assert_eq!(site.visit(&request, &response, at(0)).response, outcome);
    }
}

#[test]
fn a_session_that_lives_goes_on_as_always() {
    let site = Site::new(cookie_policy(json!({
        "begin": {"cookie": "login", "methods": ["POST"]}, "idleTimeout": "100s",
    })));
    let client = site.client();
    let login = client.visit_by(method("POST"), &setting(LOGIN), at(0));
    assert_eq!(login.response, ISSUED);
    for (host, now, outcome) in [
        (A, 1, UNCHANGED),
        (A, 50, RENEWED),
        (B, 51, REISSUED),
        (B, 52, UNCHANGED),
    ] {
        let visit = client.visit(host, at(now));
        assert_eq!(visit.outcomes(), (STEERED, outcome), "after {now} s");
    }
}

/// Otherwise, any client could begin a session with a forged token.
#[test]
fn a_refused_token_is_no_session() {
    let begin = json!({"cookie": "login"});
    let fence = json!({ "fences": [{ "address": A, "notBefore": at(5).unix_seconds() }] });
    let policy = |fields: Value| cookie_policy(with(json!({ "begin": begin }), fields));
    let expiring = Site::new(policy(json!({ "absoluteTimeout": "10s" })));
    let fenced = Site::configured(policy(json!({})), fence);
    let strict = Site::new(policy(json!({ "strict": true })));
    let old = || bringing(&claims(A, at(0), at(0)));
    for (site, request, refusal) in [
        (&expiring, old(), TokenRefusal::Expired),
        (&fenced, old(), TokenRefusal::Fenced),
        (
            &expiring,
            FakeRequest::new().cookie("session=x"),
            TokenRefusal::Malformed,
        ),
        (&strict, old().cluster("other"), TokenRefusal::UnknownDestination),
    ] {
        let visit = site.visit(&request, &FakeResponse::by(B), at(20));
        assert_eq!(visit.outcomes(), (refused(refusal), UNCHANGED));
        assert_eq!(visit.edits, []);
        let login = site.visit(&request, &setting(LOGIN), at(20));
        assert_eq!(login.outcomes(), (refused(refusal), ISSUED));
    }
}

#[test]
fn a_session_that_ends_late_begins_as_any_other() {
    let site = site(json!({"cookie": "login", "methods": ["POST"]}));
    let gone = |name: &str| {
        bringing(&claims(A, at(0), at(0)))
            .session("@split/shop/cart")
            .header(":method", name)
            .rerouted_later()
    };
    for (name, response, outcome) in [
        ("POST", setting(LOGIN), ISSUED),
        ("GET", setting(LOGIN), UNCHANGED),
        ("POST", FakeResponse::by(A), UNCHANGED),
    ] {
        let visit = site.visit(&gone(name), &response.cluster("other"), at(1));
        assert!(visit.told_late);
        assert_eq!(visit.outcomes(), (refused(TokenRefusal::UnknownDestination), outcome));
    }
}

#[test]
fn every_carrier_of_the_filter_waits_for_the_application() {
    let tell = json!({"tell": {"header": {"name": HEADER}}});
    for policy in [
        header_policy(json!({})),
        with(cookie_policy(json!({})), tell.clone()),
        with(json!({"query": {"name": "s"}}), tell),
    ] {
        let site = Site::new(with(policy, json!({"begin": {"cookie": "login"}})));
        let before = site.visit(&FakeRequest::new(), &FakeResponse::by(A), at(0));
        assert_eq!((before.response, before.edits), (UNCHANGED, vec![]));
        let login = site.visit(&FakeRequest::new(), &setting(LOGIN), at(0));
        assert_eq!(login.response, ISSUED);
        assert!(login.token().is_some());
    }
}

#[test]
fn a_redirect_gets_a_token_when_the_session_begins() {
    let policy = json!({"query": {"name": "s", "redirects": true}, "begin": {"cookie": "login"}});
    let site = Site::new(policy);
    let request = || FakeRequest::new().header(":authority", "shop").path("/");
    let redirect = || FakeResponse::by(A).status(303).header("location", "/basket");
    let before = site.visit(&request(), &redirect(), at(0));
    assert_eq!((before.response, before.edits), (UNCHANGED, vec![]));
    let login = site.visit(&request(), &redirect().header("set-cookie", LOGIN), at(0));
    assert_eq!(login.response, ISSUED);
    assert!(
        login
            .edits
            .iter()
            .any(|edit| matches!(edit, Edit::Set(name, _) if name == "location"))
    );
}

#[test]
fn an_entry_begins_with_the_applications_sign() {
    let site = Site::new(json!({"source": {}, "begin": {"cookie": "login", "methods": ["POST"]}}));
    let from = |name: &str| method(name).client("192.0.2.1:4711");
    for (request, response) in [
        (from("GET"), FakeResponse::by(A)),
        (from("POST"), FakeResponse::by(A)),
        (from("GET"), setting(LOGIN)),
    ] {
        assert_eq!(site.visit(&request, &response, at(0)).outcomes(), (NO_TOKEN, UNCHANGED));
    }
    let login = site.visit(&from("POST"), &setting(LOGIN), at(1));
    assert_eq!((login.outcomes(), login.edits), ((NO_TOKEN, ISSUED), vec![]));
    let moved = site.visit(&from("GET"), &FakeResponse::by(B), at(2));
    assert_eq!(moved.outcomes(), (STEERED, REISSUED));
}

#[test]
fn replies_of_the_proxy_begin_no_session() {
    let site = site(json!({"cookie": "login"}));
    let reply = FakeResponse::local(200, "direct_response", A).header("set-cookie", LOGIN);
    assert_eq!(site.visit(&FakeRequest::new(), &reply, at(0)).response, UNCHANGED);
}

#[test]
fn a_proxy_that_does_not_answer_is_an_error() {
    let site = site(json!({"cookie": "login", "methods": ["POST"]}));
    let broken = method("POST").broken(":method");
    assert!(site.session(&broken).on_request(&mut broken.clone(), at(0)).is_err());
    let request = method("POST");
    let mut session = site.session(&request);
    session.on_request(&mut request.clone(), at(0)).unwrap();
    let response = FakeResponse::by(A).broken("set-cookie");
    assert!(session.on_response(&response, || Ok(at(0))).is_err());
}
