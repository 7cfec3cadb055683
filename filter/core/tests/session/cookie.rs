//! Tokens in a cookie: what reaches the backend, and the attributes of Set-Cookie.

use serde_json::{Value, json};

use crate::world::*;

fn site(cookie: Value) -> Site {
    Site::new(cookie_policy(json!({ "cookie": cookie })))
}

fn token() -> String {
    cookie_token("cart", &claims(A, at(0), at(0)))
}

fn edit(site: &Site, field: &str) -> Option<Edit> {
    site.visit(&FakeRequest::new().cookie(field), &FakeResponse::by(A), at(0))
        .request_edit
}

#[test]
fn the_backend_does_not_see_it() {
    let site = site(json!({}));
    let ours = format!("{COOKIE}={}", token());
    assert_eq!(edit(&site, &ours), Some(Edit::Remove("cookie".into())));
    assert_eq!(
        edit(&site, &format!("a=1; {ours}; b=2")),
        Some(Edit::Set("cookie".into(), "a=1; b=2".into()))
    );
    assert_eq!(
        edit(&site, "session=forged; a=1"),
        Some(Edit::Set("cookie".into(), "a=1".into()))
    );
}

#[test]
fn a_cookie_field_without_the_session_is_left_alone() {
    let site = site(json!({}));
    for field in [
        "",
        "a=1; b=\"x y\"",
        "Session=1; sessions=2; xsession=3",
        "session",
        ";;a= ;",
        "a=session=1",
    ] {
        assert_eq!(edit(&site, field), None, "{field:?}");
    }
}

#[test]
fn the_backend_sees_it_where_the_policy_says_so() {
    let site = site(json!({ "forward": true }));
    let request = FakeRequest::new().cookie(&format!("a=1; {COOKIE}={}", token()));
    let visit = site.visit(&request, &FakeResponse::by(A), at(0));
    assert_eq!((visit.request, visit.request_edit), (STEERED, None));
}

#[test]
fn the_cookie_has_the_attributes_of_the_policy() {
    let attributes = |cookie: Value| {
        let visit = site(cookie).visit(&FakeRequest::new(), &FakeResponse::by(A), at(0));
        let mut attributes: Vec<String> = visit.attributes().into_iter().map(str::to_owned).collect();
        attributes.sort();
        attributes
    };
    assert_eq!(attributes(json!({})), ["HttpOnly", "Path=/", "SameSite=Strict"]);
    assert_eq!(
        attributes(json!({ "sameSite": "Lax", "httpOnly": false })),
        ["Path=/", "SameSite=Lax"]
    );
    assert_eq!(
        attributes(json!({ "path": "/shop", "domain": "example.com", "secure": "always" })),
        [
            "Domain=example.com",
            "HttpOnly",
            "Path=/shop",
            "SameSite=Strict",
            "Secure"
        ]
    );
    assert_eq!(
        attributes(json!({ "sameSite": "None", "secure": "always", "partitioned": true })),
        ["HttpOnly", "Partitioned", "Path=/", "SameSite=None", "Secure"]
    );
}

fn is_secure(visit: &Visit) -> bool {
    visit.attributes().contains(&"Secure")
}

#[test]
fn the_cookie_is_secure_if_the_request_is() {
    let site = site(json!({}));
    assert!(is_secure(&site.visit(
        &FakeRequest::new().https(),
        &FakeResponse::by(A),
        at(0)
    )));
    assert!(is_secure(&site.visit(
        &FakeRequest::new().header(":scheme", "HTTPS"),
        &FakeResponse::by(A),
        at(0)
    )));
    assert!(!is_secure(&site.visit(
        &FakeRequest::new(),
        &FakeResponse::by(A),
        at(0)
    )));
}

#[test]
fn the_policy_can_make_the_cookie_secure_always_or_never() {
    for (secure, expected) in [("always", true), ("never", false)] {
        let site = site(json!({ "secure": secure }));
        for request in [FakeRequest::new(), FakeRequest::new().https()] {
            assert_eq!(
                is_secure(&site.visit(&request, &FakeResponse::by(A), at(0))),
                expected,
                "{secure}"
            );
            assert!(
                !request.questions().contains(&":scheme".to_owned()),
                "{secure}: the scheme does not matter"
            );
        }
    }
}

