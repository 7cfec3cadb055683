//! An idle timeout that became shorter: tokens lag by a tenth of the former one.

use limpet_core::outcome::RequestOutcome;
use limpet_core::time::Timestamp;
use limpet_core::token::TokenRefusal;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::*;

const UNTIL: u64 = 10_000;
/// A tenth of an hour.
const FORMER_LAG: u64 = 360;
const IDLE: u64 = 20;

fn site(fields: Value) -> Site {
    Site::new(cookie_policy(with(json!({ "idleTimeout": "20s" }), fields)))
}

fn former(namespace: Option<&str>) -> Value {
    let mut former = json!({ "lag": "6m", "until": at(UNTIL).unix_seconds() });
    if let Some(namespace) = namespace {
        former["namespace"] = json!(namespace);
    }
    json!({ "formerLags": [former] })
}

/// The outcome for a session of this scope whose token was last seen then.
fn request(site: &Site, scope: &str, last_seen: Timestamp, now: Timestamp) -> RequestOutcome {
    let token = cookie_token(scope, &claims(A, at(0), last_seen));
    let request = FakeRequest::new().session(format!("shop/{scope}"));
    let request = request.cookie(&format!("{COOKIE}={token}"));
    site.visit(&request, &FakeResponse::by(A), now).request
}

#[test]
fn a_shorter_idle_timeout_ended_sessions_in_use() {
    // The token of a session that is used each second is up to six minutes old.
    let seen = at(UNTIL - FORMER_LAG);
    let idle = refused(TokenRefusal::Idle);
    assert_eq!(request(&site(json!({})), "cart", seen, at(UNTIL)), idle);
    let site = site(former(None));
    assert_eq!(request(&site, "cart", seen, at(UNTIL)), STEERED);
    assert_eq!(request(&site, "cart", seen, at(UNTIL).after(ms(1))), idle);
    // It counts as any token from its first use on.
    let client = site.client();
    client.visit(A, seen);
    assert_eq!(client.visit(A, at(UNTIL)).outcomes(), (STEERED, RENEWED));
    assert_eq!(client.visit(A, at(UNTIL + 2 + IDLE + IDLE / 10)).request, idle);
}

#[test]
fn a_session_that_was_unused_for_longer_came_back() {
    let site = site(former(None));
    let now = at(UNTIL);
    assert_eq!(request(&site, "cart", at(UNTIL - FORMER_LAG - IDLE), now), STEERED);
    let over = request(&site, "cart", at(UNTIL - FORMER_LAG - IDLE).before(), now);
    assert_eq!(over, refused(TokenRefusal::Idle));
}

#[test]
fn a_former_lag_of_a_namespace_is_not_for_the_scopes_of_others() {
    let outcome = |namespace, scope| request(&site(former(namespace)), scope, at(UNTIL - 300), at(UNTIL));
    let idle = refused(TokenRefusal::Idle);
    for (scope, of_shop) in [
        ("httproute/shop/web/0", STEERED),
        ("xbackend/shop/web", STEERED),
        ("httproute/other/web/0", idle),
        ("httproute/shop", idle),
    ] {
        assert_eq!(outcome(Some("shop"), scope), of_shop, "{scope}");
        assert_eq!(outcome(None, scope), STEERED, "{scope}");
    }
}

#[test]
fn a_former_lag_leaves_other_limits_as_they_are() {
    let strict = site(with(former(None), json!({ "absoluteTimeout": "2h" })));
    let expired = request(&strict, "cart", at(UNTIL - 300), at(UNTIL));
    assert_eq!(expired, refused(TokenRefusal::Expired));
}

proptest! {
    #[test]
    fn a_session_that_is_used_within_the_shorter_idle_timeout_survives_the_change(
        former in 2..5000_u64,
        part in 0.0..1.0_f64,
        pauses in prop::collection::vec(0.0..1.0_f64, 1..40),
        change in 0..40_usize,
    ) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "small"
        )]
        let part_of = |whole: u64, part: f64| (whole as f64 * part) as u64;
        let shorter = part_of(former, part).max(1);
        let long = Site::new(cookie_policy(json!({ "idleTimeout": format!("{former}s") })));
        let mut now = at(0);
        let mut last_seen = now;
        let mut until = None;
        for (turn, pause) in pauses.into_iter().enumerate() {
            if turn == change {
                // The earliest time that the controller may set.
                until = Some(now.unix_seconds() + 1 + shorter + shorter / 10 + 1);
            }
            now = now.after(ms(part_of(shorter * 1000, pause)));
            let fields = until.map(|until| json!({
                "idleTimeout": format!("{shorter}s"),
                "formerLags": [{ "lag": format!("{}s{}ms", former / 10, former % 10 * 100), "until": until }],
            }));
            let short = fields.map(|fields| Site::new(cookie_policy(fields)));
            let site = short.as_ref().unwrap_or(&long);
            let visit = site.visit(&bringing(&claims(A, at(0), last_seen)), &FakeResponse::by(A), now);
            prop_assert_eq!(visit.request, STEERED, "unused for {} ms", now.since(last_seen).as_millis());
            if visit.response == RENEWED {
                last_seen = now;
            }
        }
    }
}
