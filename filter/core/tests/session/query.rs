//! Tokens in the query of URLs, as a carrier of its own.

use limpet_core::token::{CarrierMode, PayloadForm, TokenRefusal};
use serde_json::{Value, json};

use crate::world::*;

const TELL: &str = "x-tell";

fn site(fields: Value) -> Site {
    Site::new(with(
        json!({ "query": {"name": "s"}, "tell": {"header": {"name": TELL}} }),
        fields,
    ))
}

fn redirecting() -> Site {
    Site::new(json!({ "query": {"name": "s", "redirects": true} }))
}

fn token(host: &str) -> String {
    realm(1, "cart", CarrierMode::Query, "s").seal(PayloadForm::Sealed, &claims(host, at(0), at(0)), [0; 4])
}

fn bringing(host: &str) -> FakeRequest {
    FakeRequest::new()
        .path(&format!("/a?s={}", token(host)))
        .header(":authority", "shop.example")
}

fn redirect(location: &str) -> FakeResponse {
    FakeResponse::by(A).status(302).header("location", location)
}

fn set(visit: &Visit, name: &str) -> Option<String> {
    visit.edits.iter().find_map(|edit| match edit {
        Edit::Set(known, value) if known == name => Some(value.clone()),
        _ => None,
    })
}

#[test]
fn a_query_token_is_told_read_and_kept_from_the_backend() {
    let site = site(json!({}));
    let first = site.visit(&FakeRequest::new().path("/"), &FakeResponse::by(A), at(0));
    assert_eq!(first.outcomes(), (NO_TOKEN, ISSUED));
    let token = set(&first, TELL).unwrap();
    let expected = [
        Edit::Set("cache-control".into(), "private".into()),
        Edit::Set(TELL.into(), token.clone()),
    ];
    assert_eq!(first.edits, expected, "it is nowhere else");
    let second = site.visit(
        &FakeRequest::new().path(&format!("/a?s={token}&b=%20")),
        &FakeResponse::by(A),
        at(1),
    );
    assert_eq!(second.outcomes(), (STEERED, UNCHANGED));
    assert_eq!(second.further_edits, [Edit::Set(":path".into(), "/a?b=%20".into())]);
}

#[test]
fn a_query_session_is_renewed_moved_and_ends() {
    let site = site(json!({ "idleTimeout": "100s" }));
    assert_eq!(
        site.visit(&bringing(A), &FakeResponse::by(A), at(5)).response,
        UNCHANGED
    );
    assert_eq!(site.visit(&bringing(A), &FakeResponse::by(A), at(50)).response, RENEWED);
    assert_eq!(site.visit(&bringing(A), &FakeResponse::by(B), at(5)).response, REISSUED);
    assert_eq!(
        site.visit(&bringing(A), &FakeResponse::by(A), at(300)).request,
        refused(TokenRefusal::Idle)
    );
}

#[test]
fn a_token_of_another_carrier_is_refused() {
    let of_cookie =
        realm(1, "cart", CarrierMode::Cookie, "s").seal(PayloadForm::Sealed, &claims(A, at(0), at(0)), [0; 4]);
    let visit = site(json!({})).visit(
        &FakeRequest::new().path(&format!("/?s={of_cookie}")),
        &FakeResponse::by(A),
        at(0),
    );
    assert_eq!(visit.request, refused(TokenRefusal::BadSignature));
}

#[test]
fn a_response_without_a_place_for_a_token_issues_none() {
    let visit = redirecting().visit(&FakeRequest::new().path("/"), &FakeResponse::by(A), at(0));
    assert_eq!((visit.outcomes(), visit.edits), ((NO_TOKEN, UNCHANGED), Vec::new()));
}

#[test]
fn a_redirect_to_the_same_host_gets_the_token() {
    let site = redirecting();
    for request in [
        FakeRequest::new().path("/").header(":authority", "shop.example"),
        bringing(A),
    ] {
        for (location, before, after) in [
            ("/next", "/next?s=", ""),
            ("next?a=%20#top", "next?a=%20&s=", "#top"),
            ("http://shop.example/?s=old", "http://shop.example/?s=", ""),
        ] {
            let visit = site.visit(&request, &redirect(location), at(1));
            let location = set(&visit, "location").unwrap();
            let token = location
                .strip_prefix(before)
                .and_then(|rest| rest.strip_suffix(after))
                .unwrap();
            let next = site.visit(
                &FakeRequest::new().path(&format!("/?s={token}")),
                &FakeResponse::by(A),
                at(2),
            );
            assert_eq!(next.request, STEERED, "{location}");
            assert_eq!(visit.edits.len(), 2, "{:?}", visit.edits);
            assert_eq!(
                set(&visit, "cache-control").as_deref(),
                Some("no-store"),
                "a browser must not keep it"
            );
        }
    }
}

#[test]
fn a_session_that_moves_in_a_redirect_has_its_new_token() {
    let visit = redirecting().visit(&bringing(B), &redirect("/next"), at(1));
    assert_eq!(visit.outcomes(), (STEERED, REISSUED));
}

#[test]
fn no_other_url_gets_a_token() {
    let site = redirecting();
    for response in [
        redirect("http://other.example/"),
        redirect("//other.example/"),
        redirect("/\\other.example/"),
        redirect("https://shop.example:8443/"),
        redirect("/next").status(200),
        redirect("/next").status(201),
        redirect("/next").status(304),
        redirect("/next").header("location", "/again"),
        FakeResponse::by(A).status(302),
        FakeResponse::local(302, "direct_response", A).header("location", "/next"),
    ] {
        let visit = site.visit(&bringing(A), &response, at(1));
        assert_eq!((visit.request, visit.edits), (STEERED, Vec::new()), "{response:?}");
    }
    let from_https = site.visit(&bringing(A).https(), &redirect("http://shop.example/"), at(1));
    assert_eq!(from_https.edits, []);
    let without_a_host = site.visit(&FakeRequest::new().path("/"), &redirect("/next"), at(1));
    assert_eq!(without_a_host.edits, []);
}

#[test]
fn redirects_stay_as_they_are_where_the_policy_does_not_name_them() {
    let told = site(json!({})).visit(&bringing(A), &redirect("/next"), at(1));
    assert_eq!((told.response, told.edits), (UNCHANGED, Vec::new()));
    let further = Site::new(cookie_policy(json!({ "also": [{"query": {"name": "s"}}] })));
    let visit = further.visit(&bringing(A), &redirect("/next"), at(1));
    assert_eq!(set(&visit, "location"), None);
}

#[test]
fn a_redirect_is_also_told() {
    let site = site(json!({ "query": {"redirects": true}, "cacheControl": "keep" }));
    let visit = site.visit(&bringing(A), &redirect("/next"), at(1));
    let token = set(&visit, TELL).unwrap();
    assert_eq!(set(&visit, "location"), Some(format!("/next?s={token}")));
    assert_eq!(visit.edits.len(), 2, "{:?}", visit.edits);
}

#[test]
fn the_steady_state_of_a_query_asks_for_the_path() {
    let request = bringing(A);
    let response = FakeResponse::by(A).surely_as_asked();
    site(json!({})).visit(&request, &response, at(1));
    assert_eq!(
        (request.questions(), response.questions()),
        (
            vec!["route_session".into(), ":path".into()],
            vec!["maybe_other_host".into()]
        )
    );
    let (request, response) = (bringing(A), FakeResponse::by(A).surely_as_asked());
    redirecting().visit(&request, &response, at(1));
    assert_eq!(request.questions(), ["route_session", ":path", ":authority"]);
    assert_eq!(response.questions(), ["location"]);
}
