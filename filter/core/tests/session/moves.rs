//! Sessions that their application moves to another backend.

use limpet_core::token::{Claims, DestinationId, TokenRefusal};
use serde_json::{Value, json};

use crate::world::*;

const MOVE: &str = "x-move";
const C: &str = "10.0.0.3:8080";

fn policy(fields: Value) -> Value {
    with(cookie_policy(json!({ "move": { "header": "X-Move" } })), fields)
}

fn site(fields: Value) -> Site {
    Site::new(policy(fields))
}

fn naming(host: &str, named: &str) -> FakeResponse {
    FakeResponse::by(host).surely_as_asked().header(MOVE, named)
}

fn removed() -> Edit {
    Edit::Remove(MOVE.into())
}

fn moving(host: &str) -> Claims {
    Claims::moving(
        host.parse().unwrap(),
        DestinationId::of_cluster(CLUSTER.as_bytes()),
        at(0),
    )
}

#[test]
fn the_next_token_names_what_the_application_names() {
    let site = site(json!({ "idleTimeout": "1h" }));
    let client = site.client();
    client.visit(A, at(0));
    let moved = client.visit_by(FakeRequest::new(), &naming(A, B), at(1));
    assert_eq!(moved.outcomes(), (STEERED, MOVED));
    assert_eq!((moved.edits.last(), moved.refused_move), (Some(&removed()), None));
    let claims = client.claims();
    assert_eq!((claims.host.to_string(), claims.issued_at), (B.into(), at(1)));
    assert!(claims.is_moving());

    let arrived = client.visit_by(FakeRequest::new(), &FakeResponse::by(B).surely_as_asked(), at(2));
    assert_eq!(
        (arrived.host().as_deref(), arrived.outcomes()),
        (Some(B), (STEERED, RENEWED))
    );
    let claims = client.claims();
    assert_eq!((claims.issued_at, claims.last_seen), (at(1), at(2)));
    assert!(!claims.is_moving());
    let later = client.visit_by(FakeRequest::new(), &FakeResponse::by(B).surely_as_asked(), at(3));
    assert_eq!((later.outcomes(), later.edits), ((STEERED, UNCHANGED), vec![]));
}

#[test]
fn a_first_response_may_name_another_backend() {
    let site = site(json!({}));
    let client = site.client();
    let visit = client.visit_by(FakeRequest::new(), &naming(A, B), at(0));
    assert_eq!(visit.outcomes(), (NO_TOKEN, MOVED));
    assert_eq!(client.visit(B, at(1)).host().as_deref(), Some(B));
}

#[test]
fn naming_the_backend_that_answers_changes_nothing() {
    let site = site(json!({}));
    let session = || bringing(&claims(A, at(0), at(0)));
    let visit = site.visit(&session(), &naming(A, A), at(1));
    assert_eq!((visit.outcomes(), visit.edits), ((STEERED, UNCHANGED), vec![removed()]));
    assert_eq!(visit.refused_move, None);
    // The client still learns of a backend that it does not have.
    let visit = site.visit(&session(), &FakeResponse::by(B).header(MOVE, B), at(1));
    assert_eq!((visit.outcomes(), visit.refused_move), ((STEERED, REISSUED), None));
}

