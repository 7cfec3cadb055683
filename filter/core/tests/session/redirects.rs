//! Internal redirects: a request without a response restarts, without the tokens that were taken out.

use limpet_core::UnansweredRequests;
use limpet_core::carrier::cookie_name::CookieNames;
use limpet_core::time::Timestamp;
use limpet_core::token::{CarrierMode, PayloadForm};
use limpet_core::view::ViewError;
use serde_json::json;

use crate::world::*;

const ID: &str = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";
const ENDED: u64 = 100;

fn nothing_yet() -> &'static UnansweredRequests {
    Box::leak(Box::new(UnansweredRequests::new()))
}

/// A request that ends without a response. Returns the host that it was steered to.
fn unanswered(site: &Site, request: &FakeRequest, remembered: &UnansweredRequests) -> Option<String> {
    let mut session = site.session(request);
    let plan = session.on_request(&mut request.clone(), at(ENDED)).unwrap();
    let host = plan.steering.map(|steering| steering.host.to_string());
    session.end_unanswered(remembered, || Ok(at(ENDED)));
    host
}

fn steered_to(site: &Site, request: &FakeRequest) -> Option<String> {
    steered_at(site, request, at(ENDED))
}

fn steered_at(site: &Site, request: &FakeRequest, now: Timestamp) -> Option<String> {
    let mut session = site.session(request);
    let plan = session.on_request(&mut request.clone(), now).unwrap();
    plan.steering.map(|steering| steering.host.to_string())
}

fn a() -> Option<String> {
    Some(A.to_owned())
}

#[test]
fn a_redirected_request_has_its_session() {
    let site = Site::new(cookie_policy(json!({})));
    let remembered = nothing_yet();
    let bringing = bringing(&claims(A, at(0), at(0))).remembered(remembered, ID);
    assert_eq!(unanswered(&site, &bringing, remembered), a());
    let again = FakeRequest::new().remembered(remembered, ID).redirected();
    // A chain of redirects.
    assert_eq!(unanswered(&site, &again, remembered), a());
    assert_eq!(unanswered(&site, &again, remembered), a());
    let visit = site.visit(&again, &FakeResponse::by(A), at(ENDED));
    assert_eq!(visit.outcomes(), (STEERED, UNCHANGED));
    assert_eq!(steered_to(&site, &again), None);
}

#[test]
fn every_mode_that_takes_tokens_remembers_them() {
    let claims = claims(A, at(0), at(0));
    let sealed = |mode, name| realm(1, "cart", mode, name).seal(PayloadForm::Sealed, &claims, [7; 4]);
    for (policy, header, value) in [
        (
            json!({"cookie": {"name": "s", "mode": "prefix"}}),
            "cookie",
            format!("s={}~value", sealed(CarrierMode::CookiePrefix, "s")),
        ),
        (
            json!({"header": {"name": HEADER}}),
            HEADER,
            sealed(CarrierMode::Header, HEADER),
        ),
        (
            json!({"header": {"name": HEADER, "mode": "prefix"}}),
            HEADER,
            format!("{}~value", sealed(CarrierMode::HeaderPrefix, HEADER)),
        ),
    ] {
        let (site, remembered) = (Site::new(policy), nothing_yet());
        let request = FakeRequest::new().header(header, &value).remembered(remembered, ID);
        assert_eq!(unanswered(&site, &request, remembered), a(), "{value}");
        let again = FakeRequest::new().remembered(remembered, ID).redirected();
        assert_eq!(steered_to(&site, &again), a(), "{value}");
    }
}

#[test]
fn a_redirect_to_another_scope_has_that_session() {
    let site = Site::new(cookie_policy(json!({"cookie": {"perScope": true}})));
    let remembered = nothing_yet();
    let cookie = |scope: &str, host| {
        let names = CookieNames::new(COOKIE, scope.as_bytes(), true);
        format!(
            "{}={}",
            names.current(),
            cookie_token(scope, &claims(host, at(0), at(0)))
        )
    };
    let both = format!("{}; {}", cookie("cart", A), cookie("checkout", B));
    let request = FakeRequest::new().cookie(&both).remembered(remembered, ID);
    assert_eq!(unanswered(&site, &request, remembered), a());
    let again = FakeRequest::new()
        .session("shop/checkout")
        .remembered(remembered, ID)
        .redirected();
    assert_eq!(steered_to(&site, &again).as_deref(), Some(B));
}

