//! Tokens in the application's own cookie or header.

use limpet_core::time::Timestamp;
use limpet_core::token::{CarrierMode, PayloadForm, TokenRefusal};
use serde_json::{Value, json};

use crate::world::*;

const SESSION_COOKIE: &str = "JSESSIONID";

fn cookie_mode(mode: &str, fields: Value) -> Site {
    let policy = json!({"cookie": {"name": SESSION_COOKIE, "mode": mode}, "absoluteTimeout": "1h"});
    Site::new(with(policy, fields))
}

fn prefix() -> Site {
    cookie_mode("prefix", json!({}))
}

fn header_prefix() -> Site {
    Site::new(json!({"header": {"name": HEADER, "mode": "prefix"}}))
}

fn token(mode: CarrierMode, name: &str, host: &str, issued: Timestamp) -> String {
    realm(1, "cart", mode, name).seal(PayloadForm::Sealed, &claims(host, issued, issued), [7; 4])
}

fn prefix_token(host: &str) -> String {
    token(CarrierMode::CookiePrefix, SESSION_COOKIE, host, at(0))
}

/// The new Set-Cookie fields of the response; `None` if they do not change.
fn set_cookies(visit: &Visit) -> Option<Vec<String>> {
    fields(visit, "set-cookie")
}

fn fields(visit: &Visit, header: &str) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    for edit in &visit.edits {
        match edit {
            Edit::Set(name, value) if name == header => {
                assert!(fields.is_empty(), "set once, and first");
                fields.push(value.clone());
            }
            Edit::Add(name, value) if name == header => fields.push(value.clone()),
            _ => {}
        }
    }
    (!fields.is_empty()).then_some(fields)
}

fn token_in<'a>(field: &'a str, before: &str, after: &str) -> &'a str {
    let token = field.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    token.unwrap_or_else(|| panic!("{field} is not {before}<token>{after}"))
}

fn sets(cookie: &str) -> FakeResponse {
    FakeResponse::by(A).header("set-cookie", cookie)
}

#[test]
fn a_cookie_prefix_is_added_and_removed() {
    let site = prefix();
    let visit = site.visit(
        &FakeRequest::new(),
        &sets("JSESSIONID=a~b; Path=/shop; HttpOnly"),
        at(0),
    );
    assert_eq!(visit.outcomes(), (NO_TOKEN, ISSUED));
    let cookies = set_cookies(&visit).expect("a token");
    let token = token_in(&cookies[0], "JSESSIONID=", "~a~b; Path=/shop; HttpOnly");

    let request = FakeRequest::new().cookie(&format!("x=1; JSESSIONID={token}~a~b; y=2"));
    let visit = site.visit(&request, &FakeResponse::by(A), at(1));
    assert_eq!(visit.outcomes(), (STEERED, UNCHANGED));
    assert_eq!(visit.host().as_deref(), Some(A));
    assert_eq!(
        visit.request_edit,
        Some(Edit::Set("cookie".into(), "x=1; JSESSIONID=a~b; y=2".into()))
    );
    assert_eq!(visit.edits, []);
}

#[test]
fn a_response_without_the_applications_cookie_gets_no_token() {
    let site = prefix();
    for response in [
        FakeResponse::by(A),
        sets("other=1"),
        sets("jsessionid=1"),
        sets("JSESSIONID"),
    ] {
        let visit = site.visit(&FakeRequest::new(), &response, at(0));
        assert_eq!(visit.outcomes(), (NO_TOKEN, UNCHANGED));
        assert_eq!(visit.edits, []);
    }
}

#[test]
fn a_deletion_and_an_empty_value_pass_through() {
    let request = FakeRequest::new().cookie(&format!("JSESSIONID={}~abc", prefix_token(A)));
    for cookie in [
        "JSESSIONID=deleted; Max-Age=0",
        "JSESSIONID=; Expires=Thu, 01 Jan 1970 00:00:10 GMT; Path=/",
        "JSESSIONID=",
        "JSESSIONID=\"\"; Path=/",
    ] {
        let visit = prefix().visit(&request, &sets(cookie), at(1));
        assert_eq!(
            (visit.outcomes(), visit.edits),
            ((STEERED, UNCHANGED), vec![]),
            "{cookie}"
        );
    }
}

#[test]
fn every_set_cookie_of_the_name_gets_the_token() {
    let response = sets("a=1")
        .header("set-cookie", "JSESSIONID=x; Path=/a")
        .header("set-cookie", "JSESSIONID=\"y\"");
    let visit = prefix().visit(
        &FakeRequest::new(),
        &response.header("set-cookie", "JSESSIONID=z; Max-Age=0"),
        at(0),
    );
    let cookies = set_cookies(&visit).expect("a token");
    assert_eq!(cookies.len(), 4);
    assert_eq!(
        (cookies[0].as_str(), cookies[3].as_str()),
        ("a=1", "JSESSIONID=z; Max-Age=0")
    );
    let token = token_in(&cookies[1], "JSESSIONID=", "~x; Path=/a");
    assert_eq!(token_in(&cookies[2], "JSESSIONID=\"", "~y\""), token);
}

