#![allow(clippy::unwrap_used, reason = "a failed test")]

use std::net::IpAddr;

use serde_json::json;

use super::*;
use crate::backend::Backend;
use crate::census::{ObservedSession, SessionDeparture, SessionIdentity};
use crate::keyring::KeyId;
use crate::plan::{KeyChange, NameConflict, RefusedMove};
use crate::time::Timestamp;
use crate::token::{DestinationId, TokenRefusal};
use crate::{DefinedCounters, Filter};

/// Records what is done, up to an action that fails.
struct Proxy {
    done: Vec<String>,
    fails_at: &'static str,
    census: Census,
}

impl Proxy {
    fn new() -> Self {
        Self {
            done: Vec::new(),
            fails_at: "nothing",
            census: Census::new([0; 16], 10),
        }
    }

    fn does(&mut self, what: String) -> Result<(), ViewError> {
        let failed = what.starts_with(self.fails_at);
        self.done.push(what);
        if failed {
            return Err(ViewError {
                what: self.fails_at,
                status: 6,
            });
        }
        Ok(())
    }
}

impl Actions for Proxy {
    type Counter = String;

    fn remove_header(&mut self, name: &str) -> Result<(), ViewError> {
        self.does(format!("remove {name}"))
    }
    fn set_header(&mut self, name: &str, value: &[u8]) -> Result<(), ViewError> {
        self.does(format!("set {name}: {}", value.escape_ascii()))
    }
    fn add_header(&mut self, name: &str, value: &[u8]) -> Result<(), ViewError> {
        self.does(format!("add {name}: {}", value.escape_ascii()))
    }
    fn keep_room(&mut self, room: Vec<u8>) {
        self.done.push(format!("keep {} bytes", room.len()));
    }
    fn hash(&mut self, address: &str) -> Result<(), ViewError> {
        self.does(format!("hash {address}"))
    }
    fn steer(&mut self, steering: Steering) -> Result<(), ViewError> {
        self.does(format!("steer to {}", steering.host))
    }
    fn count(&mut self, counter: Option<&String>) {
        self.done.extend(counter.map(|name| format!("count {name}")));
    }
    fn record(&mut self, tell: impl FnOnce(&Census)) {
        tell(&self.census);
        self.done.push("tell".to_owned());
    }
    fn warn(&mut self, line: &str) {
        self.done.push(format!("warn: {line}"));
    }
    fn warn_once(&mut self, line: String) {
        self.done.push(format!("warn once: {line}"));
    }
    fn log_outcome(&mut self, request: Option<RequestOutcome>, response: ResponseOutcome) -> Result<(), ViewError> {
        self.does(format!("note {request:?}, {response:?}"))
    }
}

/// Each counter is its name.
fn counters() -> Counters<String> {
    let config = json!({
        "keys": [
            {"id": 1, "inline": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="},
            {"id": 2, "state": "revoked"},
        ],
        "policies": {"web": {"source": {"entries": 10, "timeout": "1h"}, "move": {"header": "x-move"}}},
    });
    let (filter, _) = Filter::from_json(config.to_string().as_bytes(), &|_| None).unwrap();
    Counters::define(&filter, &mut DefinedCounters::default(), |name| {
        Ok::<_, ()>(name.to_owned())
    })
    .unwrap()
}

fn request_plan(strict: bool) -> RequestPlan<'static> {
    RequestPlan {
        edit: Some(HeaderEdit::Set("cookie", b"a=1".to_vec())),
        further_edits: vec![
            HeaderEdit::Remove("x-session"),
            HeaderEdit::Add("x-more", b"b".to_vec()),
        ],
        steering: Some(Steering {
            host: SocketAddr::from(([10, 0, 0, 1], 80)),
            strict,
        }),
        outcome: Some(RequestOutcome::Steered),
        hash: Some(IpAddr::from([192, 0, 2, 0])),
    }
}

#[test]
fn all_of_a_request_plan_is_carried_out() {
    let mut proxy = Proxy::new();
    request_plan(true).apply(&mut proxy, &counters(), 0).unwrap();
    assert_eq!(
        proxy.done,
        [
            "set cookie: a=1",
            "keep 3 bytes",
            "remove x-session",
            "add x-more: b",
            "hash 192.0.2.0:0",
            "set x-envoy-max-retries: 0",
            "steer to 10.0.0.1:80",
            "count limpet.web.steered",
            "note Some(Steered), Unchanged",
        ]
    );
}

#[test]
fn a_request_that_may_fail_over_is_retried_and_what_follows_a_failed_action_is_not_done() {
    let mut proxy = Proxy {
        fails_at: "steer",
        ..Proxy::new()
    };
    let error = request_plan(false).apply(&mut proxy, &counters(), 0).unwrap_err();
    assert_eq!((error.what, error.status), ("steer", 6));
    assert!(!proxy.done.iter().any(|done| done.contains("retries")));
    assert_eq!(proxy.done.last().map(String::as_str), Some("steer to 10.0.0.1:80"));
}

#[test]
fn all_of_a_response_plan_is_carried_out() {
    let backend = |last: u8| Backend {
        destination: DestinationId([1; 4]),
        host: SocketAddr::from(([10, 0, 0, last], 80)),
        live_for: 100,
    };
    let at = Timestamp::from_unix_seconds(1_763_718_000);
    let plan = ResponsePlan {
        request: Some(RequestOutcome::Refused(TokenRefusal::RevokedKey)),
        status: Some(421),
        edits: vec![HeaderEdit::Set("x-session", b"token".to_vec())],
        outcome: ResponseOutcome::Issued,
        key_change: Some(KeyChange {
            from: Some(KeyId(2)),
            to: KeyId(1),
        }),
        name_conflict: Some(NameConflict {
            line: Some("the name".to_owned()),
        }),
        evicted: true,
        refused_move: Some(RefusedMove {
            line: Some("no host".to_owned()),
        }),
        observed: Some(ObservedSession {
            backend: backend(1),
            session: SessionIdentity::Token([7; 4]),
            began: at,
            at,
        }),
        departed: Some(SessionDeparture::Backend(backend(2))),
    };
    let mut proxy = Proxy::new();
    plan.apply(&mut proxy, &counters(), 0).unwrap();
    assert_eq!(
        proxy.done,
        [
            "set :status: 421",
            "set x-session: token",
            "keep 5 bytes",
            "count limpet.web.refused.revoked_key",
            "count limpet.web.issued",
            "count limpet.web.evicted",
            "count limpet.web.refused_moves",
            "warn: no host",
            "tell",
            "count limpet.keys.1.given",
            "count limpet.keys.2.ended",
            "count limpet.web.name_conflicts",
            "warn once: the name",
            "note Some(Refused(RevokedKey)), Issued",
        ]
    );
    let report = proxy.census.report(at).unwrap();
    assert_eq!(report.backends.len(), 2, "one seen, and one left");
}

#[test]
fn what_a_plan_leaves_as_it_is_costs_nothing() {
    let mut proxy = Proxy::new();
    ResponsePlan::NO_CHANGE.apply(&mut proxy, &counters(), 0).unwrap();
    assert_eq!(proxy.done, ["note None, Unchanged"]);
}
