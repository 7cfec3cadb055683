//! Further carriers: where else a policy accepts its tokens.

use limpet_core::UnansweredRequests;
use limpet_core::token::{CarrierMode, PayloadForm, TokenRefusal};
use serde_json::{Value, json};

use crate::world::*;

fn site(also: Value) -> Site {
    Site::new(cookie_policy(json!({ "also": also })))
}

fn token(host: &str) -> String {
    cookie_token("cart", &claims(host, at(0), at(0)))
}

fn set(name: &str, value: &str) -> Edit {
    Edit::Set(name.into(), value.into())
}

#[test]
fn a_token_of_a_further_carrier_counts_and_is_taken_out() {
    let token = token(A);
    for (also, header, value, edit) in [
        (
            json!({"query": {"name": "s"}}),
            ":path",
            format!("/a?b&s={token}"),
            set(":path", "/a?b"),
        ),
        (
            json!({"query": {"name": "s"}}),
            ":path",
            format!("?s={token}"),
            set(":path", "/"),
        ),
        (
            json!({"header": {"name": "X-Further"}}),
            "x-further",
            token.clone(),
            Edit::Remove("x-further".into()),
        ),
        (
            json!({"cookie": {"name": "t"}}),
            "cookie",
            format!("a=1; t={token}"),
            set("cookie", "a=1"),
        ),
    ] {
        let visit = site(json!([also])).visit(&FakeRequest::new().header(header, &value), &FakeResponse::by(A), at(1));
        assert_eq!(
            visit.outcomes(),
            (STEERED, UNCHANGED),
            "{also}: no new token for who keeps one elsewhere"
        );
        assert_eq!(visit.host().as_deref(), Some(A), "{also}");
        assert_eq!((visit.request_edit, visit.further_edits), (None, vec![edit]), "{also}");
    }
}

#[test]
fn the_backend_sees_it_where_the_carrier_says_so() {
    let request = || FakeRequest::new().path(&format!("/?s={}", token(A)));
    let visit = |forward: bool| {
        let site = site(json!([{"query": {"name": "s", "forward": forward}}]));
        site.visit(&request(), &FakeResponse::by(A), at(0))
    };
    assert_eq!((visit(true).request, visit(true).further_edits), (STEERED, Vec::new()));
    assert_eq!(
        (visit(false).request, visit(false).further_edits),
        (STEERED, vec![set(":path", "/")])
    );
}

#[test]
fn of_tokens_of_the_same_age_that_of_the_first_carrier_counts() {
    let site = site(json!([{"query": {"name": "s"}}, {"header": {"name": "x-further"}}]));
    let [a, b] = [A, B].map(token);
    let of = |cookie: &str, query: &str, header: &str| {
        let request = FakeRequest::new()
            .cookie(&format!("{COOKIE}={cookie}"))
            .path(&format!("/?s={query}"))
            .header("x-further", header);
        site.visit(&request, &FakeResponse::by(A), at(0))
    };
    assert_eq!(of(&a, &b, &b).host().as_deref(), Some(A));
    assert_eq!(of("x", &a, &b).host().as_deref(), Some(A));
    assert_eq!(of("x", "y", &b).host().as_deref(), Some(B));
    for visit in [of(&a, &b, &b), of("x", &a, &b), of("x", "y", &b), of("x", "y", "z")] {
        assert_eq!(visit.request_edit, Some(Edit::Remove("cookie".into())));
        let removed = [set(":path", "/"), Edit::Remove("x-further".into())];
        assert_eq!(
            visit.further_edits, removed,
            "the backend sees no token, whichever counts"
        );
    }
}

