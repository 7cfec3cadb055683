//! When a client gets a token, and its content.

use limpet_core::token::{DestinationId, TokenRefusal};
use serde_json::json;

use crate::world::*;

fn site() -> Site {
    Site::new(cookie_policy(json!({ "idleTimeout": "10s" })))
}

#[test]
fn a_client_without_a_token_is_load_balanced_and_gets_one() {
    let site = site();
    let client = site.client();
    let first = client.visit(A, at(0));
    assert_eq!(first.outcomes(), (NO_TOKEN, ISSUED));
    assert_eq!(first.steering, None);
    assert_eq!(first.request_edit, None, "there is nothing to remove");
    assert_eq!(client.claims(), claims(A, at(0), at(0)));
}

#[test]
fn a_client_with_a_token_is_steered_and_gets_no_other() {
    let site = site();
    let client = site.client();
    client.visit(A, at(0));
    for _ in 0..10 {
        let next = client.visit(A, at(1));
        assert_eq!(next.outcomes(), (STEERED, UNCHANGED));
        assert_eq!(next.host().as_deref(), Some(A));
        assert!(next.edits.is_empty());
    }
}

#[test]
fn ipv6_backends_get_tokens() {
    let site = site();
    let client = site.client();
    client.visit("[2001:db8::7]:443", at(0));
    assert_eq!(
        client.visit("[2001:db8::7]:443", at(0)).host().as_deref(),
        Some("[2001:db8::7]:443")
    );
}

#[test]
fn the_token_names_the_host_and_the_cluster_that_answered() {
    let site = site();
    let client = site.client();
    client.visit_by(FakeRequest::new(), &FakeResponse::by(B).cluster("canary"), at(3));
    assert_eq!(client.claims().host, B.parse().unwrap());
    assert_eq!(client.claims().destination, DestinationId::of_cluster(b"canary"));
}

#[test]
fn a_token_is_issued_at_the_time_of_the_response() {
    let site = site();
    let visit = site.visit_lasting(&FakeRequest::new(), &FakeResponse::by(A), at(0), at(7));
    let opened =
        realm(1, "cart", limpet_core::token::CarrierMode::Cookie, COOKIE).open(visit.token().unwrap().as_bytes());
    assert_eq!(opened.unwrap().claims, claims(A, at(7), at(7)));
}

#[test]
fn a_session_starts_anew_on_another_host() {
    let site = site();
    let client = site.client();
    client.visit(A, at(0));
    let moved = client.visit(B, at(5));
    assert_eq!(moved.outcomes(), (STEERED, REISSUED));
    assert_eq!(client.claims(), claims(B, at(5), at(5)));
    assert_eq!(client.visit(B, at(5)).outcomes(), (STEERED, UNCHANGED));
}

#[test]
fn another_port_is_another_host() {
    let site = site();
    let client = site.client();
    client.visit("10.0.0.1:80", at(0));
    assert_eq!(client.visit("10.0.0.1:81", at(0)).response, REISSUED);
}

#[test]
fn a_move_that_is_due_for_renewal_starts_a_new_session() {
    let site = site();
    let client = site.client();
    client.visit(A, at(0));
    assert_eq!(client.visit(B, at(5)).response, REISSUED);
    assert_eq!(client.claims().issued_at, at(5));
}

#[test]
fn a_false_alarm_about_another_host_changes_nothing() {
    let site = site();
    let request = bringing(&claims(A, at(0), at(0)));
    let visit = site.visit(&request, &FakeResponse::by(A), at(1));
    assert_eq!(visit.outcomes(), (STEERED, UNCHANGED));
    assert!(visit.edits.is_empty());
}

#[test]
fn a_refused_token_is_replaced() {
    let site = site();
    let mut token = cookie_token("cart", &claims(A, at(0), at(0)));
    token.replace_range(20..21, if &token[20..21] == "A" { "B" } else { "A" });
    let visit = site.visit(
        &FakeRequest::new().cookie(&format!("{COOKIE}={token}")),
        &FakeResponse::by(B),
        at(0),
    );
    assert_eq!(visit.outcomes(), (refused(TokenRefusal::BadSignature), ISSUED));
    assert_eq!(visit.steering, None);
}

