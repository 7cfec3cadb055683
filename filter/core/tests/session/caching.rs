//! Shared caches must neither store a token nor merge it into a stored response.

use serde_json::{Value, json};

use crate::world::*;

/// A policy of each carrier, and the field in which the application sets its own.
fn carriers() -> [(Value, Option<(&'static str, String)>); 5] {
    let cookie = format!("{COOKIE}=abc");
    [
        (cookie_policy(json!({})), None),
        (header_policy(json!({})), None),
        (
            cookie_policy(json!({ "cookie": { "mode": "prefix" } })),
            Some(("set-cookie", cookie.clone())),
        ),
        (
            cookie_policy(json!({ "cookie": { "mode": "rewrite" } })),
            Some(("set-cookie", cookie)),
        ),
        (
            header_policy(json!({ "header": { "mode": "prefix" } })),
            Some((HEADER, "abc".to_owned())),
        ),
    ]
}

fn becomes(response: &FakeResponse) -> Option<String> {
    let visit = Site::new(cookie_policy(json!({}))).visit(&FakeRequest::new(), response, at(0));
    assert!(visit.token().is_some());
    visit.cache_control().map(str::to_owned)
}

fn saying(field: &str) -> FakeResponse {
    FakeResponse::by(A).header("cache-control", field)
}

/// A cache merges the fields of a 304 into its stored response (RFC 9111 sections 3.2 and 4.3.4), of a 206 into another
/// part (3.4), and of a HEAD's 200 into a GET's (4.3.5). Some store errors and redirects.
#[test]
fn a_response_with_a_token_is_private_whatever_its_status() {
    for (policy, applications) in carriers() {
        for status in [101, 200, 204, 206, 302, 304, 307, 404, 412, 500, 503] {
            for cache_control in [None, Some("public, max-age=60"), Some("max-age=0, must-revalidate")] {
                let site = Site::new(policy.clone());
                let mut response = FakeResponse::by(A).status(status);
                if let Some((name, value)) = &applications {
                    response = response.header(name, value);
                }
                if let Some(field) = cache_control {
                    response = response.header("cache-control", field);
                }
                let visit = site.visit(&FakeRequest::new(), &response, at(0));
                let field = visit.cache_control().unwrap_or_default();
                assert!(
                    field.starts_with("private") && !field.contains("public"),
                    "{status} with {cache_control:?}, {policy}: {field:?}"
                );
            }
        }
    }
}

#[test]
fn what_contradicts_private_is_removed_and_the_rest_stays() {
    let private = |value: &str| Some(value.to_owned());
    assert_eq!(becomes(&saying("public, max-age=60")), private("private, max-age=60"));
    assert_eq!(
        becomes(&saying("S-MaxAge=60, max-age=1")),
        private("private, max-age=1")
    );
    assert_eq!(becomes(&saying("private, s-maxage=60")), private("private"));
    assert_eq!(becomes(&saying("public, no-store")), private("private, no-store"));
    assert_eq!(becomes(&saying("private, max-age=60")), None);
    assert_eq!(becomes(&saying("no-store")), None);
}

/// A cache that knows the status ignores `no-store` beside `must-understand` (RFC 9111 section 5.2.2.3).
#[test]
fn no_store_that_must_be_understood_does_not_suffice() {
    assert_eq!(
        becomes(&saying("must-understand, no-store, max-age=60")).as_deref(),
        Some("private, must-understand, no-store, max-age=60")
    );
}

/// Fields for caches of one kind take precedence over Cache-Control there (RFC 9213 section 2.2).
#[test]
fn no_field_for_other_caches_allows_what_is_forbidden() {
    for name in ["cdn-cache-control", "surrogate-control", "x-accel-expires"] {
        for cache_control in ["public", "private", "no-store"] {
            let response = saying(cache_control).header(name, "max-age=600");
            let visit = Site::new(cookie_policy(json!({}))).visit(&FakeRequest::new(), &response, at(0));
            assert!(
                visit.edits.contains(&Edit::Remove(name.to_owned())),
                "{name} beside {cache_control}"
            );
        }
    }
}

#[test]
fn caching_stays_without_a_token_or_with_keep() {
    let steady = Site::new(cookie_policy(json!({}))).visit(
        &bringing(&claims(A, at(0), at(0))),
        &saying("public").status(304),
        at(0),
    );
    assert!(steady.edits.is_empty());
    let keep = Site::new(cookie_policy(json!({ "cacheControl": "keep" })));
    let response = saying("public").header("cdn-cache-control", "max-age=600");
    let visit = keep.visit(&FakeRequest::new(), &response, at(0));
    assert!(visit.set_cookie().is_some() && visit.edits.len() == 1);
    assert!(!response.questions().contains(&"cache-control".to_owned()));
}