#[test]
fn the_first_refusal_is_told() {
    let site = site(json!([{"query": {"name": "s"}}, {"header": {"name": "x-further"}}]));
    let foreign =
        realm(1, "checkout", CarrierMode::Cookie, COOKIE).seal(PayloadForm::Sealed, &claims(A, at(0), at(0)), [0; 4]);
    let request = FakeRequest::new()
        .path(&format!("/?s={foreign}"))
        .header("x-further", "x");
    let visit = site.visit(&request, &FakeResponse::by(A), at(0));
    assert_eq!(visit.outcomes(), (refused(TokenRefusal::BadSignature), ISSUED));
    let visit = site.visit(&request.cookie(&format!("{COOKIE}=x")), &FakeResponse::by(A), at(0));
    assert_eq!(visit.outcomes(), (refused(TokenRefusal::Malformed), ISSUED));
}

#[test]
fn a_due_token_comes_in_the_policys_own_carrier() {
    let site = Site::new(cookie_policy(
        json!({ "idleTimeout": "100s", "also": [{"query": {"name": "s"}}] }),
    ));
    let request = FakeRequest::new().path(&format!("/?s={}", token(A)));
    let at_once = site.visit(&request, &FakeResponse::by(A), at(5));
    assert_eq!((at_once.response, at_once.set_cookie()), (UNCHANGED, None));
    let renewed = site.visit(&request, &FakeResponse::by(A), at(50));
    assert_eq!(renewed.response, RENEWED);
    assert!(renewed.token().is_some());
    let moved = site.visit(&request, &FakeResponse::by(B), at(5));
    assert_eq!(moved.response, REISSUED);
    assert!(moved.token().is_some());
}

#[test]
fn carriers_in_one_header_are_all_taken_out() {
    let site = site(json!([
        {"cookie": {"name": "t"}}, {"cookie": {"name": "u"}}, {"query": {"name": "s"}}, {"query": {"name": "r"}},
    ]));
    let [a, b] = [A, B].map(token);
    let request = FakeRequest::new()
        .cookie(&format!("x=1; u={a}; {COOKIE}=y; t={b}; z=2"))
        .path(&format!("/?r={a}&x=1&s={b}&r=&z"));
    let visit = site.visit(&request, &FakeResponse::by(B), at(0));
    assert_eq!(visit.host().as_deref(), Some(B));
    assert_eq!(visit.request_edit, Some(set("cookie", "x=1; z=2")));
    assert_eq!(visit.further_edits, [set(":path", "/?x=1&z")]);
    let only = FakeRequest::new().cookie(&format!("t={a}; {COOKIE}={b}; u={b}"));
    let visit = site.visit(&only, &FakeResponse::by(B), at(0));
    assert_eq!(visit.request_edit, Some(Edit::Remove("cookie".into())));
}

/// The restarted request has the redirect's path, so a forwarded token is gone too.
#[test]
fn a_redirected_request_has_its_session() {
    for (also, header, value) in [
        (
            json!({"query": {"name": "s"}}),
            ":path",
            format!("/from?s={}", token(A)),
        ),
        (
            json!({"query": {"name": "s", "forward": true}}),
            ":path",
            format!("/from?s={}", token(A)),
        ),
        (json!({"header": {"name": "x-further"}}), "x-further", token(A)),
        (json!({"cookie": {"name": "t"}}), "cookie", format!("t={}", token(A))),
    ] {
        let site = site(json!([also]));
        let remembered: &'static UnansweredRequests = Box::leak(Box::default());
        let request = FakeRequest::new().header(header, &value).remembered(remembered, "id");
        let mut session = site.session(&request);
        session.on_request(&mut request.clone(), at(1)).unwrap();
        session.end_unanswered(remembered, || Ok(at(1)));
        let again = FakeRequest::new().path("/to").remembered(remembered, "id").redirected();
        let visit = site.visit(&again, &FakeResponse::by(A), at(1));
        assert_eq!(visit.outcomes(), (STEERED, UNCHANGED), "{also}");
    }
}