#[test]
fn what_is_no_address_is_refused_and_the_session_stays() {
    let long = "1".repeat(60 * 1024);
    for (value, found) in [
        ("", "\"\""),
        ("10.0.0.2", "\"10.0.0.2\""),
        ("10.0.0.2:", "\"10.0.0.2:\""),
        ("10.0.0.2:0", "\"10.0.0.2:0\""),
        ("10.0.0.2:65536", "\"10.0.0.2:65536\""),
        ("010.0.0.2:80", "\"010.0.0.2:80\""),
        (" 10.0.0.2:80", "\" 10.0.0.2:80\""),
        ("10.0.0.2:80,10.0.0.3:80", "\"10.0.0.2:80,10.0.0.3:80\""),
        ("0.0.0.0:80", "\"0.0.0.0:80\""),
        ("[::]:80", "\"[::]:80\""),
        ("2001:db8::7:80", "\"2001:db8::7:80\""),
        ("[fe80::1%1]:80", "\"[fe80::1%1]:80\""),
        ("web-0", "\"web-0\""),
        ("example.com:80", "\"example.com:80\""),
        ("http://10.0.0.2:80", "\"http://10.0.0.2:80\""),
        ("10.0.0.2:80\n\x1b[31m\"", "\"10.0.0.2:80\\n\\x1b[31m\\\"\""),
        (&long, &format!("\"{}\" and more", "1".repeat(64))),
    ] {
        let site = site(json!({}));
        let session = || bringing(&claims(A, at(0), at(0)));
        let visit = site.visit(&session(), &naming(A, value), at(1));
        assert_eq!((visit.outcomes(), visit.edits), ((STEERED, UNCHANGED), vec![removed()]));
        let line = format!(
            "policy shop: x-move: expected the address of a backend with its port, as 10.0.0.7:8080 or \
             [2001:db8::7]:8080, found {found}"
        );
        assert_eq!(visit.refused_move, Some(line));
        let again = site.visit(&session(), &naming(A, value), at(1));
        assert_eq!(again.refused_move.as_deref(), Some(""), "the log has one line");
        let first = site.visit(&FakeRequest::new(), &naming(A, value), at(1));
        assert_eq!(
            (first.outcomes(), first.refused_move.is_some()),
            ((NO_TOKEN, ISSUED), true)
        );
    }
}

#[test]
fn ipv6_addresses_are_taken_in_any_spelling() {
    for named in ["[2001:db8::7]:443", "[2001:0DB8:0:0:0:0:0:7]:443"] {
        let site = site(json!({}));
        let client = site.client();
        client.visit_by(FakeRequest::new(), &naming(A, named), at(0));
        assert_eq!(client.claims().host.to_string(), "[2001:db8::7]:443");
    }
}

#[test]
fn several_fields_are_refused() {
    let site = site(json!({}));
    let response = naming(A, B).header(MOVE, B);
    let visit = site.visit(&bringing(&claims(A, at(0), at(0))), &response, at(1));
    assert_eq!((visit.outcomes(), visit.edits), ((STEERED, UNCHANGED), vec![removed()]));
    let line = "policy shop: x-move: expected one field, found 2";
    assert_eq!(visit.refused_move.as_deref(), Some(line));
}

#[test]
fn a_move_to_what_is_no_host_is_refused_when_another_one_answers() {
    let site = site(json!({}));
    let client = site.client();
    client.visit_by(FakeRequest::new(), &naming(A, C), at(0));
    let visit = client.visit(B, at(1));
    assert_eq!(
        (visit.host().as_deref(), visit.outcomes()),
        (Some(C), (STEERED, REISSUED))
    );
    let line = "policy shop: x-move: 10.0.0.3:8080 is no host of the cluster, or not available: 10.0.0.2:8080 answered \
                in its place";
    assert_eq!(visit.refused_move.as_deref(), Some(line));
    let settled = client.visit(B, at(2));
    assert_eq!((settled.outcomes(), settled.refused_move), ((STEERED, UNCHANGED), None));
    // A backend that goes away is no refused move.
    let gone = client.visit(A, at(3));
    assert_eq!((gone.outcomes(), gone.refused_move), ((STEERED, REISSUED), None));
}

#[test]
fn a_failed_request_of_a_moving_session_settles_nothing() {
    let site = site(json!({}));
    let client = site.client();
    client.visit_by(FakeRequest::new(), &naming(A, B), at(0));
    let failed = client.visit_by(
        FakeRequest::new(),
        &FakeResponse::local(503, "upstream_reset", B),
        at(1),
    );
    assert_eq!((failed.outcomes(), failed.refused_move), ((STEERED, UNCHANGED), None));
    assert_eq!(client.visit(B, at(2)).outcomes(), (STEERED, RENEWED));
}

