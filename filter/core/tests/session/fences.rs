//! Addresses that have a new owner: sessions of the former owner are over.

use limpet_core::outcome::RequestOutcome;
use limpet_core::time::Timestamp;
use limpet_core::token::Refusal;
use serde_json::{Value, json};

use crate::world::*;

const SINCE: u64 = 1_763_718_100;

fn outcome(fences: Value, host: &str, issued_at: Timestamp) -> RequestOutcome {
    let site = Site::configured(cookie_policy(json!({})), json!({ "fences": fences }));
    let visit = site.visit(&bringing(&claims(host, issued_at, at(100))), &Response::by(B), at(100));
    assert_eq!(visit.steering.is_some(), visit.request == STEERED);
    visit.request
}

fn fenced() -> RequestOutcome {
    refused(Refusal::Fenced)
}

#[test]
fn a_fence_ends_sessions_that_started_before_it() {
    let fences = json!([{ "address": "10.0.0.1", "notBefore": SINCE }]);
    let just_before = Timestamp::from_unix_millis(SINCE * 1000 - 1);
    assert_eq!(outcome(fences.clone(), A, just_before), fenced());
    assert_eq!(outcome(fences.clone(), A, at(0)), fenced());
    assert_eq!(outcome(fences.clone(), A, at(100)), STEERED);
}

#[test]
fn a_fence_of_an_address_covers_its_ports_and_no_other_address() {
    let fences = json!([{ "address": "10.0.0.1", "notBefore": SINCE }]);
    assert_eq!(outcome(fences.clone(), "10.0.0.1:1", at(0)), fenced());
    assert_eq!(outcome(fences, "10.0.0.2:1", at(0)), STEERED);
}

#[test]
fn a_fence_of_a_port_covers_that_port_only() {
    let fences = json!([{ "address": "10.0.0.1:8080", "notBefore": SINCE }]);
    assert_eq!(outcome(fences.clone(), "10.0.0.1:8080", at(0)), fenced());
    assert_eq!(outcome(fences, "10.0.0.1:8081", at(0)), STEERED);
}

#[test]
fn ipv6_fences_match_in_any_spelling() {
    for address in ["2001:db8::7", "2001:0DB8:0:0:0:0:0:7", "[2001:db8::7]:443"] {
        let fences = json!([{ "address": address, "notBefore": SINCE }]);
        assert_eq!(
            outcome(fences.clone(), "[2001:db8::7]:443", at(0)),
            fenced(),
            "{address}"
        );
        assert_eq!(outcome(fences, "[2001:db8::8]:443", at(0)), STEERED, "{address}");
    }
}

#[test]
fn the_latest_of_several_fences_of_an_address_holds() {
    for seconds in [[0, 100], [100, 0]] {
        let fence = |s: u64| json!({ "address": "10.0.0.1", "notBefore": SINCE - 100 + s });
        assert_eq!(outcome(seconds.map(fence).into_iter().collect(), A, at(50)), fenced());
    }
    let fences = json!([
        { "address": "10.0.0.1:8080", "notBefore": SINCE },
        { "address": "10.0.0.1", "notBefore": SINCE - 100 },
    ]);
    assert_eq!(outcome(fences.clone(), "10.0.0.1:8080", at(50)), fenced());
    assert_eq!(outcome(fences, "10.0.0.1:8081", at(50)), STEERED);
}

#[test]
fn renewals_do_not_evade_a_fence() {
    let site = Site::configured(
        cookie_policy(json!({ "idleTimeout": "1000s" })),
        json!({ "fences": [{ "address": "10.0.0.1", "notBefore": SINCE }] }),
    );
    let visit = site.visit(&bringing(&claims(A, at(0), at(500))), &Response::by(A), at(500));
    assert_eq!(visit.outcomes(), (fenced(), ISSUED));
    let client = site.client();
    client.visit(A, at(500));
    assert_eq!(client.visit(A, at(500)).request, STEERED, "the new owner's session");
}
