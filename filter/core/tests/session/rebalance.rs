//! Sessions that were unused for long, and restart on another backend.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};

use limpet_core::Steering;
use limpet_core::census::{Backend, SessionDeparture, SessionIdentity};
use limpet_core::time::Timestamp;
use serde_json::{Value, json};

use crate::world::*;

/// A site whose sessions may restart after five minutes, and are over after half an hour.
fn site(fields: Value) -> Site {
    site_that(
        json!({ "reportSessions": {"cluster": "controller", "nodeCluster": "web"} }),
        fields,
    )
}

fn site_that(reports: Value, fields: Value) -> Site {
    let policy = cookie_policy(json!({ "idleTimeout": "30m", "rebalance": "5m" }));
    Site::configured(with(policy, fields), reports)
}

/// The host that a budget sends sessions to.
const TO_B: Option<Steering> = Some(Steering {
    host: SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 8080),
    strict: false,
});

/// So many sessions of any backend may restart on [`B`].
fn budget(sessions: u32) -> impl Fn(&Backend, Timestamp) -> Option<SocketAddr> {
    let left = AtomicU32::new(sessions);
    move |_, _| {
        let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        taken.ok().map(|_| B.parse().unwrap())
    }
}

fn session(last_seen: u64) -> FakeRequest {
    bringing(&claims(A, at(0), at(last_seen))).may_leave(budget(1))
}

#[test]
fn an_idle_session_begins_anew_where_there_is_a_budget() {
    let site = site(json!({}));
    let client = site.client();
    client.visit(A, at(0));
    // The backend that lacks sessions is not there, and load balancing chose its own.
    let visit = client.visit_by(FakeRequest::new().may_leave(budget(1)), &FakeResponse::by(A), at(400));
    assert_eq!((visit.steering, visit.outcomes()), (TO_B, (REBALANCED, RENEWED)));
    assert_eq!(visit.left, None);
    let before = client.claims();
    assert_eq!((before.issued_at, before.last_seen), (at(0), at(400)));
    let answer = FakeResponse::by(B).surely_as_asked();
    let visit = client.visit_by(FakeRequest::new().may_leave(budget(1)), &answer, at(800));
    assert_eq!((visit.steering, visit.outcomes()), (TO_B, (REBALANCED, REISSUED)));
    let Some(SessionDeparture::Rebalanced(left, last_seen)) = visit.left else {
        panic!("{:?}", visit.left);
    };
    assert_eq!((left.host.to_string().as_str(), left.live_for), (A, 1800));
    assert_eq!(last_seen, at(400));
    assert_eq!(visit.seen.unwrap().backend.host.to_string(), B);
    let claims = client.claims();
    assert_eq!((claims.host.to_string().as_str(), claims.issued_at), (B, at(800)));
    let visit = client.visit_by(FakeRequest::new().may_leave(budget(1)), &FakeResponse::by(B), at(801));
    assert_eq!(
        (visit.host().as_deref(), visit.outcomes()),
        (Some(B), (STEERED, UNCHANGED))
    );
}

#[test]
fn a_backend_that_did_not_take_a_session_is_named() {
    let visit = site(json!({})).visit(&session(0), &FakeResponse::by("10.0.0.3:8080"), at(400));
    assert_eq!((visit.steering, visit.outcomes()), (TO_B, (REBALANCED, REISSUED)));
    let Some(SessionDeparture::Astray(left, _, named, _)) = visit.left else {
        panic!("{:?}", visit.left);
    };
    assert_eq!((left.host.to_string().as_str(), named.to_string().as_str()), (A, B));
}

#[test]
fn a_session_that_stays_on_its_backend_is_the_same_one() {
    let site = site(json!({}));
    let visit = site.visit(&session(0), &FakeResponse::by(A), at(400));
    assert_eq!(visit.outcomes(), (REBALANCED, RENEWED));
    assert_eq!(visit.seen.unwrap().session, SessionIdentity::Token([7; 4]));
}

#[test]
fn nobody_who_was_there_within_the_time_begins_anew() {
    let site = site(json!({}));
    // A token lags by a minute at most.
    for (idle, outcome) in [
        (0, STEERED),
        (60, STEERED),
        (300, STEERED),
        (359, STEERED),
        (360, REBALANCED),
    ] {
        let request = session(0);
        let visit = site.visit(&request, &FakeResponse::by(A), at(idle));
        assert_eq!(visit.request, outcome, "{idle} s");
        assert_eq!(
            request.questions().contains(&"may_leave".to_owned()),
            outcome == REBALANCED
        );
    }
    // Used every minute or so, which its token says in time.
    let client = site.client();
    client.visit(A, at(0));
    for used in (0..1000).step_by(59) {
        client.visit(A, at(used));
        let lag = at(used).since(client.claims().last_seen).as_secs();
        assert!(lag <= 60, "{lag}");
    }
}