#[test]
fn nothing_is_issued_on_replies_of_the_proxy() {
    for (status, details) in [
        (404, "route_not_found"),
        (200, "direct_response"),
        (503, "no_healthy_upstream"),
        (503, "upstream_reset_before_response_started{connection_failure}"),
        (504, "response_timeout"),
        (503, "cluster_not_found"),
        (200, "via_upstream2"),
        (200, ""),
    ] {
        let site = site();
        let client = site.client();
        let visit = client.visit_by(FakeRequest::new(), &FakeResponse::local(status, details, A), at(0));
        assert_eq!(visit.outcomes(), (NO_TOKEN, UNCHANGED), "{details}");
        assert!(visit.edits.is_empty() && visit.status.is_none(), "{details}");
        client.visit(A, at(0));
        let visit = client.visit_by(FakeRequest::new(), &FakeResponse::local(status, details, B), at(5));
        assert_eq!(
            (visit.outcomes(), visit.status),
            ((STEERED, UNCHANGED), None),
            "{details}"
        );
        assert!(visit.edits.is_empty(), "{details}");
    }
}

#[test]
fn nothing_is_issued_without_response_code_details() {
    let visit = site().visit(&FakeRequest::new(), &FakeResponse::by(A).without_details(), at(0));
    assert_eq!(visit.outcomes(), (NO_TOKEN, UNCHANGED));
}

#[test]
fn a_token_is_issued_with_every_status_of_a_backend() {
    for status in [200, 204, 304, 404, 500, 503] {
        assert_eq!(
            site()
                .visit(&FakeRequest::new(), &FakeResponse::by(A).status(status), at(0))
                .response,
            ISSUED,
            "{status}"
        );
    }
}

#[test]
fn no_token_can_name_a_backend_without_an_ip_address() {
    let site = site();
    let visit = site.visit(&FakeRequest::new(), &FakeResponse::by_a_pipe(), at(0));
    assert_eq!(visit.outcomes(), (NO_TOKEN, UNADDRESSABLE));
    assert!(visit.edits.is_empty());
    let moved = site.visit(&bringing(&claims(A, at(0), at(0))), &FakeResponse::by_a_pipe(), at(0));
    assert_eq!(moved.outcomes(), (STEERED, UNADDRESSABLE));
    assert!(moved.edits.is_empty());
}

#[test]
fn no_token_can_name_an_address_with_a_zone() {
    let visit = site().visit(&FakeRequest::new(), &FakeResponse::by("[fe80::1%2]:80"), at(0));
    assert_eq!(visit.outcomes(), (NO_TOKEN, UNADDRESSABLE));
    assert!(visit.edits.is_empty());
}

#[test]
fn two_tokens_issued_at_the_same_time_differ() {
    let response = FakeResponse::by(A);
    let [one, two] = [(); 2].map(|()| site().visit(&FakeRequest::new(), &response, at(0)).token().unwrap());
    assert_ne!(one, two);
}

#[test]
fn a_proxy_that_does_not_answer_is_an_error() {
    let site = site();
    let mut session = site.session(&FakeRequest::new());
    assert!(
        session
            .on_request(&mut FakeRequest::new().broken("cookie"), at(0))
            .is_err()
    );
    session.on_request(&mut FakeRequest::new(), at(0)).unwrap();
    for what in [
        "code_details",
        "upstream_address",
        "cluster_name",
        "nonce",
        ":scheme",
        "cache-control",
        "cdn-cache-control",
    ] {
        assert!(
            session
                .on_response(&FakeResponse::by(A).broken(what), || Ok(at(0)))
                .is_err(),
            "{what}"
        );
    }
    let no_time = || {
        Err(limpet_core::view::ViewError {
            what: "time",
            status: 6,
        })
    };
    assert!(session.on_response(&FakeResponse::by(A), no_time).is_err());
}