#[test]
fn a_moving_session_may_be_moved_on() {
    let site = site(json!({}));
    let client = site.client();
    client.visit_by(FakeRequest::new(), &naming(A, B), at(0));
    let visit = client.visit_by(FakeRequest::new(), &naming(B, C), at(1));
    assert_eq!((visit.outcomes(), visit.refused_move), ((STEERED, MOVED), None));
    assert_eq!(client.visit(C, at(2)).outcomes(), (STEERED, RENEWED));
}

/// Its backend may not exist.
#[test]
fn a_moving_session_is_never_strict() {
    let strict = |fields: Value| policy(with(json!({ "strict": true, "strictStatus": 421 }), fields));
    let site = Site::new(strict(json!({})));
    let visit = site.visit(&bringing(&moving(B)), &FakeResponse::by(B), at(1));
    assert!(!visit.steering.unwrap().strict);
    assert_eq!(visit.outcomes(), (STEERED, RENEWED));
    let arrived = site.visit(&bringing(&claims(B, at(0), at(0))), &FakeResponse::by(B), at(1));
    assert!(arrived.steering.unwrap().strict);
    // Without any host, the failure is not the policy's doing.
    let none = site.visit(
        &bringing(&moving(B)),
        &FakeResponse::local(503, "no_healthy_upstream", B),
        at(1),
    );
    assert_eq!(none.status, None);
    // Nor is one whose strict policy no longer moves sessions.
    let before = Site::new(cookie_policy(json!({ "strict": true })));
    let visit = before.visit(&bringing(&moving(B)), &FakeResponse::by(A), at(1));
    assert!(!visit.steering.unwrap().strict);
    assert_eq!((visit.outcomes(), visit.refused_move), ((STEERED, REISSUED), None));
}

#[test]
fn a_session_arrives_whatever_the_clock_says() {
    let site = site(json!({}));
    let ahead = Claims::moving(B.parse().unwrap(), moving(B).destination, at(30));
    let visit = site.visit(&bringing(&ahead), &FakeResponse::by(B), at(0));
    let realm = realm(1, "cart", limpet_core::token::CarrierMode::Cookie, COOKIE);
    let claims = realm.open(visit.token().unwrap().as_bytes()).unwrap().claims;
    assert_eq!((claims.issued_at, claims.last_seen), (at(30), at(30)));
}

#[test]
fn replies_without_a_session_move_nothing_and_lose_the_header() {
    let site = site(json!({}));
    let preflight = FakeRequest::new()
        .header(":method", "OPTIONS")
        .header("access-control-request-method", "PUT");
    for (request, response) in [
        (preflight, naming(A, B)),
        (
            FakeRequest::new(),
            FakeResponse::local(503, "upstream_reset", A).header(MOVE, B),
        ),
        (
            FakeRequest::new(),
            FakeResponse::by(A).without_details().header(MOVE, B),
        ),
        (
            bringing(&claims(A, at(0), at(0))),
            FakeResponse::local(503, "filter", A).header(MOVE, B),
        ),
    ] {
        let visit = site.visit(&request, &response, at(0));
        assert_eq!((visit.response, visit.edits), (UNCHANGED, vec![removed()]));
        assert!(visit.refused_move.is_some());
    }
}

#[test]
fn an_address_that_is_fenced_gets_no_session_from_before() {
    let fences = |seconds: u64| json!({ "fences": [{ "address": B, "notBefore": at(seconds).unix_seconds() }] });
    let site = |seconds| Site::configured(policy(json!({})), fences(seconds));
    // A token of now would be from before the fence, which is ahead of the clock.
    let visit = site(10).visit(&bringing(&claims(A, at(0), at(0))), &naming(A, B), at(9));
    assert_eq!((visit.outcomes(), visit.edits), ((STEERED, UNCHANGED), vec![removed()]));
    let line = "policy shop: x-move: expected an address without a fence ahead of the clock, found 10.0.0.2:8080";
    assert_eq!(visit.refused_move.as_deref(), Some(line));
    // The address changes its owner while the session is moving.
    let moved = Site::new(policy(json!({})));
    let client = moved.client();
    client.visit_by(FakeRequest::new(), &naming(A, B), at(9));
    let late = site(10).visit(&bringing(&client.claims()), &FakeResponse::by(A), at(11));
    assert_eq!(
        (late.outcomes(), late.steering),
        ((refused(TokenRefusal::Fenced), ISSUED), None)
    );
    let visit = site(10).visit(&bringing(&claims(A, at(0), at(0))), &naming(A, B), at(10));
    assert_eq!(visit.outcomes(), (STEERED, MOVED));
}

