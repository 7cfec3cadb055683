//! The rules for `query`, `also` and `tell`.

use serde_json::{Value, json};

use crate::base::*;

fn with_also(also: Value) -> Vec<String> {
    found(json!({ "cookie": {"name": "s"}, "also": also }))
}

#[test]
fn a_policy_has_one_carrier_of_its_own() {
    for (policy, given) in [
        (json!({}), "none"),
        (
            json!({ "query": {"name": "s", "redirects": true}, "header": {"name": "s"} }),
            "header and query",
        ),
        (json!({ "cookie": {"name": "s"}, "source": {} }), "cookie and source"),
        (json!({ "also": [{"query": {"name": "s"}}] }), "none"),
    ] {
        let message = format!("policies.shop: expected exactly one of cookie, header, query and source, found {given}");
        assert_eq!(found(policy), [message]);
    }
}

#[test]
fn a_duration_that_is_none_is_told() {
    for (wrong, advice) in [("30min", ": write 30m"), ("7d", ": write 168h"), ("soon", "")] {
        let told = found(json!({ "cookie": {"name": "s"}, "idleTimeout": wrong }));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with("idleTimeout: expected a duration like 30m"),
            "{told:?}"
        );
        assert!(told[0].ends_with(&format!("found {wrong:?}{advice}")), "{told:?}");
    }
}

#[test]
fn a_parameter_has_a_name_that_nobody_escapes() {
    for name in ["s", "session-id", "a.B_c~9", &"n".repeat(256)] {
        assert_eq!(with_also(json!([{"query": {"name": name}}])), Vec::<String>::new());
    }
    let expected = "expected a name for a parameter: 1 to 256 letters, digits or -._~, found";
    for (name, what) in [
        ("", "none"),
        ("a b", "\"a b\" with ' '"),
        ("a%20", "\"a%20\" with '%'"),
        ("a+b", "\"a+b\" with '+'"),
        ("s[]", "\"s[]\" with '['"),
        ("é", "\"é\" with 'é'"),
        (&"n".repeat(257), "257 characters"),
    ] {
        let of_also = with_also(json!([{"query": {"name": name}}]));
        assert_eq!(of_also, [format!("also[0].query.name: {expected} {what}")]);
        let of_own = found(json!({ "query": {"name": name, "redirects": true} }));
        assert_eq!(of_own, [format!("query.name: {expected} {what}")]);
    }
}

#[test]
fn every_name_is_checked_where_it_stands() {
    let all = json!({
        "cookie": {"name": "s"},
        "also": [
            {"cookie": {"name": "a b"}},
            {"header": {"name": "Cookie"}},
            {},
            {"header": {"name": "x-limpet-host"}},
        ],
        "tell": {"header": {"name": "Location"}},
    });
    let fields = fields(&changed(&[("/policies/shop", all)]));
    let expected = [
        "also[0].cookie.name",
        "also[1].header.name",
        "also[2]",
        "also[3].header.name",
        "tell.header.name",
    ];
    assert_eq!(fields, expected.map(|field| format!("policies.shop.{field}")));
}

#[test]
fn a_carrier_is_named_once() {
    let again = |field: &str, word: &str, name: &str| {
        [format!(
            "{field}: expected each carrier once, found the {word} {name:?} again"
        )]
    };
    assert_eq!(
        with_also(json!([{"cookie": {"name": "s"}}])),
        again("also[0].cookie.name", "cookie", "s")
    );
    assert_eq!(
        with_also(json!([{"header": {"name": "x-a"}}, {"header": {"name": "X-A"}}])),
        again("also[1].header.name", "header", "x-a")
    );
    let own_header = json!({ "header": {"name": "X-A", "mode": "prefix"}, "also": [{"header": {"name": "x-a"}}] });
    assert_eq!(found(own_header), again("also[0].header.name", "header", "x-a"));
    let own_query = json!({ "query": {"name": "s", "redirects": true}, "also": [{"query": {"name": "s"}}] });
    assert_eq!(found(own_query), again("also[0].query.name", "query", "s"));
    // Another place, or another name. Only headers have names without case.
    let others = json!([{"header": {"name": "s"}}, {"query": {"name": "s"}}, {"cookie": {"name": "S"}}]);
    assert_eq!(with_also(others), Vec::<String>::new());
}

#[test]
fn a_header_that_has_the_token_does_not_tell_it_again() {
    let policy = json!({ "header": {"name": "X-Session"}, "tell": {"header": {"name": "x-session"}} });
    let message = "tell.header.name: expected another header than the policy's own, found \"x-session\": \
                   responses have the token in it";
    assert_eq!(found(policy), [message]);
}

#[test]
fn a_query_token_must_reach_its_client() {
    let untold = found(json!({ "query": {"name": "s"} }));
    let message = "tell: expected a header, or redirects: true in query: nothing else gives a client its token";
    assert_eq!(untold, [message]);
    let renewed = found(json!({ "query": {"name": "s", "redirects": true}, "idleTimeout": "1h" }));
    let message = "idleTimeout: remove it or add tell: a token is renewed only in redirects, so the \
                       time of its last use would be unknown; absoluteTimeout bounds it";
    assert_eq!(renewed, [message]);
    let told = json!({ "query": {"name": "s"}, "tell": {"header": {"name": "x"}}, "idleTimeout": "1h" });
    assert_eq!(found(told), Vec::<String>::new());
}

#[test]
fn no_request_is_searched_in_many_places() {
    let carriers = |count: usize| -> Value {
        (0..count)
            .map(|i| json!({"query": {"name": format!("s{i}")}}))
            .collect()
    };
    assert_eq!(with_also(carriers(8)), [""; 0]);
    assert_eq!(with_also(carriers(9)), ["also: expected at most 8, found 9"]);
}
