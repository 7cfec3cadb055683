//! Idle and absolute timeouts, renewal, different clocks. `vectors/times-v1.json` tests each limit to the millisecond.

use limpet_core::time::Timestamp;
use limpet_core::token::TokenRefusal;
use proptest::prelude::*;
use serde_json::json;

use crate::world::*;

const IDLE: u64 = 1000;

fn idle_site() -> Site {
    Site::new(cookie_policy(json!({ "idleTimeout": format!("{IDLE}s") })))
}

fn later(than: Timestamp, millis: u64) -> Timestamp {
    than.after(ms(millis))
}

#[test]
fn a_token_is_renewed_after_a_tenth_of_the_idle_timeout() {
    let site = idle_site();
    let client = site.client();
    client.visit(A, at(0));
    assert_eq!(client.visit(A, at(100)).outcomes(), (STEERED, UNCHANGED));
    assert_eq!(client.visit(A, later(at(100), 1)).outcomes(), (STEERED, RENEWED));
    assert_eq!(client.claims(), claims(A, at(0), later(at(100), 1)));
    assert_eq!(client.visit(A, at(200)).outcomes(), (STEERED, UNCHANGED));
}

#[test]
fn a_renewal_waits_for_an_answer_of_the_backend() {
    let site = idle_site();
    let client = site.client();
    client.visit(A, at(0));
    let failed = client.visit_by(
        FakeRequest::new(),
        &FakeResponse::local(504, "response_timeout", A),
        at(500),
    );
    assert_eq!(failed.outcomes(), (STEERED, UNCHANGED));
    assert_eq!(client.claims().last_seen, at(0));
}

#[test]
fn a_renewal_does_not_need_another_host() {
    let site = idle_site();
    let request = bringing(&claims(A, at(0), at(0)));
    assert_eq!(
        site.visit(&request, &FakeResponse::by(A).surely_as_asked(), at(500))
            .response,
        RENEWED
    );
}

#[test]
fn a_session_idle_for_less_than_the_timeout_survives() {
    let site = idle_site();
    let client = site.client();
    client.visit(A, at(0));
    // The worst case: the last use without a renewal, then idle for the whole timeout.
    assert_eq!(client.visit(A, at(100)).response, UNCHANGED);
    assert_eq!(client.visit(A, at(100 + IDLE)).outcomes(), (STEERED, RENEWED));
}

#[test]
fn a_session_idle_for_more_than_1_1_times_the_timeout_is_over() {
    let site = idle_site();
    let client = site.client();
    client.visit(A, at(0));
    let idle = client.visit(B, later(at(IDLE + IDLE / 10), 1));
    assert_eq!(idle.outcomes(), (refused(TokenRefusal::Idle), ISSUED));
    assert_eq!(idle.steering, None);
    assert_eq!(client.claims(), claims(B, later(at(1100), 1), later(at(1100), 1)));
}

#[test]
fn renewals_do_not_extend_the_absolute_timeout() {
    let site = Site::new(cookie_policy(
        json!({ "absoluteTimeout": "1000s", "idleTimeout": "100s" }),
    ));
    let client = site.client();
    client.visit(A, at(0));
    for seconds in (50..1000).step_by(50) {
        assert_eq!(client.visit(A, at(seconds)).outcomes(), (STEERED, RENEWED), "{seconds}");
        assert_eq!(client.claims().issued_at, at(0));
    }
    assert_eq!(
        client.visit(A, at(1000)).outcomes(),
        (refused(TokenRefusal::Expired), ISSUED)
    );
    assert_eq!(client.claims().issued_at, at(1000));
}

#[test]
fn a_move_restarts_the_absolute_timeout() {
    let site = Site::new(cookie_policy(json!({ "absoluteTimeout": "1000s" })));
    let client = site.client();
    client.visit(A, at(0));
    client.visit(B, at(900));
    assert_eq!(client.visit(B, at(1899)).outcomes(), (STEERED, UNCHANGED));
    assert_eq!(client.visit(B, at(1900)).request, refused(TokenRefusal::Expired));
}

#[test]
fn an_absolute_timeout_alone_needs_no_renewal() {
    let site = Site::new(cookie_policy(json!({ "absoluteTimeout": "1000s" })));
    let client = site.client();
    client.visit(A, at(0));
    assert_eq!(client.visit(A, at(999)).outcomes(), (STEERED, UNCHANGED));
}

#[test]
fn without_a_timeout_max_idle_holds() {
    let site = Site::configured(cookie_policy(json!({})), json!({ "maxIdle": "1000s" }));
    let request = || bringing(&claims(A, at(0), at(0)));
    let outcomes = |now| site.visit(&request(), &FakeResponse::by(A), now).outcomes();
    assert_eq!(outcomes(at(100)), (STEERED, UNCHANGED));
    assert_eq!(outcomes(at(101)), (STEERED, RENEWED));
    assert_eq!(outcomes(at(1100)), (STEERED, RENEWED));
    assert_eq!(outcomes(at(1101)), (refused(TokenRefusal::Idle), ISSUED));
}