#[test]
fn a_session_of_a_split_moves_within_its_cluster() {
    let canary = || {
        FakeRequest::new()
            .session("@split/shop/cart")
            .cluster("canary")
            .destinations(&[CLUSTER, "canary"])
    };
    for late in [false, true] {
        let site = site(json!({ "strict": true }));
        let client = site.client();
        let asking = || if late { canary().rerouted_later() } else { canary() };
        client.visit_by(asking(), &naming(A, B).cluster("canary"), at(0));
        assert_eq!(client.claims().destination, DestinationId::of_cluster(b"canary"));
        let arrived = client.visit_by(asking(), &FakeResponse::by(B).cluster("canary"), at(1));
        assert_eq!(
            (arrived.host().as_deref(), arrived.outcomes()),
            (Some(B), (STEERED, RENEWED))
        );
    }
}

#[test]
fn a_cookie_a_header_and_a_query_move() {
    let tell = json!({ "header": { "name": HEADER } });
    for own in [
        json!({ "header": { "name": HEADER } }),
        json!({ "query": { "name": "s" }, "tell": tell, "also": [{ "header": { "name": HEADER } }] }),
    ] {
        let site = Site::new(with(own, json!({ "move": { "header": MOVE } })));
        let client = site.client();
        client.visit(A, at(0));
        let moved = client.visit_by(FakeRequest::new(), &naming(A, B), at(1));
        assert_eq!(moved.outcomes(), (STEERED, MOVED));
        assert_eq!(client.visit(B, at(2)).outcomes(), (STEERED, RENEWED));
    }
}

#[test]
fn the_entry_of_an_address_moves() {
    for strict in [false, true] {
        let site = Site::new(json!({ "source": {}, "move": { "header": MOVE }, "strict": strict }));
        let client = || FakeRequest::new().client("192.0.2.1:4711");
        site.visit(&client(), &FakeResponse::by(A), at(0));
        let moved = site.visit(&client(), &naming(A, B), at(1));
        assert_eq!((moved.outcomes(), moved.edits), ((STEERED, MOVED), vec![removed()]));
        let arrived = site.visit(&client(), &FakeResponse::by(B).surely_as_asked(), at(2));
        assert_eq!(arrived.steering.map(|steering| steering.strict), Some(false));
        assert_eq!(
            (arrived.host().as_deref(), arrived.outcomes()),
            (Some(B), (STEERED, UNCHANGED))
        );
        let later = site.visit(&client(), &FakeResponse::by(B).surely_as_asked(), at(3));
        assert_eq!(later.steering.map(|steering| steering.strict), Some(strict));

        site.visit(&client(), &naming(B, C), at(4));
        let failed = site.visit(&client(), &FakeResponse::local(503, "upstream_reset", C), at(4));
        assert_eq!((failed.outcomes(), failed.refused_move), ((STEERED, UNCHANGED), None));
        let lost = site.visit(&client(), &FakeResponse::by(A), at(5));
        assert_eq!(
            (lost.host().as_deref(), lost.outcomes()),
            (Some(C), (STEERED, REISSUED))
        );
        assert!(lost.refused_move.is_some());
        let refused = site.visit(&client(), &naming(A, "nowhere"), at(6));
        assert_eq!(
            (refused.outcomes(), refused.edits),
            ((STEERED, UNCHANGED), vec![removed()])
        );
        assert_eq!(
            site.visit(&client(), &FakeResponse::by(A), at(7)).host().as_deref(),
            Some(A)
        );
    }
}