#[test]
fn another_request_gets_nothing_of_it() {
    let site = Site::new(cookie_policy(json!({})));
    let remembered = nothing_yet();
    let request = bringing(&claims(A, at(0), at(0))).remembered(remembered, ID);
    unanswered(&site, &request, remembered);
    for other in [
        FakeRequest::new().remembered(remembered, ID),
        FakeRequest::new().remembered(remembered, "another").redirected(),
        FakeRequest::new().remembered(nothing_yet(), ID).redirected(),
        FakeRequest::new()
            .session("shop/checkout")
            .remembered(remembered, ID)
            .redirected(),
    ] {
        assert_eq!(steered_to(&site, &other), None, "{other:?}");
    }
}

#[test]
fn only_the_last_requests_are_remembered() {
    let site = Site::new(cookie_policy(json!({})));
    let remembered = nothing_yet();
    for number in 0..300 {
        let request = bringing(&claims(A, at(0), at(0)));
        unanswered(&site, &request.remembered(remembered, &number.to_string()), remembered);
    }
    let found = (0..300).filter(|number| {
        let again = FakeRequest::new()
            .remembered(remembered, &number.to_string())
            .redirected();
        steered_to(&site, &again).is_some()
    });
    assert_eq!(found.collect::<Vec<_>>(), (44..300).collect::<Vec<_>>());
}

#[test]
fn a_request_is_remembered_for_ten_seconds() {
    let site = Site::new(cookie_policy(json!({})));
    let ended = at(ENDED).unix_millis();
    for (at, host) in [
        (ended + 9_999, a()),
        (ended + 10_000, None),
        // The clock was set back.
        (ended - 9_999, a()),
        (ended - 10_000, None),
    ] {
        let remembered = nothing_yet();
        let request = bringing(&claims(A, self::at(0), self::at(0))).remembered(remembered, ID);
        unanswered(&site, &request, remembered);
        let again = FakeRequest::new().remembered(remembered, ID).redirected();
        let now = Timestamp::from_unix_millis(at);
        assert_eq!(steered_at(&site, &again, now), host, "{at}");
        if host.is_none() {
            assert_eq!(steered_to(&site, &again), None, "forgotten at {at}");
        }
    }
}

#[test]
fn nothing_is_remembered_without_the_time() {
    let site = Site::new(cookie_policy(json!({})));
    let remembered = nothing_yet();
    let request = bringing(&claims(A, at(0), at(0))).remembered(remembered, ID);
    let mut session = site.session(&request);
    session.on_request(&mut request.clone(), at(1)).unwrap();
    session.end_unanswered(remembered, || {
        Err(ViewError {
            what: "the time",
            status: 1,
        })
    });
    let again = FakeRequest::new().remembered(remembered, ID).redirected();
    assert_eq!(steered_to(&site, &again), None);
}

#[test]
fn a_request_without_an_id_is_not_remembered() {
    let site = Site::new(cookie_policy(json!({})));
    let remembered = nothing_yet();
    let request = bringing(&claims(A, at(0), at(0))).remembered(remembered, "");
    unanswered(&site, &request, remembered);
    let again = FakeRequest::new().remembered(remembered, "").redirected();
    assert_eq!(steered_to(&site, &again), None);
}

#[test]
fn a_request_is_known_by_an_id_of_any_length() {
    let site = Site::new(cookie_policy(json!({})));
    for length in [1, 64, 65, 8000] {
        let remembered = nothing_yet();
        let [id, other] = ["a", "b"].map(|last| "x".repeat(length - 1) + last);
        let request = bringing(&claims(A, at(0), at(0))).remembered(remembered, &id);
        unanswered(&site, &request, remembered);
        let others = FakeRequest::new().remembered(remembered, &other).redirected();
        assert_eq!(steered_to(&site, &others), None, "{length} bytes");
        let again = FakeRequest::new().remembered(remembered, &id).redirected();
        assert_eq!(steered_to(&site, &again), a(), "{length} bytes");
    }
}
