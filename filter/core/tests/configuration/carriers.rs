//! The rules for cookies and headers (RFC 6265bis, RFC 9110, GEP-1619).

use serde_json::{Value, json};

use crate::base::*;

fn cookie_fields(cookie: Value) -> Vec<String> {
    let prefix = "policies.shop.cookie.";
    let found = fields(&changed(&[("/policies/shop/cookie", cookie)]));
    found
        .into_iter()
        .map(|field| field.strip_prefix(prefix).unwrap_or(&field).to_owned())
        .collect()
}

#[track_caller]
fn cookie(cookie: Value, expected: &[&str]) {
    assert_eq!(cookie_fields(cookie.clone()), expected, "{cookie}");
}

#[test]
fn a_cookie_name_is_a_token() {
    for name in ["a", "JSESSIONID", "!#$%&'*+-.^_`|~", &"n".repeat(256)] {
        cookie(json!({ "name": name }), &[]);
    }
    for name in [
        "",
        " ",
        "a b",
        "a=b",
        "a;b",
        "a,b",
        "a\"b",
        "a\tb",
        "a\r\nb",
        "é",
        "a/b",
        "[a]",
        &"n".repeat(257),
    ] {
        cookie(json!({ "name": name }), &["name"]);
    }
}

#[test]
fn a_host_cookie_is_secure_and_has_no_domain_and_no_path() {
    for name in ["__Host-a", "__host-a", "__HOST-a", "__Host-"] {
        cookie(json!({ "name": name, "secure": "always" }), &[]);
        cookie(json!({ "name": name, "secure": "always", "path": "/" }), &[]);
        cookie(json!({ "name": name }), &["secure"]);
        cookie(json!({ "name": name, "secure": "never" }), &["secure"]);
        cookie(json!({ "name": name, "secure": "always", "path": "/a" }), &["path"]);
        cookie(
            json!({ "name": name, "secure": "always", "domain": "example.com" }),
            &["domain"],
        );
        cookie(
            json!({ "name": name, "path": "/a", "domain": "example.com" }),
            &["secure", "path", "domain"],
        );
    }
    cookie(json!({ "name": "x__Host-a", "path": "/a" }), &[]);
    cookie(json!({ "name": "__Hosta", "path": "/a" }), &[]);
}

#[test]
fn the_secure_prefix_requires_secure_always() {
    for name in ["__Secure-a", "__SECURE-a"] {
        cookie(
            json!({ "name": name, "secure": "always", "path": "/a", "domain": "example.com" }),
            &[],
        );
        cookie(json!({ "name": name }), &["secure"]);
        cookie(json!({ "name": name, "secure": "never" }), &["secure"]);
    }
}

#[test]
fn same_site_none_requires_secure_always() {
    cookie(json!({ "name": "a", "sameSite": "None", "secure": "always" }), &[]);
    cookie(json!({ "name": "a", "sameSite": "None" }), &["secure"]);
    cookie(
        json!({ "name": "a", "sameSite": "None", "secure": "never" }),
        &["secure"],
    );
    for same_site in ["Strict", "Lax"] {
        cookie(json!({ "name": "a", "sameSite": same_site, "secure": "never" }), &[]);
    }
}

#[test]
fn partitioned_requires_secure_always() {
    cookie(json!({ "name": "a", "partitioned": true, "secure": "always" }), &[]);
    cookie(json!({ "name": "a", "partitioned": true }), &["secure"]);
    cookie(
        json!({ "name": "a", "partitioned": true, "secure": "never" }),
        &["secure"],
    );
}

#[test]
fn a_permanent_cookie_requires_an_absolute_timeout() {
    cookie(json!({ "name": "a", "lifetimeType": "Permanent" }), &[]);
    let policy = json!({ "cookie": { "name": "a", "lifetimeType": "Permanent" }, "idleTimeout": "1h" });
    wrong("/policies/shop", policy, &["policies.shop.cookie.lifetimeType"]);
    right(
        "/policies/shop",
        json!({ "cookie": { "name": "a", "lifetimeType": "Session" } }),
    );
}

#[test]
fn a_cookie_path_is_a_path() {
    for path in ["/", "/a", "/a/b/", "/~a%20b=c", &format!("/{}", "p".repeat(1023))] {
        cookie(json!({ "name": "a", "path": path }), &[]);
    }
    for path in [
        "",
        "a",
        "a/",
        "/a;b",
        "/a b",
        "/a,b",
        "/a\r\nb",
        "/é",
        "/\u{7f}",
        &format!("/{}", "p".repeat(1024)),
    ] {
        cookie(json!({ "name": "a", "path": path }), &["path"]);
    }
}