fn hosts() -> Value {
    json!({ "hosts": {
        CLUSTER: { A: "web-0", B: "web-1", "[2001:db8::2]:8080": "web-1" },
        "other": { C: "other-0" },
    } })
}

#[test]
fn a_name_is_that_of_a_host_of_the_cluster() {
    for (named, host) in [("web-1", B), (B, B), ("[2001:db8::2]:8080", "[2001:db8::2]:8080")] {
        let site = Site::configured(policy(json!({})), hosts());
        let client = site.client();
        let moved = client.visit_by(FakeRequest::new(), &naming(A, named), at(0));
        assert_eq!((moved.outcomes(), moved.refused_move), ((NO_TOKEN, MOVED), None));
        assert_eq!(client.claims().host.to_string(), host);
        assert_eq!(client.visit(host, at(1)).outcomes(), (STEERED, RENEWED));
    }
}

#[test]
fn what_is_no_host_of_the_cluster_is_refused_at_once() {
    for named in [C, "other-0", "web-2", "WEB-1", "10.0.0.2:80", "", "10.0.0.2"] {
        let site = Site::configured(policy(json!({})), hosts());
        let session = bringing(&claims(A, at(0), at(0)));
        let visit = site.visit(&session, &naming(A, named), at(1));
        assert_eq!((visit.outcomes(), visit.edits), ((STEERED, UNCHANGED), vec![removed()]));
        let line = format!(
            "policy shop: x-move: expected a host of the cluster backends, or the name of its pod, found \"{named}\""
        );
        assert_eq!(visit.refused_move, Some(line));
    }
    let site = Site::configured(policy(json!({})), hosts());
    let moved = site.visit(&FakeRequest::new(), &naming(A, "other-0").cluster("other"), at(0));
    assert_eq!(moved.outcomes(), (NO_TOKEN, MOVED));
    // In an unlisted cluster, addresses count as given, and names mean nothing.
    let unknown = |named| {
        site.visit(&FakeRequest::new(), &naming(A, named).cluster("new"), at(0))
            .response
    };
    assert_eq!((unknown(C), unknown("web-1")), (MOVED, ISSUED));
}

#[test]
fn a_response_that_begins_or_keeps_no_session_moves_none() {
    let fields = json!({ "begin": { "cookie": "user" }, "end": { "cookie": "user" } });
    let source = json!({ "source": {}, "move": { "header": MOVE } });
    for own in [policy(fields.clone()), with(source, fields)] {
        let site = Site::new(own);
        let client = site.client();
        let visit = |response| client.visit_by(FakeRequest::new().client("192.0.2.1:4711"), &response, at(1));
        let before = visit(naming(A, B));
        assert_eq!((before.response, before.edits), (UNCHANGED, vec![removed()]));
        let line = "policy shop: x-move: the response has no session that could move";
        assert_eq!(before.refused_move.as_deref(), Some(line));
        assert_eq!(visit(naming(A, B).header("set-cookie", "user=x")).response, MOVED);
        let ended = visit(naming(B, A).header("set-cookie", "user=; Max-Age=0"));
        assert_eq!(ended.response, limpet_core::outcome::ResponseOutcome::Ended);
        assert_eq!(
            (ended.edits.last(), ended.refused_move.is_some()),
            (Some(&removed()), true)
        );
    }
}

#[test]
fn a_destination_without_tokens_moves_no_session() {
    let site = site(json!({}));
    let request = FakeRequest::new().session("@split/shop/cart").cluster("canary");
    let response = || naming(A, B).cluster("canary");
    assert_eq!(site.visit(&request, &response(), at(0)).response, MOVED);
    let visit = site.visit(&request, &response().cluster_session("@none"), at(0));
    assert_eq!((visit.response, visit.edits), (UNCHANGED, vec![removed()]));
    assert!(visit.refused_move.is_some());
}
