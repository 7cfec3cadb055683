//! Of several tokens, the living one that was issued last counts, or else the reason of the first.

use limpet_core::UnansweredRequests;
use limpet_core::carrier::cookie_name::CookieNames;
use limpet_core::outcome::RequestOutcome;
use limpet_core::token::TokenRefusal::{BadSignature, Idle, Malformed, UnknownDestination};
use limpet_core::token::{Claims, DestinationId, MAX_TOKENS};
use serde_json::json;

use crate::world::*;

fn alive(host: &str) -> String {
    cookie_token("cart", &claims(host, at(1000), at(1000)))
}

fn idle() -> String {
    cookie_token("cart", &claims(A, at(0), at(0)))
}

fn foreign() -> String {
    cookie_token("elsewhere", &claims(A, at(1000), at(1000)))
}

fn with_cookies(values: &[&str]) -> (RequestOutcome, Option<String>) {
    let site = Site::new(cookie_policy(json!({ "idleTimeout": "100s" })));
    let pairs: Vec<String> = values.iter().map(|value| format!("{COOKIE}={value}")).collect();
    let visit = site.visit(
        &FakeRequest::new().cookie(&pairs.join("; ")),
        &FakeResponse::by(B),
        at(1000),
    );
    (visit.request, visit.host())
}

fn steered_to(host: &str) -> (RequestOutcome, Option<String>) {
    (STEERED, Some(host.to_owned()))
}

#[test]
fn the_first_of_two_living_tokens_counted_although_it_was_older() {
    let token = |host, issued, seen| cookie_token("cart", &claims(host, at(issued), at(seen)));
    for (older, newer) in [
        (token(A, 900, 990), token(B, 950, 960)),
        // Of the same session, after a renewal.
        (token(A, 900, 950), token(B, 900, 990)),
    ] {
        assert_eq!(with_cookies(&[&older, &newer]), steered_to(B));
        assert_eq!(with_cookies(&[&newer, &older]), steered_to(B));
        assert_eq!(
            with_cookies(&["x", &older, &foreign(), &newer, &older, &idle()]),
            steered_to(B)
        );
    }
    assert_eq!(
        with_cookies(&[&alive(A), &alive(B)]),
        steered_to(A),
        "of the same age, the first"
    );
    assert_eq!(with_cookies(&["x", &foreign(), &idle(), &alive(B)]), steered_to(B));
}

#[test]
fn without_a_living_token_the_first_reason_counts() {
    assert_eq!(with_cookies(&[&idle(), &foreign(), "x"]), (refused(Idle), None));
    assert_eq!(with_cookies(&[&foreign(), &idle()]), (refused(BadSignature), None));
    assert_eq!(with_cookies(&["", &idle()]), (refused(Malformed), None));
}

#[test]
fn at_most_fifty_tokens_are_verified() {
    let (foreign, alive) = (foreign(), alive(A));
    let behind = |others: usize, other: &str| {
        let mut values = vec![other; others];
        values.push(&alive);
        with_cookies(&values)
    };
    assert_eq!(behind(MAX_TOKENS - 1, &foreign), steered_to(A));
    assert_eq!(behind(MAX_TOKENS, &foreign), (refused(BadSignature), None));
    assert_eq!(behind(3_000, "x"), steered_to(A), "nothing of this is a token");
}

#[test]
fn a_quoted_token_is_honoured() {
    assert_eq!(with_cookies(&[&format!("\"{}\"", alive(A))]), steered_to(A));
}

#[test]
fn every_token_is_removed_from_the_request() {
    let site = Site::new(cookie_policy(json!({})));
    let field = format!("a=1; {COOKIE}=x; b=\"2\" ;{COOKIE}={}; c;{COOKIE}=y", alive(A));
    let visit = site.visit(&FakeRequest::new().cookie(&field), &FakeResponse::by(A), at(1000));
    assert_eq!(
        visit.request_edit,
        Some(Edit::Set("cookie".into(), "a=1; b=\"2\" ; c".into()))
    );
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Own,
    /// The same cookie once more, in front.
    OfAnotherPath,
    FormerName,
    FurtherCookie,
    FurtherHeader,
    Query,
    BeforeRedirect,
}

const PLACES: [Place; 7] = [
    Place::Own,
    Place::OfAnotherPath,
    Place::FormerName,
    Place::FurtherCookie,
    Place::FurtherHeader,
    Place::Query,
    Place::BeforeRedirect,
];

