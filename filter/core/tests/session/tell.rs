//! Tokens that a response tells in a header, too.

use serde_json::{Value, json};

use crate::world::*;

const TELL: &str = "x-tell";

fn site(fields: Value) -> Site {
    Site::new(with(
        cookie_policy(json!({ "tell": {"header": {"name": "X-Tell"}} })),
        fields,
    ))
}

fn told(visit: &Visit) -> Option<String> {
    visit.edits.iter().rev().find_map(|edit| match edit {
        Edit::Set(name, value) if name == TELL => Some(value.clone()),
        _ => None,
    })
}

#[test]
fn every_issued_token_is_told() {
    let site = site(json!({ "idleTimeout": "100s" }));
    let client = site.client();
    for (host, now, response) in [(A, 0, ISSUED), (A, 50, RENEWED), (B, 51, REISSUED), (B, 52, UNCHANGED)] {
        let visit = client.visit(host, at(now));
        assert_eq!(visit.response, response);
        assert_eq!(told(&visit), visit.token(), "{response:?}");
        assert_eq!(told(&visit).is_some(), response != UNCHANGED);
        let cached = visit.cache_control().is_some();
        assert_eq!(cached, response != UNCHANGED, "no shared cache hands it to others");
    }
}

#[test]
fn a_told_token_counts_in_a_further_carrier() {
    let site = site(json!({ "also": [{"header": {"name": TELL}}, {"query": {"name": "s"}}] }));
    let token = told(&site.visit(&FakeRequest::new(), &FakeResponse::by(A), at(0))).unwrap();
    let by_header = site.visit(&FakeRequest::new().header(TELL, &token), &FakeResponse::by(A), at(1));
    assert_eq!(by_header.outcomes(), (STEERED, UNCHANGED));
    let by_query = site.visit(
        &FakeRequest::new().path(&format!("/?s={token}")),
        &FakeResponse::by(A),
        at(1),
    );
    assert_eq!(by_query.outcomes(), (STEERED, UNCHANGED));
}

#[test]
fn the_token_of_an_applications_cookie_is_told() {
    let site = Site::new(json!({
        "cookie": {"name": "JSESSIONID", "mode": "prefix"}, "tell": {"header": {"name": TELL}},
    }));
    let without = site.visit(&FakeRequest::new(), &FakeResponse::by(A), at(0));
    assert_eq!((without.response, told(&without)), (UNCHANGED, None));
    let visit = site.visit(
        &FakeRequest::new(),
        &FakeResponse::by(A).header("set-cookie", "JSESSIONID=abc"),
        at(0),
    );
    let token = told(&visit).unwrap();
    let cookie = Edit::Set("set-cookie".into(), format!("JSESSIONID={token}~abc"));
    assert!(visit.edits.contains(&cookie), "{:?}", visit.edits);
}

#[test]
fn the_applications_header_of_the_name_is_removed() {
    let site = site(json!({ "also": [{"header": {"name": TELL}}] }));
    let setting = || FakeResponse::by(A).surely_as_asked().header(TELL, "app");
    let session = || bringing(&claims(A, at(0), at(0)));
    // A response without a token is checked only after a client brought the application's value.
    assert_eq!(site.visit(&session(), &setting(), at(1)).edits, []);
    site.visit(&FakeRequest::new().header(TELL, "app"), &setting(), at(1));
    let visit = site.visit(&session(), &setting(), at(1));
    assert_eq!(visit.edits, [Edit::Remove(TELL.into())]);
    assert_eq!(visit.name_conflict.as_deref(), Some(""), "told once");
    let issued = site.visit(&FakeRequest::new(), &setting(), at(1));
    assert_eq!(issued.edits[0], Edit::Remove(TELL.into()));
    assert_eq!(told(&issued), issued.token());
}

#[test]
fn the_log_says_which_header_the_application_sets() {
    let site = site(json!({}));
    let visit = site.visit(&FakeRequest::new(), &FakeResponse::by(A).header(TELL, "app"), at(0));
    assert_eq!(
        visit.name_conflict.as_deref(),
        Some(
            "policy shop: the application sets a header of its own named x-tell, which is the session's: it is \
             removed from requests and responses, so rename one of the two"
        )
    );
}