#[test]
fn max_idle_is_seven_days_by_default() {
    let site = Site::new(cookie_policy(json!({})));
    let day = 24 * 3600;
    let outcome = |now| {
        site.visit(&bringing(&claims(A, at(0), at(0))), &FakeResponse::by(A), now)
            .request
    };
    assert_eq!(outcome(at(7 * day)), STEERED);
    assert_eq!(outcome(at(8 * day)), refused(TokenRefusal::Idle));
}

#[test]
fn a_clock_may_be_a_minute_behind_that_of_the_issuer() {
    let site = idle_site();
    let outcomes = |millis| {
        let ahead = later(at(0), millis);
        site.visit(&bringing(&claims(A, ahead, ahead)), &FakeResponse::by(A), at(0))
            .outcomes()
    };
    assert_eq!(outcomes(1), (STEERED, UNCHANGED));
    assert_eq!(outcomes(60_000), (STEERED, UNCHANGED));
    assert_eq!(outcomes(60_001), (refused(TokenRefusal::FromTheFuture), ISSUED));
}

#[test]
fn the_clock_skew_is_configurable() {
    let site = Site::configured(cookie_policy(json!({})), json!({ "clockSkew": "0s" }));
    let outcome = |issued| {
        site.visit(&bringing(&claims(A, issued, issued)), &FakeResponse::by(A), at(1))
            .request
    };
    assert_eq!(outcome(at(1)), STEERED);
    assert_eq!(outcome(later(at(1), 1)), refused(TokenRefusal::FromTheFuture));
}

#[test]
fn a_clock_ahead_of_that_of_the_issuer_counts_from_the_token() {
    let site = idle_site();
    let outcomes = |now| {
        site.visit(&bringing(&claims(A, at(100), at(100))), &FakeResponse::by(A), now)
            .outcomes()
    };
    assert_eq!(outcomes(at(160)), (STEERED, UNCHANGED));
    assert_eq!(outcomes(at(201)), (STEERED, RENEWED));
}

#[test]
fn last_seen_never_goes_back() {
    // A retiring key renews although nothing lags, even if another Envoy's clock is ahead.
    let keys = json!({ "keys": [key(1, "retiring"), key(2, "signing")] });
    let site = Site::configured(cookie_policy(json!({ "idleTimeout": "1000s" })), keys);
    let visit = site.visit(&bringing(&claims(A, at(30), at(45))), &FakeResponse::by(A), at(0));
    assert_eq!(visit.outcomes(), (STEERED, RENEWED));
    let realm = realm(2, "cart", limpet_core::token::CarrierMode::Cookie, COOKIE);
    let renewed = realm.open(visit.token().unwrap().as_bytes()).unwrap().claims;
    assert_eq!((renewed.issued_at, renewed.last_seen), (at(30), at(45)));
}

#[test]
fn a_clock_that_steps_back_does_not_move_last_seen_back() {
    let site = idle_site();
    let request = bringing(&claims(A, at(0), at(300)));
    let visit = site.visit_lasting(&request, &FakeResponse::by(A), at(500), at(200));
    let realm = realm(1, "cart", limpet_core::token::CarrierMode::Cookie, COOKIE);
    assert_eq!(
        realm.open(visit.token().unwrap().as_bytes()).unwrap().claims.last_seen,
        at(300)
    );
}

#[test]
fn the_latest_time_is_valid() {
    let site = idle_site();
    let client = site.client();
    client.visit(A, Timestamp::MAX);
    assert_eq!(client.visit(A, Timestamp::MAX).outcomes(), (STEERED, UNCHANGED));
    assert_eq!(
        client.visit(A, Timestamp::from_unix_millis(0)).request,
        refused(TokenRefusal::FromTheFuture)
    );
}

proptest! {
    #[test]
    fn the_pauses_decide_whether_a_session_survives(
        idle in 1..5000u64,
        pauses in prop::collection::vec(0.0..1.5f64, 1..30),
    ) {
        let site = Site::new(cookie_policy(json!({ "idleTimeout": format!("{}s{}ms", idle / 1000, idle % 1000) })));
        let client = site.client();
        let mut now = at(0);
        client.visit(A, now);
        for part in pauses {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "small"
            )]
            let pause = (part * idle as f64) as u64;
            now = later(now, pause);
            let outcome = client.visit(A, now).request;
            if pause <= idle {
                prop_assert_eq!(outcome, STEERED, "idle for {} of {} ms", pause, idle);
            } else if pause * 10 > idle * 11 {
                prop_assert_eq!(outcome, refused(TokenRefusal::Idle), "idle for {} of {} ms", pause, idle);
            }
        }
    }
}

#[test]
fn a_late_time_is_borne_where_all_times_are_long() {
    let bears = |policy, fields| Site::configured(policy, fields).filter.tolerates_late_time(ms(100));
    for (fields, expected) in [
        (json!({}), true),
        (json!({ "idleTimeout": "10s", "absoluteTimeout": "10s" }), true),
        (json!({ "idleTimeout": "9s" }), false),
        (json!({ "absoluteTimeout": "9s" }), false),
    ] {
        assert_eq!(bears(cookie_policy(fields.clone()), json!({})), expected, "{fields}");
    }
    assert!(!bears(json!({ "source": {"timeout": "9s"} }), json!({})));
    assert!(!bears(cookie_policy(json!({})), json!({ "clockSkew": "9s" })));
}
