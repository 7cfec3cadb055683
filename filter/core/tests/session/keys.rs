//! Rotations: every key honours its tokens, one key signs, and tokens of a retiring key are renewed.

use limpet_core::keyring::KeyId;
use limpet_core::token::{CarrierMode, Form, Refusal, Unverified};
use serde_json::{Value, json};

use crate::world::*;

fn site(keys: Value) -> Site {
    Site::configured(
        cookie_policy(json!({ "idleTimeout": "1000s" })),
        json!({ "keys": keys }),
    )
}

/// A request with a token of this key.
fn bringing_of(id: u8, form: Form) -> Request {
    let token = realm(id, "cart", CarrierMode::Cookie, COOKIE).seal(form, &claims(A, at(0), at(0)), [0; 4]);
    Request::new().cookie(&format!("{COOKIE}={token}"))
}

fn visit(site: &Site, id: u8) -> Visit {
    site.visit(&bringing_of(id, Form::Sealed), &Response::by(A), at(1))
}

fn key_of(visit: &Visit) -> KeyId {
    Unverified::parse(visit.token().unwrap().as_bytes()).unwrap().key_id
}

#[test]
fn tokens_of_every_key_are_honoured() {
    let site = site(json!([
        key(1, "retiring"),
        key(2, "signing"),
        key(3, "verifying"),
        key(0, "verifying"),
        key(255, "retiring")
    ]));
    for id in [0, 1, 2, 3, 255] {
        assert_eq!(visit(&site, id).request, STEERED, "key {id}");
    }
    assert_eq!(visit(&site, 4).request, refused(Refusal::UnknownKey));
}

#[test]
fn new_tokens_are_made_with_the_signing_key() {
    let site = site(json!([key(1, "retiring"), key(2, "signing"), key(3, "verifying")]));
    assert_eq!(key_of(&site.visit(&Request::new(), &Response::by(A), at(0))), KeyId(2));
}

#[test]
fn a_retiring_keys_token_is_renewed_under_the_signing_key() {
    let site = site(json!([key(1, "retiring"), key(2, "signing")]));
    let renewed = visit(&site, 1);
    assert_eq!(renewed.outcomes(), (STEERED, RENEWED));
    assert_eq!(key_of(&renewed), KeyId(2));
    let claims = realm(2, "cart", CarrierMode::Cookie, COOKIE)
        .open(renewed.token().unwrap().as_bytes())
        .unwrap()
        .claims;
    assert_eq!((claims.issued_at, claims.last_seen), (at(0), at(1)));
}

#[test]
fn a_token_of_a_verifying_key_stays() {
    // Otherwise Envoys in different phases of a rotation would keep replacing each other's tokens.
    let site = site(json!([key(1, "verifying"), key(2, "signing")]));
    assert_eq!(visit(&site, 1).outcomes(), (STEERED, UNCHANGED));
}

#[test]
fn a_due_token_of_a_verifying_key_moves_to_the_signing_key() {
    let site = site(json!([key(1, "verifying"), key(2, "signing")]));
    let renewed = site.visit(&bringing_of(1, Form::Sealed), &Response::by(A), at(500));
    assert_eq!((renewed.response, key_of(&renewed)), (RENEWED, KeyId(2)));
}

#[test]
fn another_key_under_the_same_id_honours_nothing() {
    let site = site(json!([with(
        key(1, "signing"),
        json!({ "inline": key(2, "signing")["inline"] })
    )]));
    assert_eq!(visit(&site, 1).request, refused(Refusal::BadSignature));
}

#[test]
fn both_forms_are_honoured_whatever_the_policy_issues() {
    for token in ["sealed", "signed"] {
        let site = Site::new(cookie_policy(json!({ "token": token })));
        for form in [Form::Sealed, Form::Signed] {
            assert_eq!(
                site.visit(&bringing_of(1, form), &Response::by(A), at(0)).outcomes(),
                (STEERED, UNCHANGED)
            );
        }
        let issued = site.visit(&Request::new(), &Response::by(A), at(0)).token().unwrap();
        assert_eq!(Unverified::parse(issued.as_bytes()).unwrap().form.name(), token);
    }
}