#[test]
fn a_tilde_without_a_token_belongs_to_the_application() {
    for value in ["abc", "a~b", "\"abc\"", "", "~", &prefix_token(A)] {
        let request = FakeRequest::new().cookie(&format!("JSESSIONID={value}"));
        let visit = prefix().visit(&request, &FakeResponse::by(B), at(1));
        assert_eq!(visit.outcomes(), (NO_TOKEN, UNCHANGED), "{value}");
        assert_eq!(visit.request_edit, None, "{value}");
    }
}

#[test]
fn a_refused_prefix_is_removed_too() {
    let of_another_mode = token(CarrierMode::Cookie, SESSION_COOKIE, A, at(0));
    for (token, why, now) in [
        (of_another_mode, TokenRefusal::BadSignature, at(1)),
        (prefix_token(A), TokenRefusal::Expired, at(3600)),
    ] {
        let request = FakeRequest::new().cookie(&format!("JSESSIONID=\"{token}~abc\""));
        let visit = prefix().visit(&request, &FakeResponse::by(B), now);
        assert_eq!(visit.outcomes(), (refused(why), UNCHANGED));
        assert_eq!(
            visit.request_edit,
            Some(Edit::Set("cookie".into(), "JSESSIONID=\"abc\"".into()))
        );
    }
}

#[test]
fn a_renewal_keeps_the_start_and_a_move_begins_anew() {
    let site = cookie_mode("prefix", json!({"token": "signed"}));
    let request = FakeRequest::new().cookie(&format!("JSESSIONID={}~abc", prefix_token(A)));
    for (host, outcome, issued) in [(A, RENEWED, at(0)), (B, REISSUED, at(60))] {
        let response = FakeResponse::by(host).header("set-cookie", "JSESSIONID=new");
        let visit = site.visit(&request, &response, at(60));
        assert_eq!(visit.outcomes(), (STEERED, outcome));
        let cookies = set_cookies(&visit).expect("a token");
        let token = token_in(&cookies[0], "JSESSIONID=", "~new");
        let realm = realm(1, "cart", CarrierMode::CookiePrefix, SESSION_COOKIE);
        assert_eq!(realm.open(token.as_bytes()).unwrap().claims.issued_at, issued);
    }
}

#[test]
fn nothing_is_renewed_unless_the_application_sets_its_cookie() {
    let site = Site::configured(
        json!({"cookie": {"name": SESSION_COOKIE, "mode": "prefix"}}),
        json!({"keys": [key(1, "retiring"), key(2, "signing")], "maxIdle": "1h"}),
    );
    let request = FakeRequest::new().cookie(&format!("JSESSIONID={}~abc", prefix_token(A)));
    for (seconds, outcome) in [(1, STEERED), (3600, STEERED), (3601, refused(TokenRefusal::Idle))] {
        let visit = site.visit(&request, &FakeResponse::by(A).surely_as_asked(), at(seconds));
        assert_eq!(visit.outcomes(), (outcome, UNCHANGED), "{seconds}");
    }
}

#[test]
fn the_token_replaces_the_value_of_a_rewritten_cookie() {
    let site = cookie_mode("rewrite", json!({}));
    let response = sets("JSESSIONID=\"x y\"; Path=/a; Secure").header("set-cookie", "JSESSIONID=; Domain=b");
    let visit = site.visit(&FakeRequest::new(), &response, at(0));
    assert_eq!(visit.outcomes(), (NO_TOKEN, ISSUED));
    let cookies = set_cookies(&visit).expect("a token");
    let token = token_in(&cookies[0], "JSESSIONID=", "; Path=/a; Secure");
    assert_eq!(token_in(&cookies[1], "JSESSIONID=", "; Domain=b"), token);

    let visit = site.visit(
        &FakeRequest::new().cookie(&format!("JSESSIONID={token}")),
        &FakeResponse::by(A),
        at(1),
    );
    assert_eq!(visit.outcomes(), (STEERED, UNCHANGED));
    assert_eq!(visit.request_edit, None, "the application sees that there is one");

    let visit = site.visit(&FakeRequest::new(), &sets("JSESSIONID=; Max-Age=0"), at(0));
    assert_eq!((visit.outcomes(), visit.edits), ((NO_TOKEN, UNCHANGED), vec![]));
}

