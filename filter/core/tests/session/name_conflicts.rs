//! The application's own cookie or header of the session's name, in mode `insert`.

use serde_json::json;

use crate::world::*;

fn steady() -> (FakeRequest, FakeResponse) {
    let session = bringing(&claims(A, at(0), at(0)));
    (session, FakeResponse::by(A).surely_as_asked())
}

fn setting(response: FakeResponse) -> FakeResponse {
    response
        .header("set-cookie", "a=1; Path=/")
        .header("set-cookie", &format!("{COOKIE}=app; Path=/"))
        .header("set-cookie", "b=2")
}

fn set_cookies(visit: &Visit) -> Vec<&str> {
    let fields = visit.edits.iter().filter_map(|edit| match edit {
        Edit::Add(name, value) if name == "set-cookie" => Some(value.as_str()),
        _ => None,
    });
    fields.collect()
}

#[test]
fn a_client_gets_one_cookie_of_the_name_and_it_is_the_sessions() {
    let site = Site::new(cookie_policy(json!({})));
    let visit = site.visit(&FakeRequest::new(), &setting(FakeResponse::by(A)), at(0));
    assert_eq!(visit.outcomes(), (NO_TOKEN, ISSUED));
    assert_eq!(visit.edits[0], Edit::Remove("set-cookie".into()));
    let [a, b, ours] = set_cookies(&visit)[..] else {
        panic!("{:?}", visit.edits)
    };
    assert_eq!((a, b), ("a=1; Path=/", "b=2"));
    assert!(ours.starts_with(&format!("{COOKIE}=")) && ours.len() > 60, "{ours}");
}

#[test]
fn a_conflict_is_counted_each_time_and_told_once() {
    let site = Site::new(cookie_policy(json!({})));
    let visit = || {
        site.visit(&FakeRequest::new(), &setting(FakeResponse::by(A)), at(0))
            .name_conflict
    };
    assert_eq!(
        visit().as_deref(),
        Some(
            "policy shop: the application sets a cookie of its own named session, which is the session's: it is \
             removed from requests and responses, so rename one of the two"
        )
    );
    assert_eq!(visit().as_deref(), Some(""));
    let without = site.visit(
        &FakeRequest::new(),
        &FakeResponse::by(A).header("set-cookie", "a=1"),
        at(0),
    );
    assert_eq!(without.name_conflict, None);
    assert_eq!(without.edits.len(), 2, "{:?}", without.edits);
}

#[test]
fn once_an_application_did_it_all_its_responses_are_looked_at() {
    let site = Site::new(cookie_policy(json!({})));
    site.visit(&FakeRequest::new(), &setting(FakeResponse::by(A)), at(0));
    let (session, response) = steady();
    let visit = site.visit(&session, &setting(response), at(1));
    assert_eq!(visit.outcomes(), (STEERED, UNCHANGED));
    assert_eq!(
        set_cookies(&visit),
        ["a=1; Path=/", "b=2"],
        "the client keeps its token"
    );
}

/// Responses are checked only from the request on in which the client brings it.
#[test]
fn an_application_that_sets_its_cookie_later_ends_one_session() {
    let site = Site::new(cookie_policy(json!({})));
    let (session, response) = steady();
    assert_eq!(site.visit(&session, &setting(response), at(1)).name_conflict, None);
    let brought = FakeRequest::new().cookie(&format!("{COOKIE}=app"));
    site.visit(&brought, &FakeResponse::by(A), at(2));
    let (session, response) = steady();
    let visit = site.visit(&session, &setting(response), at(3));
    assert_eq!(visit.outcomes(), (STEERED, UNCHANGED));
    assert!(visit.name_conflict.is_some());
    assert_eq!(
        set_cookies(&visit),
        ["a=1; Path=/", "b=2"],
        "the client keeps its token"
    );
}

#[test]
fn the_applications_header_of_the_name_does_not_arrive() {
    let site = Site::new(header_policy(json!({})));
    let first = site.visit(&FakeRequest::new(), &FakeResponse::by(A).header(HEADER, "app"), at(0));
    let token = first.token().unwrap();
    assert!(
        first
            .name_conflict
            .unwrap()
            .contains(&format!("a header of its own named {HEADER}"))
    );
    site.visit(&FakeRequest::new().header(HEADER, "app"), &FakeResponse::by(A), at(1));
    let again = site.visit(
        &FakeRequest::new().header(HEADER, &token),
        &FakeResponse::by(A).surely_as_asked().header(HEADER, "app"),
        at(2),
    );
    assert_eq!(again.outcomes(), (STEERED, UNCHANGED));
    assert_eq!(again.edits, [Edit::Remove(HEADER.into())]);
}

/// A token under the plain name is from before `perScope`.
#[test]
fn with_a_name_per_scope_the_plain_name_is_free() {
    let site = Site::new(cookie_policy(json!({ "cookie": { "perScope": true } })));
    let request = FakeRequest::new().cookie(&format!("{COOKIE}=app; a=1"));
    let visit = site.visit(&request, &setting(FakeResponse::by(A)), at(0));
    assert_eq!(visit.outcomes(), (NO_TOKEN, ISSUED));
    assert_eq!((visit.request_edit, visit.name_conflict), (None, None));
}

#[test]
fn the_applications_modes_know_no_conflict() {
    for mode in ["prefix", "rewrite"] {
        let site = Site::new(cookie_policy(json!({ "cookie": { "mode": mode } })));
        let visit = site.visit(
            &FakeRequest::new().cookie(&format!("{COOKIE}=app")),
            &setting(FakeResponse::by(A)),
            at(0),
        );
        assert_eq!((visit.response, visit.name_conflict), (ISSUED, None), "{mode}");
    }
}

#[test]
fn without_a_suspicion_the_steady_state_asks_nothing_more() {
    let site = Site::new(cookie_policy(json!({})));
    let (session, response) = steady();
    site.visit(&session, &response, at(1));
    assert_eq!(response.questions(), ["maybe_other_host"]);
}

#[test]
fn a_client_cannot_have_every_response_looked_at() {
    let site = Site::new(cookie_policy(json!({})));
    let garbage = FakeRequest::new().cookie(&format!("{COOKIE}=garbage"));
    site.visit(&garbage, &FakeResponse::by(A), at(0));
    let looked = (0..200).filter(|_| {
        let (session, response) = steady();
        site.visit(&session, &response, at(1));
        response.questions() != ["maybe_other_host"]
    });
    assert_eq!(looked.count(), 100);
}
