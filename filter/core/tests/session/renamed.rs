//! Renamed sessions: tokens that are bound to a former carrier of their policy.

use limpet_core::UnansweredRequests;
use limpet_core::carrier::cookie_name::CookieNames;
use limpet_core::token::{CarrierMode, PayloadForm, TokenRefusal};
use serde_json::{Value, json};

use crate::world::*;

const FORMER: &str = "old";

fn site(own: Value, former: &Value) -> Site {
    let mut policy = own;
    policy["also"] = json!([{"query": {"name": "unused"}}, former]);
    Site::new(policy)
}

fn cookie() -> Value {
    json!({"cookie": {"name": COOKIE}})
}

fn former(place: &str) -> Value {
    json!({place: {"name": FORMER}, "former": true})
}

fn token(mode: CarrierMode, host: &str) -> String {
    realm(1, "cart", mode, FORMER).seal(PayloadForm::Sealed, &claims(host, at(0), at(0)), [7; 4])
}

fn in_cookie(name: &str, host: &str) -> FakeRequest {
    FakeRequest::new().cookie(&format!("{name}={}", token(CarrierMode::Cookie, host)))
}

/// Each former carrier, with a request that has its token and a value of the application's.
fn all_formers() -> [(Value, FakeRequest); 3] {
    let path = format!("/a?b=1&{FORMER}={}", token(CarrierMode::Query, A));
    [
        (former("cookie"), in_cookie(FORMER, A)),
        (
            former("header"),
            FakeRequest::new().header(FORMER, &token(CarrierMode::Header, A)),
        ),
        (former("query"), FakeRequest::new().path(&path)),
    ]
}

fn new_cookie(visit: &Visit) -> Option<String> {
    visit.edits.iter().find_map(|edit| match edit {
        Edit::Add(_, value) => {
            let pair = value.split(';').next()?;
            pair.strip_prefix(COOKIE)?.strip_prefix('=').map(str::to_owned)
        }
        Edit::Set(..) | Edit::Remove(_) => None,
    })
}

#[test]
fn a_renamed_session_goes_on_under_its_new_name() {
    for own in [cookie(), json!({"header": {"name": "x-new"}})] {
        for (former, request) in all_formers() {
            let visit = site(own.clone(), &former).visit(&request, &FakeResponse::by(A), at(1));
            assert_eq!(visit.outcomes(), (STEERED, RENEWED), "{own} {former}");
            assert_eq!(visit.host().as_deref(), Some(A), "{own} {former}");
            assert_eq!(visit.further_edits.len(), 1, "the backend sees no token");
            let is_new = |edit: &&Edit| match edit {
                Edit::Add(name, value) => name == "set-cookie" && value.starts_with(&format!("{COOKIE}=")),
                Edit::Set(name, _) => name == "x-new",
                Edit::Remove(_) => false,
            };
            assert_eq!(visit.edits.iter().filter(is_new).count(), 1, "{:?}", visit.edits);
        }
    }
}

fn deletes(visit: &Visit, name: &str) -> bool {
    let start = format!("{name}=;");
    let mut edits = visit.edits.iter();
    edits.any(|edit| matches!(edit, Edit::Add(_, value) if value.starts_with(&start) && value.contains("Max-Age=0")))
}

/// Another Envoy may not know the new name yet, so the client keeps both cookies for a while.
#[test]
fn a_former_cookie_goes_when_the_new_one_is_renewed() {
    let mut own = cookie();
    own["idleTimeout"] = json!("100s");
    let site = site(own, &former("cookie"));
    for name in [FORMER, CookieNames::new(FORMER, b"cart", true).current()] {
        let first = site.visit(&in_cookie(name, A), &FakeResponse::by(A), at(1));
        assert_eq!(first.outcomes(), (STEERED, RENEWED));
        assert!(!deletes(&first, name), "{:?}", first.edits);
        let token = token(CarrierMode::Cookie, A);
        let both = format!("{name}={token}; {COOKIE}={}", new_cookie(&first).unwrap());
        let request = FakeRequest::new().cookie(&both);
        let next = site.visit(&request, &FakeResponse::by(A), at(2));
        assert_eq!((next.outcomes(), next.edits.len()), ((STEERED, UNCHANGED), 0));
        let renewed = site.visit(&request, &FakeResponse::by(A), at(20));
        assert_eq!(renewed.outcomes(), (STEERED, RENEWED));
        assert!(deletes(&renewed, name), "{:?}", renewed.edits);
    }
}

#[test]
fn the_former_cookie_of_another_scope_counts_for_nothing() {
    let others = CookieNames::new(FORMER, b"checkout", true);
    let request = in_cookie(others.current(), A);
    let visit = site(cookie(), &former("cookie")).visit(&request, &FakeResponse::by(A), at(1));
    assert_eq!(visit.outcomes(), (NO_TOKEN, ISSUED));
    assert_eq!(visit.further_edits, [Edit::Remove("cookie".into())]);
}