#[test]
fn a_moved_cookie_is_as_secure_as_the_request() {
    for https in [true, false] {
        let site = site(json!({}));
        let client = site.client();
        client.visit(A, at(0));
        let request = if https {
            FakeRequest::new().https()
        } else {
            FakeRequest::new()
        };
        let moved = client.visit_by(request, &FakeResponse::by(B), at(0));
        assert_eq!((moved.response, is_secure(&moved)), (REISSUED, https));
    }
}

#[test]
fn a_renewed_cookie_is_as_secure_as_the_request() {
    let site = Site::new(cookie_policy(json!({ "idleTimeout": "100s" })));
    let client = site.client();
    client.visit_by(FakeRequest::new().https(), &FakeResponse::by(A), at(0));
    let renewed = client.visit_by(FakeRequest::new().https(), &FakeResponse::by(A), at(50));
    assert_eq!((renewed.response, is_secure(&renewed)), (RENEWED, true));
    let first = site.client();
    first.visit(A, at(0));
    let renewed = first.visit_by(FakeRequest::new().https(), &FakeResponse::by(A), at(50));
    assert_eq!(
        (renewed.response, is_secure(&renewed)),
        (RENEWED, true),
        "never less secure than the request"
    );
}

#[test]
fn a_session_cookie_has_no_lifetime_of_its_own() {
    let site = Site::new(cookie_policy(json!({ "absoluteTimeout": "1h" })));
    let visit = site.visit(&FakeRequest::new(), &FakeResponse::by(A), at(0));
    assert!(
        !visit
            .attributes()
            .iter()
            .any(|a| a.starts_with("Max-Age") || a.starts_with("Expires"))
    );
}

#[test]
fn a_permanent_cookie_lasts_until_the_absolute_timeout() {
    let site = Site::new(cookie_policy(json!({
        "cookie": { "lifetimeType": "Permanent" }, "absoluteTimeout": "1000s", "idleTimeout": "100s",
    })));
    let client = site.client();
    let lifetime = |visit: &Visit| {
        let attributes = visit.attributes();
        let value = |name: &str| {
            attributes
                .iter()
                .find_map(|a| a.strip_prefix(name))
                .expect(name)
                .to_owned()
        };
        (value("Max-Age="), value("Expires="))
    };
    // The first request is at 1763718000, which is 2025-11-21 09:40:00 UTC.
    let end = "Fri, 21 Nov 2025 09:56:40 GMT".to_owned();
    assert_eq!(lifetime(&client.visit(A, at(0))), ("1000".to_owned(), end.clone()));
    assert_eq!(
        lifetime(&client.visit(A, at(50))),
        ("950".to_owned(), end),
        "a renewal extends nothing"
    );
    let moved = lifetime(&client.visit(B, at(60)));
    assert_eq!(moved, ("1000".to_owned(), "Fri, 21 Nov 2025 09:57:40 GMT".to_owned()));
}

/// Browsers take `Max-Age=0` for a deletion.
#[test]
fn a_permanent_cookie_does_not_end_before_its_session() {
    for (timeout, later, left, end) in [
        ("500ms", 0, "Max-Age=1", "Expires=Fri, 21 Nov 2025 09:40:01 GMT"),
        ("1s", 0, "Max-Age=1", "Expires=Fri, 21 Nov 2025 09:40:01 GMT"),
        ("1s", 1, "Max-Age=1", "Expires=Fri, 21 Nov 2025 09:40:02 GMT"),
        ("1500ms", 0, "Max-Age=2", "Expires=Fri, 21 Nov 2025 09:40:02 GMT"),
        ("1m1ms", 0, "Max-Age=61", "Expires=Fri, 21 Nov 2025 09:41:01 GMT"),
    ] {
        let site = Site::new(cookie_policy(json!({
            "cookie": { "lifetimeType": "Permanent" }, "absoluteTimeout": timeout,
        })));
        let visit = site.visit(&FakeRequest::new(), &FakeResponse::by(A), at(0).after(ms(later)));
        let attributes = visit.attributes();
        assert!(
            attributes.contains(&left) && attributes.contains(&end),
            "{timeout}: {attributes:?}"
        );
    }
}