#[test]
fn a_cookie_domain_is_a_domain_name() {
    for domain in [
        "example.com",
        "localhost",
        "a-b.example.co",
        "xn--bcher-kva.example",
        "EXAMPLE.com",
    ] {
        cookie(json!({ "name": "a", "domain": domain }), &[]);
    }
    let long = vec!["d".repeat(63); 4].join(".");
    for domain in [
        "",
        ".",
        ".example.com",
        "example.com.",
        "a..b",
        "a b",
        "a;b",
        "-a.com",
        "a-.com",
        "a_b.com",
        "é.com",
        "example.com/x",
        "example.com:80",
        &"d".repeat(64),
        &long,
    ] {
        cookie(json!({ "name": "a", "domain": domain }), &["domain"]);
    }
}

#[test]
fn every_problem_of_a_cookie_is_reported() {
    let all = json!({ "name": "a b", "path": "x", "domain": ".x", "sameSite": "None" });
    let mut found = cookie_fields(all);
    found.sort();
    assert_eq!(found, ["domain", "name", "path", "secure"]);
}

#[test]
fn a_header_name_is_a_token() {
    for name in ["x-session", "X-Session", "session", "Mcp-Session-Id", "a"] {
        right("/policies/api/header/name", json!(name));
    }
    for name in [
        "",
        "a b",
        "a:b",
        ":path",
        ":scheme",
        "x-é",
        "a\r\nb",
        "a,b",
        &"n".repeat(257),
    ] {
        wrong("/policies/api/header/name", json!(name), &["policies.api.header.name"]);
    }
}

#[test]
fn a_wrong_name_is_told_with_what_was_found() {
    for (name, found) in [
        ("", "found none"),
        ("a b", "found \"a b\" with ' '"),
        ("naïve", "found \"naïve\" with 'ï'"),
        (&"n".repeat(257), "found 257 characters"),
    ] {
        for (at, field) in [
            ("/policies/shop/cookie/name", "policies.shop.cookie.name"),
            ("/policies/api/header/name", "policies.api.header.name"),
        ] {
            let problems = problems(&changed(&[(at, json!(name))]));
            let [problem] = &problems[..] else {
                panic!("{name:?}: {problems:?}")
            };
            assert_eq!(problem.field, field);
            assert!(problem.message.ends_with(found), "{}", problem.message);
            assert!(problem.message.contains("1 to 256 letters"), "{}", problem.message);
        }
    }
}

#[test]
fn a_header_with_another_meaning_is_refused() {
    for (names, owner) in [
        (
            &["x-limpet-host", "X-Limpet-Host-Strict", "x-limpet-anything"][..],
            "Limpet has all names that begin with x-limpet-",
        ),
        (
            &["cookie", "Set-Cookie", "host", "content-length", "te", "authorization"],
            "HTTP has this name",
        ),
        (
            &["Location", "ETag", "Content-Type", "Date", "Vary", "Cache-Control"],
            "HTTP has this name",
        ),
        (
            &["Access-Control-Allow-Origin"],
            "HTTP has all names that begin with access-control-",
        ),
        (
            &["sec-fetch-mode", "Sec-WebSocket-Key"],
            "HTTP has all names that begin with sec-",
        ),
        (
            &["grpc-status", "grpc-timeout", "Grpc-Anything"],
            "gRPC has all names that begin with grpc-",
        ),
        (&["traceparent", "tracestate", "baggage", "b3"], "tracing has this name"),
        (&["x-b3-traceid"], "tracing has all names that begin with x-b3-"),
        (&["x-envoy-max-retries"], "Envoy has all names that begin with x-envoy-"),
        (
            &["X-Forwarded-For", "x-forwarded-proto"],
            "Envoy has all names that begin with x-forwarded-",
        ),
        (&["X-Request-Id"], "Envoy has this name"),
    ] {
        for name in names {
            let problems = problems(&changed(&[("/policies/api/header/name", json!(name))]));
            let found = problems.iter().map(ToString::to_string).collect::<Vec<_>>();
            assert_eq!(
                found,
                [format!(
                    "policies.api.header.name: expected a header that nothing else uses, found {name:?}: {owner}"
                )]
            );
        }
    }
}
