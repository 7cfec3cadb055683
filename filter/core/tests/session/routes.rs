//! The policy and scope of a request: from route metadata, then the routes table, then the default policy.

use limpet_core::SessionError;
use limpet_core::token::{CarrierMode, TokenRefusal};
use serde_json::{Value, json};

use crate::world::*;

fn site(fields: Value) -> Site {
    let base = json!({
        "keys": [key(1, "signing")],
        "policies": { "shop": cookie_policy(json!({})), "api": cookie_policy(json!({ "strict": true })) },
    });
    Site::of(&with(base, fields))
}

fn table() -> Site {
    site(json!({ "routes": [
        { "route": "cart", "policy": "shop", "scope": "basket" },
        { "route": "plain", "policy": "shop" },
        { "route": "two", "virtualHost": "v1", "policy": "shop", "scope": "first" },
        { "route": "two", "policy": "api", "scope": "rest" },
        { "route": "swapped", "policy": "api", "scope": "rest" },
        { "route": "swapped", "virtualHost": "v1", "policy": "shop", "scope": "first" },
        { "route": "one", "virtualHost": "v1", "policy": "shop" },
    ] }))
}

/// The policy of a request, and the scope that its token is bound to.
fn bound(site: &Site, request: FakeRequest, scopes: &[&'static str]) -> Option<(String, &'static str)> {
    let policy = site.policy_of(&request).unwrap()?;
    let token = site
        .visit(&request, &FakeResponse::by(A), at(0))
        .token()
        .expect("a token");
    let opens = |scope: &&&str| {
        realm(1, scope, CarrierMode::Cookie, COOKIE)
            .open(token.as_bytes())
            .is_ok()
    };
    let scope = scopes
        .iter()
        .find(opens)
        .unwrap_or_else(|| panic!("in none of the scopes {scopes:?}"));
    Some((policy, scope))
}

fn is(policy: &str, scope: &'static str) -> Option<(String, &'static str)> {
    Some((policy.to_owned(), scope))
}

#[test]
fn metadata_names_policy_and_scope() {
    let request = |session: &str| FakeRequest::new().session(session);
    let site = site(json!({}));
    assert_eq!(bound(&site, request("shop/a"), &["a"]), is("shop", "a"));
    assert_eq!(bound(&site, request("api/a"), &["a"]), is("api", "a"));
}

#[test]
fn metadata_is_split_at_the_first_slash() {
    let request = FakeRequest::new().session("shop/HTTPRoute/ns/web/rule");
    assert_eq!(
        bound(&site(json!({})), request, &["HTTPRoute/ns/web/rule"]),
        is("shop", "HTTPRoute/ns/web/rule")
    );
}

#[test]
fn metadata_without_a_scope_means_the_name_of_the_route() {
    for session in ["shop", "shop/"] {
        let request = || FakeRequest::on_route("cart").session(session);
        assert_eq!(bound(&site(json!({})), request(), &["cart"]), is("shop", "cart"));
        // The same when the policy is already bound.
        let site = site(json!({}));
        bound(&site, request(), &["cart"]);
        let other = FakeRequest::on_route("other").session(session);
        assert_eq!(bound(&site, other, &["other"]), is("shop", "other"));
    }
}

#[test]
fn metadata_without_a_scope_on_a_nameless_route_means_default() {
    let request = FakeRequest::on_nameless_route().session("shop");
    assert_eq!(
        bound(&site(json!({})), request, &["default", ""]),
        is("shop", "default")
    );
}

#[test]
fn metadata_without_a_known_policy_is_an_error() {
    let site = site(json!({ "default": { "policy": "shop" } }));
    for session in [
        "other/a",
        "other",
        "",
        "/a",
        "Shop/a",
        " shop/a",
        "@split",
        "@split/other/a",
        "@destination/a",
    ] {
        let error = site.policy_of(&FakeRequest::new().session(session)).unwrap_err();
        assert_eq!(error, SessionError::UnknownSession(session.to_owned()));
    }
    let not_text = FakeRequest::new().session([0xff, b'/', b'a']);
    assert!(matches!(
        site.policy_of(&not_text),
        Err(SessionError::UnknownSession(_))
    ));
}

#[test]
fn a_scope_in_metadata_has_at_most_1024_bytes() {
    let site = site(json!({}));
    let policy = |bytes| site.policy_of(&FakeRequest::new().session(format!("shop/{}", "s".repeat(bytes))));
    assert_eq!(policy(1024), Ok(Some("shop".to_owned())));
    assert!(matches!(policy(1025), Err(SessionError::UnknownSession(_))));
}

#[test]
fn metadata_takes_precedence_over_table_and_default() {
    let site = site(json!({
        "routes": [{ "route": "cart", "policy": "api", "scope": "table" }],
        "default": { "policy": "api", "scope": "default" },
    }));
    let request = FakeRequest::on_route("cart").session("shop/metadata");
    assert_eq!(
        bound(&site, request, &["metadata", "table", "default"]),
        is("shop", "metadata")
    );
}

#[test]
fn the_table_is_looked_up_by_the_name_of_the_route() {
    assert_eq!(
        bound(&table(), FakeRequest::on_route("cart"), &["basket"]),
        is("shop", "basket")
    );
    assert_eq!(
        bound(&table(), FakeRequest::on_route("plain"), &["plain"]),
        is("shop", "plain")
    );
    assert_eq!(bound(&table(), FakeRequest::on_route("cart2"), &[]), None);
    assert_eq!(bound(&table(), FakeRequest::on_nameless_route(), &[]), None);
}

#[test]
fn an_entry_with_a_virtual_host_takes_precedence() {
    let on = |route, host: &str| FakeRequest::on_route(route).virtual_host(host);
    for route in ["two", "swapped"] {
        assert_eq!(
            bound(&table(), on(route, "v1"), &["first", "rest"]),
            is("shop", "first")
        );
        assert_eq!(bound(&table(), on(route, "v2"), &["first", "rest"]), is("api", "rest"));
    }
    assert_eq!(bound(&table(), on("one", "v1"), &["one"]), is("shop", "one"));
    assert_eq!(bound(&table(), on("one", "v2"), &[]), None);
}

#[test]
fn the_virtual_host_is_asked_only_if_an_entry_needs_it() {
    let asked = |request: FakeRequest| {
        table().policy_of(&request).unwrap();
        request.questions()
    };
    assert_eq!(asked(FakeRequest::on_route("cart")), ["route_session", "route_name"]);
    assert_eq!(
        asked(FakeRequest::on_route("two")),
        ["route_session", "route_name", "virtual_host"]
    );
}

#[test]
fn the_table_takes_precedence_over_the_default() {
    let site = site(json!({
        "routes": [{ "route": "cart", "policy": "shop" }],
        "default": { "policy": "api" },
    }));
    assert_eq!(
        bound(&site, FakeRequest::on_route("cart"), &["cart"]),
        is("shop", "cart")
    );
    assert_eq!(
        bound(&site, FakeRequest::on_route("other"), &["other"]),
        is("api", "other")
    );
}

#[test]
fn an_entry_for_nameless_routes_has_the_scope_default() {
    let site = site(json!({ "routes": [{ "route": "", "policy": "shop" }] }));
    assert_eq!(
        bound(&site, FakeRequest::on_nameless_route(), &["default", ""]),
        is("shop", "default")
    );
}

#[test]
fn the_default_policy_has_one_scope_or_one_per_route() {
    let own = site(json!({ "default": { "policy": "shop", "scope": "all" } }));
    assert_eq!(
        bound(&own, FakeRequest::on_route("a"), &["all", "a"]),
        is("shop", "all")
    );
    assert_eq!(
        bound(&own, FakeRequest::on_nameless_route(), &["all"]),
        is("shop", "all")
    );
    let each = site(json!({ "default": { "policy": "shop" } }));
    assert_eq!(bound(&each, FakeRequest::on_route("a"), &["a"]), is("shop", "a"));
    assert_eq!(
        bound(&each, FakeRequest::on_nameless_route(), &["default"]),
        is("shop", "default")
    );
}

#[test]
fn a_route_that_nothing_names_has_no_session() {
    assert_eq!(site(json!({})).policy_of(&FakeRequest::on_route("a")), Ok(None));
}

#[test]
fn a_token_of_another_scope_is_refused() {
    let site = site(json!({}));
    let token = cookie_token("cart", &claims(A, at(0), at(0)));
    let request = |session: &str| FakeRequest::new().session(session).cookie(&format!("{COOKIE}={token}"));
    assert_eq!(
        site.visit(&request("shop/cart"), &FakeResponse::by(A), at(0)).request,
        STEERED
    );
    let elsewhere = site.visit(&request("shop/checkout"), &FakeResponse::by(A), at(0));
    assert_eq!(elsewhere.outcomes(), (refused(TokenRefusal::BadSignature), ISSUED));
}

#[test]
fn more_scopes_than_are_kept_all_have_sessions() {
    let site = site(json!({}));
    for i in (0..5000).chain([0, 1, 4999]) {
        let scope = format!("scope-{i}");
        let token = cookie_token(&scope, &claims(A, at(0), at(0)));
        let request = FakeRequest::new()
            .session(format!("shop/{scope}"))
            .cookie(&format!("{COOKIE}={token}"));
        assert_eq!(
            site.visit(&request, &FakeResponse::by(A), at(0)).outcomes(),
            (STEERED, UNCHANGED),
            "{scope}"
        );
    }
}

#[test]
fn a_proxy_that_does_not_answer_is_an_error() {
    let site = site(
        json!({ "routes": [{ "route": "r", "virtualHost": "v", "policy": "shop" }], "default": { "policy": "shop" } }),
    );
    for what in ["route_session", "route_name", "virtual_host"] {
        let request = FakeRequest::on_route("r").broken(what);
        assert!(
            matches!(site.policy_of(&request), Err(SessionError::View(error)) if error.what == what),
            "{what}"
        );
    }
}
