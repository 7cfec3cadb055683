//! Strict policies: requests of a session fail if its backend is not available.

use limpet_core::token::TokenRefusal;
use serde_json::{Value, json};

use crate::world::*;

fn site(fields: Value) -> Site {
    Site::new(cookie_policy(with(json!({ "strict": true }), fields)))
}

fn no_host() -> FakeResponse {
    FakeResponse::local(503, "no_healthy_upstream", A)
}

#[test]
fn steering_is_as_strict_as_the_policy() {
    for strict in [true, false] {
        let site = Site::new(cookie_policy(json!({ "strict": strict })));
        let request = bringing(&claims(A, at(0), at(0)));
        assert_eq!(site.session(&request).is_strict(), strict);
        let steering = site.visit(&request, &FakeResponse::by(A), at(0)).steering.unwrap();
        assert_eq!((steering.host.to_string(), steering.strict), (A.to_owned(), strict));
    }
}

#[test]
fn a_client_without_a_session_is_load_balanced() {
    let visit = site(json!({})).visit(&FakeRequest::new(), &FakeResponse::by(A), at(0));
    assert_eq!((visit.outcomes(), visit.steering), ((NO_TOKEN, ISSUED), None));
}

#[test]
fn a_strict_session_ends_when_its_route_leaves_the_cluster() {
    let request = || bringing(&claims(A, at(0), at(0))).cluster("elsewhere");
    let strict = site(json!({})).visit(&request(), &FakeResponse::by(B).cluster("elsewhere"), at(0));
    assert_eq!(strict.outcomes(), (refused(TokenRefusal::UnknownDestination), ISSUED));
    assert_eq!(strict.steering, None);
    assert_eq!(
        strict.request_edit,
        Some(Edit::Remove("cookie".into())),
        "the token does not reach the backend"
    );
    // Otherwise Envoy falls back to load balancing.
    let soft = Site::new(cookie_policy(json!({}))).visit(&request(), &FakeResponse::by(A), at(0));
    assert_eq!(soft.request, STEERED);
}

#[test]
fn a_dead_session_is_refused_for_its_own_reason() {
    let site = site(json!({ "idleTimeout": "10s" }));
    let request = bringing(&claims(A, at(0), at(0))).cluster("elsewhere");
    assert_eq!(
        site.visit(&request, &FakeResponse::by(B), at(100)).request,
        refused(TokenRefusal::Idle)
    );
}

#[test]
fn the_status_is_that_of_envoy_unless_the_policy_sets_one() {
    let request = || bringing(&claims(A, at(0), at(0)));
    let answer = |site: Site| site.visit(&request(), &no_host(), at(0));
    assert_eq!(answer(site(json!({}))).status, None);
    assert_eq!(answer(site(json!({ "strictStatus": 503 }))).status, None);
    let own = answer(site(json!({ "strictStatus": 421 })));
    assert_eq!((own.status, own.outcomes()), (Some(421), (STEERED, UNCHANGED)));
    assert!(own.edits.is_empty(), "and no token");
    let with_flags = FakeResponse::local(503, "no_healthy_upstream{no_healthy_host}", A);
    assert_eq!(
        site(json!({ "strictStatus": 421 }))
            .visit(&request(), &with_flags, at(0))
            .status,
        Some(421)
    );
}

#[test]
fn only_a_session_without_its_backend_gets_the_strict_status() {
    let site = site(json!({ "strictStatus": 421, "idleTimeout": "10s" }));
    let status = |request: &FakeRequest, response: &FakeResponse, now| site.visit(request, response, now).status;
    let session = || bringing(&claims(A, at(0), at(0)));
    assert_eq!(
        status(&session(), &no_host(), at(5)),
        Some(421),
        "a session that is due for renewal, too"
    );
    assert_eq!(
        status(&session(), &FakeResponse::by(A).status(503), at(0)),
        None,
        "the backend's own 503"
    );
    assert_eq!(
        status(&session(), &FakeResponse::local(504, "response_timeout", A), at(0)),
        None
    );
    assert_eq!(status(&FakeRequest::new(), &no_host(), at(0)), None, "no session");
    assert_eq!(status(&session(), &no_host(), at(100)), None, "a session that is over");
    let soft = Site::new(cookie_policy(json!({ "strictStatus": 421 })));
    assert_eq!(
        soft.visit(&session(), &no_host(), at(0)).status,
        None,
        "a policy that is not strict"
    );
}

#[test]
fn a_strict_session_that_moved_anyway_gets_a_new_token() {
    let visit =
        site(json!({ "strictStatus": 421 })).visit(&bringing(&claims(A, at(0), at(0))), &FakeResponse::by(B), at(0));
    assert_eq!((visit.status, visit.outcomes()), (None, (STEERED, REISSUED)));
}

#[test]
fn a_renewal_keeps_a_strict_session_on_its_cluster() {
    let site = site(json!({ "idleTimeout": "10s" }));
    let client = site.client();
    client.visit(A, at(0));
    assert_eq!(client.visit(A, at(5)).outcomes(), (STEERED, RENEWED));
    assert_eq!(client.visit(A, at(6)).outcomes(), (STEERED, UNCHANGED));
}

#[test]
fn a_proxy_without_an_answer_about_the_cluster_is_an_error() {
    let site = site(json!({}));
    let request = bringing(&claims(A, at(0), at(0))).broken("cluster_name");
    assert!(site.session(&request).on_request(&mut request.clone(), at(0)).is_err());
}