#[test]
fn a_short_idle_timeout_lags_by_its_tenth() {
    let site = site(json!({ "idleTimeout": "10m", "rebalance": "9m" }));
    for (idle, outcome) in [(599, STEERED), (600, REBALANCED), (660, REBALANCED)] {
        assert_eq!(
            site.visit(&session(0), &FakeResponse::by(A), at(idle)).request,
            outcome,
            "{idle}"
        );
    }
}

#[test]
fn tokens_with_an_absolute_timeout_alone_tell_the_last_use() {
    let site = site(json!({ "idleTimeout": null, "absoluteTimeout": "1h" }));
    let client = site.client();
    client.visit(A, at(0));
    let visit = client.visit(A, at(61));
    assert_eq!(visit.outcomes(), (STEERED, RENEWED));
    assert_eq!(client.claims().last_seen, at(61));
    assert_eq!(
        client
            .visit_by(FakeRequest::new().may_leave(budget(1)), &FakeResponse::by(A), at(420))
            .request,
        STEERED
    );
    assert_eq!(client.visit(A, at(3599)).request, STEERED);
    assert_ne!(client.visit(A, at(3600)).request, STEERED);
}

#[test]
fn without_a_budget_every_session_stays() {
    let site = site(json!({}));
    let request = session(0).may_leave(budget(0));
    let visit = site.visit(&request, &FakeResponse::by(A), at(400));
    assert_eq!(
        (visit.host().as_deref(), visit.outcomes()),
        (Some(A), (STEERED, RENEWED))
    );
    assert_eq!(request.questions(), ["route_session", "cookie", ":method", "may_leave"]);
}

#[test]
fn a_strict_session_begins_anew_too() {
    let site = site(json!({ "strict": true, "strictStatus": 421 }));
    let visit = site.visit(&session(0), &FakeResponse::by(B).surely_as_asked(), at(400));
    assert_eq!((visit.steering, visit.outcomes()), (TO_B, (REBALANCED, REISSUED)));
    let unavailable = FakeResponse::local(503, "no_healthy_upstream", A);
    let visit = site.visit(&session(0), &unavailable, at(400));
    assert_eq!((visit.status, visit.response, visit.seen), (None, UNCHANGED, None));
}

#[test]
fn sessions_begin_anew_with_the_methods_that_begin_them() {
    let site = site(json!({ "begin": {"methods": ["GET"]} }));
    for (method, outcome) in [("POST", STEERED), ("GET", REBALANCED)] {
        let request = session(0).header(":method", method);
        assert_eq!(site.visit(&request, &FakeResponse::by(A), at(400)).request, outcome);
    }
}

/// The application does not know yet that it has to begin another.
#[test]
fn what_sets_the_first_token_is_not_asked_again() {
    let site = site(json!({ "begin": {"cookie": "SID"} }));
    let visit = site.visit(&session(0), &FakeResponse::by(B), at(400));
    assert_eq!(visit.outcomes(), (REBALANCED, REISSUED));
}

#[test]
fn preflights_and_sessions_that_move_stay() {
    let site = site(json!({ "move": {"header": "x-move"} }));
    let preflight = session(0)
        .header(":method", "OPTIONS")
        .header("access-control-request-method", "PUT");
    assert_eq!(site.visit(&preflight, &FakeResponse::by(A), at(400)).request, STEERED);
    let client = site.client();
    client.visit_by(FakeRequest::new(), &FakeResponse::by(A).header("x-move", B), at(0));
    let visit = client.visit_by(FakeRequest::new().may_leave(budget(1)), &FakeResponse::by(B), at(400));
    assert_eq!((visit.host().as_deref(), visit.request), (Some(B), STEERED));
}

#[test]
fn a_split_session_stays_at_its_destination() {
    let site = site(json!({}));
    let of_split = || session(0).session(format!("@split/{SESSION}")).destinations(&[CLUSTER]);
    let visit = site.visit(&of_split(), &FakeResponse::by(B).surely_as_asked(), at(400));
    assert_eq!((visit.steering, visit.outcomes()), (TO_B, (REBALANCED, REISSUED)));
    // The proxy tells the destination only with the response.
    let visit = site.visit(&of_split().rerouted_later(), &FakeResponse::by(A), at(400));
    assert_eq!((visit.host().as_deref(), visit.request), (Some(A), STEERED));
}

#[test]
fn nobody_begins_anew_where_nobody_counts() {
    let site = site_that(json!({}), json!({}));
    let request = session(0);
    assert_eq!(site.visit(&request, &FakeResponse::by(A), at(400)).request, STEERED);
    assert_eq!(request.questions(), ["route_session", "cookie"]);
}

#[test]
fn without_the_field_nothing_more_is_asked() {
    let site = site(json!({ "rebalance": null }));
    let request = session(0);
    let visit = site.visit(&request, &FakeResponse::by(A).surely_as_asked(), at(170));
    assert_eq!(visit.outcomes(), (STEERED, UNCHANGED));
    assert_eq!(site.visit(&session(0), &FakeResponse::by(A), at(1700)).request, STEERED);
    assert_eq!(request.questions(), ["route_session", "cookie"]);
}
