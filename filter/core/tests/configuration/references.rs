//! References to policies by routes and default, and fences.

use serde_json::json;

use crate::base::*;

#[test]
fn routes_and_default_name_an_existing_policy() {
    wrong("/routes/0/policy", json!("other"), &["routes[0].policy"]);
    wrong("/routes/0/policy", json!("Shop"), &["routes[0].policy"]);
    wrong("/default/policy", json!("other"), &["default.policy"]);
    wrong("/default/policy", json!(""), &["default.policy"]);
}

#[test]
fn a_bad_policy_does_not_make_its_references_bad() {
    wrong("/policies/shop/cookie/name", json!(""), &["policies.shop.cookie.name"]);
    wrong("/policies/shop", json!({}), &["policies.shop"]);
}

#[test]
fn a_scope_has_1_to_1024_bytes() {
    for (pointer, field) in [
        ("/routes/0/scope", "routes[0].scope"),
        ("/default/scope", "default.scope"),
    ] {
        right(pointer, json!("a/b é"));
        right(pointer, json!("s".repeat(1024)));
        wrong(pointer, json!(""), &[field]);
        wrong(pointer, json!("s".repeat(1025)), &[field]);
        wrong(pointer, json!("é".repeat(513)), &[field]);
    }
}

#[test]
fn a_route_is_listed_once_per_virtual_host() {
    let route = |host: Option<&str>| json!({ "route": "r", "virtualHost": host, "policy": "shop" });
    right("/routes", json!([route(None), route(Some("a")), route(Some("b"))]));
    wrong("/routes", json!([route(None), route(None)]), &["routes[1].route"]);
    wrong(
        "/routes",
        json!([route(Some("a")), route(None), route(Some("a"))]),
        &["routes[2].route"],
    );
}

#[test]
fn a_fence_has_an_address() {
    for address in ["10.0.0.7", "10.0.0.7:80", "2001:db8::7", "[2001:db8::7]:80", "::1"] {
        right("/fences/0/address", json!(address));
    }
    for address in [
        "",
        "localhost",
        "localhost:80",
        "10.0.0",
        "10.0.0.256",
        "10.0.0.7:",
        "10.0.0.7:65536",
        "10.0.0.0/8",
        "[2001:db8::7]",
        "010.0.0.7",
        " 10.0.0.7",
        "unix:///x",
    ] {
        wrong("/fences/0/address", json!(address), &["fences[0].address"]);
    }
    right("/fences/0/notBefore", json!(u64::MAX));
    right("/fences/0/namespace", json!("shop"));
    wrong("/fences/0/namespace", json!(""), &["fences[0].namespace"]);
    wrong(
        "/fences/1",
        json!({ "address": "x", "notBefore": 1 }),
        &["fences[1].address"],
    );
}
