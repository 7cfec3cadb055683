//! CORS preflights: browsers send them without cookies and ignore the cookies of their responses.

use serde_json::json;

use crate::world::*;

fn options() -> FakeRequest {
    FakeRequest::new().header(":method", "OPTIONS")
}

fn preflight() -> FakeRequest {
    options().header("access-control-request-method", "PUT")
}

#[test]
fn a_preflight_gets_no_token() {
    for policy in [cookie_policy(json!({})), header_policy(json!({}))] {
        let site = Site::new(policy);
        let visit = site.visit(&preflight(), &FakeResponse::by(A), at(0));
        assert_eq!((visit.outcomes(), visit.edits), ((NO_TOKEN, UNCHANGED), vec![]));
        assert_eq!(site.visit(&options(), &FakeResponse::by(A), at(0)).response, ISSUED);
        let get = FakeRequest::new()
            .header(":method", "GET")
            .header("access-control-request-method", "PUT");
        assert_eq!(site.visit(&get, &FakeResponse::by(A), at(0)).response, ISSUED);
    }
}

#[test]
fn a_preflight_with_a_session_continues_it() {
    let site = Site::new(cookie_policy(json!({})));
    let token = cookie_token("cart", &claims(A, at(0), at(0)));
    let visit = site.visit(
        &preflight().cookie(&format!("{COOKIE}={token}")),
        &FakeResponse::by(A),
        at(1),
    );
    assert_eq!(visit.outcomes(), (STEERED, UNCHANGED));
}