#[test]
fn what_is_no_token_in_a_former_carrier_is_the_applications() {
    for (former, request) in [
        (former("cookie"), FakeRequest::new().cookie("old=basket")),
        (former("header"), FakeRequest::new().header(FORMER, "basket")),
        (former("query"), FakeRequest::new().path("/?old=basket")),
    ] {
        let visit = site(cookie(), &former).visit(&request, &FakeResponse::by(A), at(1));
        assert_eq!(visit.outcomes(), (NO_TOKEN, ISSUED), "{former}");
        assert_eq!(
            (visit.request_edit, visit.further_edits),
            (None, Vec::new()),
            "{former}"
        );
    }
}

#[test]
fn a_former_carrier_takes_its_own_tokens_only() {
    let site_of = |former: Value| site(cookie(), &former);
    // A token of the policy's own carrier, where the former one was.
    let own = cookie_token("cart", &claims(A, at(0), at(0)));
    let request = FakeRequest::new().cookie(&format!("{FORMER}={own}"));
    let visit = site_of(former("cookie")).visit(&request, &FakeResponse::by(A), at(1));
    assert_eq!(visit.outcomes(), (NO_TOKEN, ISSUED));
    // A token of the former carrier, where the own one is.
    let request = in_cookie(COOKIE, A);
    let visit = site_of(former("cookie")).visit(&request, &FakeResponse::by(A), at(1));
    assert_eq!(visit.outcomes(), (refused(TokenRefusal::BadSignature), ISSUED));
    // A carrier that was never the policy's own.
    let further = json!({"cookie": {"name": FORMER}});
    let visit = site_of(further).visit(&in_cookie(FORMER, A), &FakeResponse::by(A), at(1));
    assert_eq!(visit.outcomes(), (refused(TokenRefusal::BadSignature), ISSUED));
}

#[test]
fn a_former_name_ends_with_the_timeouts_of_its_tokens() {
    let mut own = cookie();
    own["idleTimeout"] = json!("100s");
    let site = site(own, &former("cookie"));
    let visit = |seconds| site.visit(&in_cookie(FORMER, A), &FakeResponse::by(A), at(seconds));
    assert_eq!(visit(105).outcomes(), (STEERED, RENEWED));
    assert_eq!(visit(120).outcomes(), (NO_TOKEN, ISSUED));
}

#[test]
fn the_newest_of_both_names_counts() {
    let site = site(cookie(), &former("cookie"));
    let newer = cookie_token("cart", &claims(B, at(1), at(1)));
    let both = format!("{FORMER}={}; {COOKIE}={newer}", token(CarrierMode::Cookie, A));
    let visit = site.visit(&FakeRequest::new().cookie(&both), &FakeResponse::by(B), at(2));
    assert_eq!(
        (visit.outcomes(), visit.host().as_deref()),
        ((STEERED, UNCHANGED), Some(B))
    );
}

#[test]
fn the_end_of_a_session_takes_its_former_cookie() {
    let mut own = cookie();
    own["end"] = json!({"header": "x-bye"});
    let site = site(own, &former("cookie"));
    let bye = FakeResponse::by(A).header("x-bye", "1");
    let token = token(CarrierMode::Cookie, A);
    let new = cookie_token("cart", &claims(A, at(0), at(1)));
    for cookies in [format!("{FORMER}={token}"), format!("{FORMER}={token}; {COOKIE}={new}")] {
        let visit = site.visit(&FakeRequest::new().cookie(&cookies), &bye, at(1));
        assert!(deletes(&visit, COOKIE) && deletes(&visit, FORMER), "{:?}", visit.edits);
    }
}

#[test]
fn a_redirected_request_has_its_renamed_session() {
    for (former, request) in all_formers() {
        let site = site(cookie(), &former);
        let remembered: &'static UnansweredRequests = Box::leak(Box::default());
        let request = request.remembered(remembered, "id");
        let mut session = site.session(&request);
        session.on_request(&mut request.clone(), at(1)).unwrap();
        session.end_unanswered(remembered, || Ok(at(1)));
        let again = FakeRequest::new().path("/to").remembered(remembered, "id").redirected();
        let visit = site.visit(&again, &FakeResponse::by(A), at(1));
        assert_eq!(visit.outcomes(), (STEERED, RENEWED), "{former}");
        assert!(new_cookie(&visit).is_some(), "{former}");
    }
}

#[test]
fn a_session_may_begin_with_a_cookie_of_its_former_name() {
    let mut own = cookie();
    own["begin"] = json!({"cookie": FORMER});
    let site = site(own, &former("cookie"));
    let visit = site.visit(
        &FakeRequest::new(),
        &FakeResponse::by(A).header("set-cookie", "old=basket"),
        at(1),
    );
    assert_eq!(visit.outcomes(), (NO_TOKEN, ISSUED));
}