#[test]
fn a_header_prefix_is_added_and_removed() {
    let site = header_prefix();
    let response = FakeResponse::by(A).header(HEADER, "a~b, c").header(HEADER, "d");
    let visit = site.visit(&FakeRequest::new(), &response, at(0));
    assert_eq!(visit.outcomes(), (NO_TOKEN, ISSUED));
    let issued = fields(&visit, HEADER).expect("a token");
    let token = token_in(&issued[0], "", "~a~b, c");
    assert_eq!(token_in(&issued[1], "", "~d"), token);

    for (value, as_issued) in [
        (format!("{token}~a~b, c"), Some("a~b, c")),
        (format!("{token}~a~b, c,{token}~d"), Some("a~b, c,d")),
        ("a~b".to_owned(), None),
    ] {
        let visit = site.visit(&FakeRequest::new().header(HEADER, &value), &FakeResponse::by(A), at(1));
        let edit = as_issued.map(|value| Edit::Set(HEADER.into(), value.into()));
        assert_eq!(visit.request_edit, edit, "{value}");
        assert_eq!(visit.request, if as_issued.is_some() { STEERED } else { NO_TOKEN });
    }
    let emptied = FakeRequest::new().header(HEADER, &format!("{token}~"));
    let visit = site.visit(&emptied, &FakeResponse::by(A), at(1));
    assert_eq!(visit.request_edit, Some(Edit::Remove(HEADER.into())));
}

/// Envoy does not let modules set or add an empty field, so the fields behind one would be lost.
#[test]
fn empty_fields_beside_the_applications_are_dropped() {
    let fields_of = |site: Site, header: &str, own: &str| {
        let response = ["", own, "", "x=y", ""]
            .iter()
            .fold(FakeResponse::by(A), |response, field| response.header(header, field));
        let visit = site.visit(&FakeRequest::new(), &response, at(0));
        assert_eq!(visit.outcomes(), (NO_TOKEN, ISSUED));
        fields(&visit, header).expect("a token")
    };
    let cookies = fields_of(prefix(), "set-cookie", "JSESSIONID=abc");
    token_in(&cookies[0], "JSESSIONID=", "~abc");
    assert_eq!(cookies[1..], ["x=y"]);
    let values = fields_of(header_prefix(), HEADER, "abc");
    let token = token_in(&values[0], "", "~abc");
    assert_eq!(token_in(&values[1], "", "~x=y"), token);
    assert_eq!(values.len(), 2);
}

#[test]
fn a_missing_or_empty_application_header_gets_no_token() {
    for response in [
        FakeResponse::by(A),
        FakeResponse::by(A).header(HEADER, ""),
        sets("x-session=1"),
    ] {
        let visit = header_prefix().visit(&FakeRequest::new(), &response, at(0));
        assert_eq!((visit.outcomes(), visit.edits), ((NO_TOKEN, UNCHANGED), vec![]));
    }
}

/// Name and value of a cookie have 4,096 bytes at most; a token has 60 here, and `~`.
#[test]
fn a_login_cookie_was_lost_because_a_token_made_it_too_large() {
    let room = 4096 - "JSESSIONID".len();
    let of = |site: Site, value: &str| {
        let response = sets(&format!("JSESSIONID={value}; HttpOnly"));
        site.visit(&FakeRequest::new(), &response, at(0))
    };
    let fits = of(prefix(), &"x".repeat(room - 61));
    assert_eq!(fits.outcomes(), (NO_TOKEN, ISSUED));
    for length in [room - 60, room] {
        let visit = of(prefix(), &"x".repeat(length));
        let outcomes = (NO_TOKEN, TOO_LARGE);
        assert_eq!((visit.outcomes(), visit.edits), (outcomes, vec![]), "{length}");
    }
    // No browser would have kept it.
    assert_eq!(of(prefix(), &"x".repeat(room + 1)).outcomes(), (NO_TOKEN, ISSUED));
    assert_eq!(
        of(cookie_mode("rewrite", json!({})), &"x".repeat(2 * room)).outcomes(),
        (NO_TOKEN, ISSUED)
    );
    let header = FakeResponse::by(A).header(HEADER, &"x".repeat(2 * room));
    let visit = header_prefix().visit(&FakeRequest::new(), &header, at(0));
    assert_eq!(visit.outcomes(), (NO_TOKEN, ISSUED));
}

#[test]
fn local_replies_and_unaddressable_backends_get_no_prefix() {
    let local = FakeResponse::local(503, "upstream_reset", A).header("set-cookie", "JSESSIONID=abc");
    assert_eq!(prefix().visit(&FakeRequest::new(), &local, at(0)).response, UNCHANGED);
    let pipe = FakeResponse::by_a_pipe().header("set-cookie", "JSESSIONID=abc");
    let visit = prefix().visit(&FakeRequest::new(), &pipe, at(0));
    assert_eq!((visit.response, visit.edits), (UNADDRESSABLE, vec![]));
}
