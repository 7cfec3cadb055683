//! Tokens in the filter's own header.

use limpet_core::token::{CarrierMode, PayloadForm, TokenRefusal};
use serde_json::{Value, json};

use crate::world::*;

fn site(fields: Value) -> Site {
    Site::new(header_policy(fields))
}

fn token(host: &str) -> String {
    realm(1, "cart", CarrierMode::Header, HEADER).seal(PayloadForm::Sealed, &claims(host, at(0), at(0)), [0; 4])
}

#[test]
fn a_header_token_is_issued_read_and_kept_from_the_backend() {
    let site = site(json!({}));
    let client = site.client();
    let first = client.visit(A, at(0));
    assert_eq!(first.outcomes(), (NO_TOKEN, ISSUED));
    assert_eq!(
        first.edits,
        [
            Edit::Set(HEADER.into(), first.token().unwrap()),
            Edit::Set("cache-control".into(), "private".into()),
        ],
        "and no shared cache hands it to others"
    );
    assert_eq!(first.request_edit, None);
    let second = client.visit(A, at(1));
    assert_eq!(second.outcomes(), (STEERED, UNCHANGED));
    assert_eq!(second.request_edit, Some(Edit::Remove(HEADER.into())));
}

#[test]
fn the_backend_sees_it_where_the_policy_says_so() {
    let site = site(json!({ "header": { "forward": true } }));
    let visit = site.visit(
        &FakeRequest::new().header(HEADER, &token(A)),
        &FakeResponse::by(A),
        at(0),
    );
    assert_eq!((visit.request, visit.request_edit), (STEERED, None));
}

#[test]
fn a_refused_header_token_is_kept_from_the_backend() {
    let visit = site(json!({})).visit(&FakeRequest::new().header(HEADER, "x"), &FakeResponse::by(A), at(0));
    assert_eq!(visit.outcomes(), (refused(TokenRefusal::Malformed), ISSUED));
    assert_eq!(visit.request_edit, Some(Edit::Remove(HEADER.into())));
}

#[test]
fn the_case_of_a_header_name_does_not_matter() {
    // Proxies use lower case, and so do bound tokens: sessions survive a change of case in the configuration.
    for name in ["x-session", "X-Session", "X-SESSION"] {
        let site = site(json!({ "header": { "name": name } }));
        let visit = site.visit(
            &FakeRequest::new().header(HEADER, &token(A)),
            &FakeResponse::by(A),
            at(0),
        );
        assert_eq!(visit.outcomes(), (STEERED, UNCHANGED), "{name}");
        let issued = site.visit(&FakeRequest::new(), &FakeResponse::by(A), at(0));
        assert!(issued.token().is_some(), "{name}");
    }
}

#[test]
fn every_value_of_a_list_is_a_candidate() {
    let visit =
        |field: &str| site(json!({})).visit(&FakeRequest::new().header(HEADER, field), &FakeResponse::by(A), at(0));
    assert_eq!(
        visit(&format!("x, {} ,{}", token(B), token(A))).host().as_deref(),
        Some(B)
    );
    assert_eq!(visit(&format!("{},x", token(A))).host().as_deref(), Some(A));
    assert_eq!(visit("x,y").request, refused(TokenRefusal::Malformed));
    assert_eq!(visit(&format!("x,x,x,x,{}", token(A))).host().as_deref(), Some(A));
}

#[test]
fn a_header_policy_ignores_cookies() {
    let cookie = format!("{COOKIE}={}; a=1", cookie_token("cart", &claims(A, at(0), at(0))));
    let visit = site(json!({})).visit(&FakeRequest::new().cookie(&cookie), &FakeResponse::by(A), at(0));
    assert_eq!((visit.request, &visit.request_edit), (NO_TOKEN, &None));
    assert_eq!(visit.set_cookie(), None);
}

#[test]
fn a_token_made_for_a_cookie_is_refused() {
    let token =
        realm(1, "cart", CarrierMode::Cookie, HEADER).seal(PayloadForm::Sealed, &claims(A, at(0), at(0)), [0; 4]);
    let visit = site(json!({})).visit(&FakeRequest::new().header(HEADER, &token), &FakeResponse::by(A), at(0));
    assert_eq!(visit.request, refused(TokenRefusal::BadSignature));
}

#[test]
fn header_sessions_are_renewed_and_moved_as_well() {
    let site = site(json!({ "idleTimeout": "100s" }));
    let client = site.client();
    client.visit(A, at(0));
    assert_eq!(client.visit(A, at(50)).response, RENEWED);
    assert_eq!(client.visit(B, at(51)).response, REISSUED);
    assert_eq!(client.visit(B, at(300)).request, refused(TokenRefusal::Idle));
}
