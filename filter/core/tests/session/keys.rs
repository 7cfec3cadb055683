//! Rotations: every key honours its tokens, one key signs, and tokens of a retiring key are renewed.

use std::cell::RefCell;
use std::collections::BTreeMap;

use limpet_core::keyring::KeyId;
use limpet_core::token::{CarrierMode, PayloadForm, TokenRefusal, UnverifiedToken};
use limpet_core::{Counters, DefinedCounters, KeyChange};
use serde_json::{Value, json};

use crate::world::*;

fn site(keys: Value) -> Site {
    Site::configured(
        cookie_policy(json!({ "idleTimeout": "1000s" })),
        json!({ "keys": keys }),
    )
}

fn bringing_of(id: u8, form: PayloadForm) -> FakeRequest {
    let token = realm(id, "cart", CarrierMode::Cookie, COOKIE).seal(form, &claims(A, at(0), at(0)), [0; 4]);
    FakeRequest::new().cookie(&format!("{COOKIE}={token}"))
}

fn visit(site: &Site, id: u8) -> Visit {
    site.visit(&bringing_of(id, PayloadForm::Sealed), &FakeResponse::by(A), at(1))
}

fn key_of(visit: &Visit) -> KeyId {
    UnverifiedToken::parse(visit.token().unwrap().as_bytes())
        .unwrap()
        .key_id
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
    assert_eq!(visit(&site, 4).request, refused(TokenRefusal::UnknownKey));
}

#[test]
fn new_tokens_are_made_with_the_signing_key() {
    let site = site(json!([key(1, "retiring"), key(2, "signing"), key(3, "verifying")]));
    assert_eq!(
        key_of(&site.visit(&FakeRequest::new(), &FakeResponse::by(A), at(0))),
        KeyId(2)
    );
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
    let renewed = site.visit(&bringing_of(1, PayloadForm::Sealed), &FakeResponse::by(A), at(500));
    assert_eq!((renewed.response, key_of(&renewed)), (RENEWED, KeyId(2)));
}

#[test]
fn another_key_under_the_same_id_honours_nothing() {
    let site = site(json!([with(
        key(1, "signing"),
        json!({ "inline": key(2, "signing")["inline"] })
    )]));
    assert_eq!(visit(&site, 1).request, refused(TokenRefusal::BadSignature));
}

#[test]
fn both_forms_are_honoured_whatever_the_policy_issues() {
    for token in ["sealed", "signed"] {
        let site = Site::new(cookie_policy(json!({ "token": token })));
        for form in [PayloadForm::Sealed, PayloadForm::Signed] {
            assert_eq!(
                site.visit(&bringing_of(1, form), &FakeResponse::by(A), at(0))
                    .outcomes(),
                (STEERED, UNCHANGED)
            );
        }
        let issued = site
            .visit(&FakeRequest::new(), &FakeResponse::by(A), at(0))
            .token()
            .unwrap();
        assert_eq!(UnverifiedToken::parse(issued.as_bytes()).unwrap().form.name(), token);
    }
}

#[test]
fn a_revoked_keys_token_counts_nothing_and_says_why() {
    let revoked = json!({ "id": 1, "state": "revoked" });
    let site = site(json!([revoked, key(2, "signing"), key(3, "retiring")]));
    for form in [PayloadForm::Sealed, PayloadForm::Signed] {
        let answer = site.visit(&bringing_of(1, form), &FakeResponse::by(A), at(1));
        assert_eq!(answer.request.as_str(), "refused.revoked_key");
        assert_eq!((answer.response, key_of(&answer)), (ISSUED, KeyId(2)));
    }
    assert_eq!(visit(&site, 4).request, refused(TokenRefusal::UnknownKey));
    assert_eq!(visit(&site, 3).request, STEERED);
}

fn change(visit: &Visit) -> Option<(Option<u8>, u8)> {
    visit
        .key_change
        .map(|KeyChange { from, to }| (from.map(|id| id.0), to.0))
}

#[test]
fn a_change_of_a_clients_key_is_told_once() {
    let site = site(json!([
        { "id": 1, "state": "revoked" },
        key(2, "signing"),
        key(3, "retiring"),
        key(4, "verifying")
    ]));
    let now = |request: &FakeRequest, seconds| site.visit(request, &FakeResponse::by(A), at(seconds));
    assert_eq!(change(&now(&FakeRequest::new(), 1)), Some((None, 2)), "a new client");
    assert_eq!(
        change(&now(&bringing_of(3, PayloadForm::Sealed), 1)),
        Some((Some(3), 2)),
        "a renewal"
    );
    assert_eq!(
        change(&now(&bringing_of(1, PayloadForm::Sealed), 1)),
        Some((Some(1), 2)),
        "revoked"
    );
    assert_eq!(
        change(&now(&bringing_of(9, PayloadForm::Sealed), 1)),
        Some((None, 2)),
        "unknown"
    );
    // No new token, or one of the same key.
    assert_eq!(change(&now(&bringing_of(4, PayloadForm::Sealed), 1)), None);
    for (seconds, outcome) in [(1, UNCHANGED), (500, RENEWED), (5000, ISSUED)] {
        let visit = now(&bringing_of(2, PayloadForm::Sealed), seconds);
        assert_eq!((visit.response, change(&visit)), (outcome, None), "after {seconds} s");
    }
    let moved = site.visit(&bringing_of(2, PayloadForm::Sealed), &FakeResponse::by(B), at(1));
    assert_eq!((moved.response, change(&moved)), (REISSUED, None));
    assert_eq!(
        change(&now(&bringing_of(3, PayloadForm::Sealed), 5000)),
        Some((Some(3), 2))
    );
}

#[test]
fn clients_are_counted_by_their_keys() {
    let site = site(json!([{ "id": 1, "state": "revoked" }, key(2, "signing"), key(3, "retiring")]));
    let counted: RefCell<BTreeMap<String, u32>> = RefCell::default();
    let define = |name: &str| {
        counted.borrow_mut().insert(name.to_owned(), 0);
        Ok::<_, ()>(name.to_owned())
    };
    let counters = Counters::define(&site.filter, &mut DefinedCounters::default(), define).unwrap();
    for id in [1, 1, 3, 2, 9] {
        let visit = visit(&site, id);
        for counter in visit
            .key_change
            .into_iter()
            .flat_map(|change| counters.key_change(change))
        {
            *counted.borrow_mut().get_mut(counter).unwrap() += 1;
        }
    }
    let of_keys = counted.into_inner();
    let of_keys = of_keys
        .iter()
        .filter_map(|(name, count)| Some((name.strip_prefix("limpet.keys.")?, *count)));
    assert_eq!(
        of_keys.collect::<Vec<_>>(),
        [
            ("1.ended", 2),
            ("1.given", 0),
            ("1.replaced", 0),
            ("2.ended", 0),
            ("2.given", 4),
            ("2.replaced", 0),
            ("3.ended", 0),
            ("3.given", 0),
            ("3.replaced", 1),
        ]
    );
}