#[test]
fn an_applications_cookie_is_issued_by_the_application_only() {
    let site =
        Site::new(json!({"cookie": {"name": "JSESSIONID", "mode": "prefix"}, "also": [{"query": {"name": "s"}}]}));
    let token = realm(1, "cart", CarrierMode::CookiePrefix, "JSESSIONID").seal(
        PayloadForm::Sealed,
        &claims(A, at(0), at(0)),
        [0; 4],
    );
    let request = FakeRequest::new().path(&format!("/?s={token}"));
    let visit = site.visit(&request, &FakeResponse::by(A), at(0));
    assert_eq!(visit.outcomes(), (STEERED, UNCHANGED));
    let set = site.visit(
        &request,
        &FakeResponse::by(A).header("set-cookie", "JSESSIONID=abc"),
        at(0),
    );
    assert_eq!(set.outcomes(), (STEERED, RENEWED));
}

#[test]
fn a_split_leads_a_query_token_to_its_cluster() {
    let site = site(json!([{"query": {"name": "s"}}]));
    let request = FakeRequest::new()
        .session(format!("@split/{SESSION}"))
        .cluster("other")
        .destinations(&[CLUSTER])
        .path(&format!("/?s={}", token(A)));
    let visit = site.visit(&request, &FakeResponse::by(A), at(0));
    assert_eq!(
        (visit.outcomes(), visit.host().as_deref()),
        ((STEERED, UNCHANGED), Some(A))
    );
}

#[test]
fn hostile_queries_cost_a_policy_fifty_tokens() {
    let site = site(json!([{"query": {"name": "s"}}]));
    let visit = |path: &str| site.visit(&FakeRequest::new().path(path), &FakeResponse::by(A), at(0));
    let [a, b] = [A, B].map(token);
    assert_eq!(visit(&format!("/?s={a}&s={a}&s={b}")).host().as_deref(), Some(A));
    assert_eq!(visit(&format!("/?s=x&s=&s&s={a}")).host().as_deref(), Some(A));
    let foreign =
        realm(1, "checkout", CarrierMode::Cookie, COOKIE).seal(PayloadForm::Sealed, &claims(A, at(0), at(0)), [0; 4]);
    let behind = |count: usize| visit(&format!("/?{}s={a}", format!("s={foreign}&").repeat(count)));
    assert_eq!(behind(49).host().as_deref(), Some(A));
    assert_eq!(behind(50).request, refused(TokenRefusal::BadSignature));
    let encoded: String = a.bytes().map(|byte| format!("%{byte:02x}")).collect();
    assert_eq!(visit(&format!("/?%73={encoded}")).host().as_deref(), Some(A));
    assert_eq!(visit(&format!("/?s=%{a}")).request, refused(TokenRefusal::Malformed));
    let many: String = (0..10_000).map(|i| format!("p{i}=v&")).collect();
    let found = visit(&format!("/?{many}s={a}&{many}"));
    assert_eq!(found.host().as_deref(), Some(A));
    assert_eq!(found.further_edits, [set(":path", &format!("/?{many}{many}"))]);
    for long in ["x".repeat(60 << 10), "%41".repeat(20 << 10), "&".repeat(60 << 10)] {
        let found = visit(&format!("/?s={long}&s={a}"));
        assert_eq!(found.host().as_deref(), Some(A));
        assert_eq!(
            visit(&format!("/?{long}&s={a}")).further_edits,
            [set(":path", &format!("/?{long}"))]
        );
    }
    let same = visit(&format!("/?{}a", "s=x&".repeat(10_000)));
    assert_eq!(same.further_edits, [set(":path", "/?a")]);
}

#[test]
fn a_further_carrier_costs_one_question() {
    let site = site(json!([{"query": {"name": "s"}}, {"header": {"name": "x-further"}}]));
    let request = bringing(&claims(A, at(0), at(0)));
    let response = FakeResponse::by(A).surely_as_asked();
    site.visit(&request, &response, at(1));
    assert_eq!(request.questions(), ["route_session", "cookie", ":path", "x-further"]);
    assert_eq!(response.questions(), ["maybe_other_host"]);
}
