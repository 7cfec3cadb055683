//! Addresses that have a new owner: sessions of the former owner are over.

use std::time::Duration;

use limpet_core::config::{self, ConfigWarning, FencesAhead};
use limpet_core::outcome::RequestOutcome;
use limpet_core::time::Timestamp;
use limpet_core::token::TokenRefusal;
use serde_json::{Value, json};

use crate::world::*;

const SINCE: u64 = 1_763_718_100;

fn outcome(fences: Value, host: &str, issued_at: Timestamp) -> RequestOutcome {
    let site = Site::configured(cookie_policy(json!({})), json!({ "fences": fences }));
    let visit = site.visit(
        &bringing(&claims(host, issued_at, at(100))),
        &FakeResponse::by(B),
        at(100),
    );
    assert_eq!(visit.steering.is_some(), visit.request == STEERED);
    visit.request
}

fn fenced() -> RequestOutcome {
    refused(TokenRefusal::Fenced)
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
    let visit = site.visit(&bringing(&claims(A, at(0), at(500))), &FakeResponse::by(A), at(500));
    assert_eq!(visit.outcomes(), (fenced(), ISSUED));
    let client = site.client();
    client.visit(A, at(500));
    assert_eq!(client.visit(A, at(500)).request, STEERED, "the new owner's session");
}

#[test]
fn a_fence_of_a_namespace_spares_the_scopes_of_others() {
    let fence = |namespace: Option<&str>| json!({ "address": "10.0.0.1", "notBefore": SINCE, "namespace": namespace });
    let outcome = |fences: Value, scope: &str| {
        let site = Site::configured(cookie_policy(json!({})), json!({ "fences": fences }));
        let client = site.client();
        let request = || FakeRequest::new().session(format!("shop/{scope}"));
        client.visit_by(request(), &FakeResponse::by(A), at(0));
        client.visit_by(request(), &FakeResponse::by(A), at(50)).request
    };
    for (scope, of_shop, of_all) in [
        ("httproute/shop/web/0", fenced(), fenced()),
        ("xbackend/shop/web", fenced(), fenced()),
        ("httproute/other/web/0", STEERED, fenced()),
        // Without a namespace.
        ("httproute/shop", STEERED, fenced()),
        ("shop", STEERED, fenced()),
    ] {
        assert_eq!(outcome(json!([fence(Some("shop"))]), scope), of_shop, "{scope}");
        assert_eq!(
            outcome(json!([fence(Some("shop")), fence(None)]), scope),
            of_all,
            "{scope}"
        );
    }
}

fn read_at(fences: &Value, ahead: &mut FencesAhead, now: Timestamp) -> (Site, Option<ConfigWarning>) {
    let policy = cookie_policy(json!({ "absoluteTimeout": "2h" }));
    let config = json!({
        "keys": [key(1, "signing")],
        "policies": { "shop": policy },
        "default": { "policy": "shop", "scope": "shop" },
        "clockSkew": "10s",
        "fences": fences,
    });
    let mut config = config::parse(config.to_string().as_bytes()).unwrap();
    let warning = ahead.bound(&mut config, now);
    (Site::of(&serde_json::to_value(&config).unwrap()), warning)
}

#[test]
fn a_fence_ahead_of_the_clock_lets_new_sessions_live() {
    let hour = at(3600).unix_seconds();
    let fences = json!([{ "address": "10.0.0.1", "notBefore": hour }, { "address": "10.0.0.3", "notBefore": hour }]);
    let ahead = &mut FencesAhead::default();
    let (site, warning) = read_at(&fences, ahead, at(0));
    let client = site.client();
    client.visit(A, at(9));
    assert_eq!(
        client.visit(A, at(10)).outcomes(),
        (fenced(), ISSUED),
        "the former owner's"
    );
    assert_eq!(client.visit(A, at(11)).request, STEERED);
    assert_eq!(client.visit(A, at(3599)).request, STEERED);
    let warning = warning.unwrap();
    assert_eq!(warning.field(), "fences[0].notBefore");
    let text = warning.to_string();
    assert!(
        text.contains(&format!("found {hour}")) && text.ends_with("(so are 1 other fences)"),
        "{text}"
    );

    // Other configurations are read meanwhile, also after its time has come.
    for (now, is_ahead) in [(60, true), (3595, false), (3600, false), (5000, false)] {
        let (site, warning) = read_at(&fences, ahead, at(now));
        assert_eq!(warning.is_some(), is_ahead, "{now}");
        for (issued, expected) in [(9, fenced()), (10, STEERED)] {
            let visit = site.visit(
                &bringing(&claims(A, at(issued), at(now))),
                &FakeResponse::by(A),
                at(now),
            );
            assert_eq!(visit.request, expected, "{issued} at {now}");
        }
    }
}

#[test]
fn a_fence_that_is_not_ahead_keeps_its_time() {
    let fence = |seconds: u64| json!([{ "address": "10.0.0.1", "notBefore": at(0).unix_seconds() + seconds }]);
    for seconds in [0, 9, 10] {
        let (site, warning) = read_at(&fence(seconds), &mut FencesAhead::default(), at(0));
        assert_eq!(warning, None);
        for (issued, expected) in [(seconds, STEERED), (seconds.wrapping_sub(1), fenced())] {
            let issued = Timestamp::from_unix_seconds(at(0).unix_seconds().wrapping_add(issued));
            let visit = site.visit(&bringing(&claims(A, issued, at(20))), &FakeResponse::by(A), at(20));
            assert_eq!(visit.request, expected, "{seconds}");
        }
    }
}

/// The clock was wrong by an hour, and then is right.
#[test]
fn a_fence_begins_once_whatever_the_clock_does() {
    let fences = json!([{ "address": "10.0.0.1", "notBefore": at(0).unix_seconds() }]);
    let ahead = &mut FencesAhead::default();
    let behind = Timestamp::from_unix_millis(at(0).unix_millis() - 3_600_000);
    assert!(read_at(&fences, ahead, behind).1.is_some());
    let (site, warning) = read_at(&fences, ahead, at(5));
    assert_eq!(warning, None);
    let issued = behind.after(Duration::from_secs(10));
    let visit = site.visit(&bringing(&claims(A, issued, at(5))), &FakeResponse::by(A), at(5));
    assert_eq!(
        visit.request, STEERED,
        "it is as old as a session that this Envoy began under the fence"
    );
}
