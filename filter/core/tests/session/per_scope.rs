//! Several scopes with one cookie name and path: each has its own cookie.

use limpet_core::carrier::cookie_name::CookieNames;
use serde_json::json;

use crate::world::*;

fn site(per_scope: bool) -> Site {
    Site::new(cookie_policy(json!({ "cookie": { "perScope": per_scope } })))
}

fn name_in(scope: &str) -> String {
    CookieNames::new(COOKIE, scope.as_bytes(), true).current().to_owned()
}

fn added(visit: &Visit) -> Vec<String> {
    let added = visit.edits.iter().filter_map(|edit| match edit {
        Edit::Add(name, value) if name == "set-cookie" => Some(value.clone()),
        _ => None,
    });
    added.collect()
}

fn live() -> String {
    cookie_token("cart", &claims(A, at(0), at(0)))
}

#[test]
fn each_scope_has_a_cookie_of_its_own() {
    let site = site(true);
    let [a, b] = ["a", "b"].map(|scope| {
        let request = FakeRequest::new().session(format!("shop/{scope}"));
        let cookies = added(&site.visit(&request, &FakeResponse::by(A), at(0)));
        assert_eq!(cookies.len(), 1);
        let pair = cookies[0].split(';').next().unwrap().to_owned();
        assert!(pair.starts_with(&format!("{}=", name_in(scope))), "{pair}");
        pair
    });
    let both = format!("x=1; {a}; {b}");
    for scope in ["a", "b"] {
        let request = FakeRequest::new().session(format!("shop/{scope}")).cookie(&both);
        let visit = site.visit(&request, &FakeResponse::by(A), at(1));
        assert_eq!(visit.outcomes(), (STEERED, UNCHANGED));
        assert_eq!(visit.request_edit, Some(Edit::Set("cookie".into(), "x=1".into())));
    }
}

#[test]
fn changing_per_scope_moves_the_session_to_the_new_name() {
    let (plain, scoped) = (COOKIE.to_owned(), name_in("cart"));
    for (per_scope, former, present) in [(true, &plain, &scoped), (false, &scoped, &plain)] {
        let site = site(per_scope);
        let request = FakeRequest::new().cookie(&format!("{former}={}", live()));
        let visit = site.visit(&request, &FakeResponse::by(A).surely_as_asked(), at(1));
        assert_eq!(visit.outcomes(), (STEERED, RENEWED));
        assert_eq!(visit.request_edit, Some(Edit::Remove("cookie".into())));
        let cookies = added(&visit);
        assert_eq!(cookies.len(), 2);
        assert!(cookies[0].starts_with(&format!("{present}=")), "{cookies:?}");
        assert!(cookies[1].starts_with(&format!("{former}=;")), "{cookies:?}");
        assert!(cookies[1].contains("Max-Age=0"), "{cookies:?}");
    }
}

#[test]
fn another_scopes_plain_cookie_is_not_deleted() {
    let foreign = cookie_token("other", &claims(A, at(0), at(0)));
    let request = FakeRequest::new().cookie(&format!("{COOKIE}={foreign}"));
    let cookies = added(&site(true).visit(&request, &FakeResponse::by(A), at(1)));
    assert_eq!(cookies.len(), 1);
    assert!(cookies[0].starts_with(&name_in("cart")));
}

#[test]
fn the_current_name_takes_precedence_over_the_former() {
    let other = cookie_token("cart", &claims(B, at(0), at(0)));
    let request = FakeRequest::new().cookie(&format!("{COOKIE}={other}; {}={}", name_in("cart"), live()));
    for (per_scope, host) in [(true, A), (false, B)] {
        let visit = site(per_scope).visit(&request, &FakeResponse::by(host).surely_as_asked(), at(1));
        assert_eq!(visit.outcomes(), (STEERED, UNCHANGED));
        assert_eq!(visit.host().as_deref(), Some(host));
    }
}

#[test]
fn cookies_of_other_scopes_never_reach_the_backend() {
    let site = Site::new(cookie_policy(
        json!({ "cookie": { "perScope": true, "forward": true } }),
    ));
    let own = format!("{}={}", name_in("cart"), live());
    let request = FakeRequest::new().cookie(&format!("{}=x; {own}; session~short=1", name_in("other")));
    let visit = site.visit(&request, &FakeResponse::by(A).surely_as_asked(), at(1));
    assert_eq!(
        visit.request_edit,
        Some(Edit::Set("cookie".into(), format!("{own}; session~short=1")))
    );
}