fn site_with_all_places() -> Site {
    Site::new(cookie_policy(json!({
        "cookie": {"perScope": true},
        "also": [{"cookie": {"name": "t"}}, {"header": {"name": "x-further"}}, {"query": {"name": "s"}}],
    })))
}

fn own_name() -> String {
    CookieNames::new(COOKIE, b"cart", true).current().to_owned()
}

fn with_tokens(site: &Site, tokens: &[(Place, String)]) -> FakeRequest {
    let mut cookies = Vec::new();
    let mut request = FakeRequest::new();
    for (place, token) in tokens {
        match place {
            Place::Own => cookies.push(format!("{}={token}", own_name())),
            Place::OfAnotherPath => cookies.insert(0, format!("{}={token}", own_name())),
            Place::FormerName => cookies.push(format!("{COOKIE}={token}")),
            Place::FurtherCookie => cookies.push(format!("t={token}")),
            Place::FurtherHeader => request = request.header("x-further", token),
            Place::Query => request = request.path(&format!("/?s={token}")),
            Place::BeforeRedirect => {
                let remembered: &'static UnansweredRequests = Box::leak(Box::default());
                let first = FakeRequest::new().cookie(&format!("{}={token}", own_name()));
                let first = first.remembered(remembered, "id");
                let mut session = site.session(&first);
                session.on_request(&mut first.clone(), at(1000)).unwrap();
                session.end_unanswered(remembered, || Ok(at(1000)));
                request = request.remembered(remembered, "id").redirected();
            }
        }
    }
    request.cookie(&cookies.join("; "))
}

#[test]
fn an_older_token_counted_where_it_was_read_first() {
    let site = site_with_all_places();
    for older in PLACES {
        for newer in PLACES.into_iter().filter(|newer| *newer != older) {
            let tokens = [(older, A, 100), (newer, B, 200)]
                .map(|(place, host, issued)| (place, cookie_token("cart", &claims(host, at(issued), at(issued)))));
            for tokens in [tokens.clone().to_vec(), tokens.into_iter().rev().collect()] {
                let request = with_tokens(&site, &tokens);
                let visit = site.visit(&request, &FakeResponse::by(B).surely_as_asked(), at(1000));
                assert_eq!(
                    (visit.request, visit.host().as_deref()),
                    (STEERED, Some(B)),
                    "{newer:?}, {older:?}"
                );
                // The next request may bring only the older one, unless it is in no carrier of the policy's own.
                let is_further = |place| matches!(place, Place::FurtherCookie | Place::FurtherHeader | Place::Query);
                let stays = match newer {
                    Place::Own | Place::OfAnotherPath => true,
                    Place::FormerName => false,
                    _ => is_further(older),
                };
                let response = if stays { UNCHANGED } else { RENEWED };
                assert_eq!(visit.response, response, "{newer:?}, {older:?}");
            }
        }
    }
}

#[test]
fn a_token_that_leads_nowhere_hid_one_that_leads_somewhere() {
    let site = Site::new(cookie_policy(json!({})));
    let of = |cluster: &str, host, issued| {
        let claims = Claims {
            destination: DestinationId::of_cluster(cluster.as_bytes()),
            ..claims(host, at(issued), at(issued))
        };
        format!("{COOKIE}={}", cookie_token("cart", &claims))
    };
    let [gone, also_gone, kept] = [of("gone", A, 300), of("gone", A, 250), of("canary", B, 200)];
    let visit = |cookies: &[&str]| {
        let request = FakeRequest::new().session("@split/shop/cart").destinations(&["canary"]);
        let request = request.cookie(&cookies.join("; "));
        let response = FakeResponse::by(B).cluster("canary").surely_as_asked();
        let visit = site.visit(&request, &response, at(1000));
        let reroutes = request.questions().iter().filter(|asked| *asked == "reroute").count();
        (visit.outcomes(), visit.host(), reroutes)
    };
    let steered = ((STEERED, UNCHANGED), Some(B.to_owned()), 2);
    assert_eq!(visit(&[&gone, &kept]), steered);
    assert_eq!(visit(&[&kept, &gone]), steered);
    assert_eq!(
        visit(&[&gone, &also_gone, &kept, &gone]),
        steered,
        "a destination is asked for once"
    );
    let nowhere = (refused(UnknownDestination), ISSUED);
    assert_eq!(visit(&[&gone, &also_gone]), (nowhere, None, 1));
}
