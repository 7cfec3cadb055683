//! Several tokens in a request: the first living one counts. Without a living one, the reason of the first does.

use limpet_core::outcome::RequestOutcome;
use limpet_core::token::Refusal::{BadSignature, Idle, Malformed};
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

/// A request with these cookies.
fn with_cookies(values: &[&str]) -> (RequestOutcome, Option<String>) {
    let site = Site::new(cookie_policy(json!({ "idleTimeout": "100s" })));
    let pairs: Vec<String> = values.iter().map(|value| format!("{COOKIE}={value}")).collect();
    let visit = site.visit(&Request::new().cookie(&pairs.join("; ")), &Response::by(B), at(1000));
    (visit.request, visit.host())
}

fn steered_to(host: &str) -> (RequestOutcome, Option<String>) {
    (STEERED, Some(host.to_owned()))
}

#[test]
fn the_first_living_token_counts() {
    assert_eq!(with_cookies(&[&alive(A), &alive(B)]), steered_to(A));
    assert_eq!(with_cookies(&[&idle(), &alive(B), &alive(A)]), steered_to(B));
    assert_eq!(with_cookies(&["x", &foreign(), &idle(), &alive(B)]), steered_to(B));
}

#[test]
fn without_a_living_token_the_first_reason_counts() {
    assert_eq!(with_cookies(&[&idle(), &foreign(), "x"]), (refused(Idle), None));
    assert_eq!(with_cookies(&[&foreign(), &idle()]), (refused(BadSignature), None));
    assert_eq!(with_cookies(&["", &idle()]), (refused(Malformed), None));
}

#[test]
fn at_most_four_tokens_are_examined() {
    assert_eq!(with_cookies(&["x", "x", "x", &alive(A)]), steered_to(A));
    assert_eq!(
        with_cookies(&["x", "x", "x", "x", &alive(A)]),
        (refused(Malformed), None)
    );
}

#[test]
fn a_quoted_token_is_honoured() {
    assert_eq!(with_cookies(&[&format!("\"{}\"", alive(A))]), steered_to(A));
}

#[test]
fn every_token_is_removed_from_the_request() {
    let site = Site::new(cookie_policy(json!({})));
    let field = format!("a=1; {COOKIE}=x; b=\"2\" ;{COOKIE}={}; c;{COOKIE}=y", alive(A));
    let visit = site.visit(&Request::new().cookie(&field), &Response::by(A), at(1000));
    assert_eq!(
        visit.request_edit,
        Some(Edit::Set("cookie".into(), "a=1; b=\"2\" ; c".into()))
    );
}
