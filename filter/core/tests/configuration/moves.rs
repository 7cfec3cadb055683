//! The rules for `move`.

use serde_json::{Value, json};

use crate::base::*;

fn with_move(own: Value, header: &str) -> Vec<String> {
    let mut policy = own;
    policy["move"] = json!({ "header": header });
    found(policy)
}

#[test]
fn a_move_has_a_response_header_of_its_own() {
    let cookie = || json!({ "cookie": {"name": "s"}, "tell": {"header": {"name": "X-Tell"}} });
    let header = || json!({ "header": {"name": "X-Session"} });
    for own in [cookie(), header(), json!({ "source": {} })] {
        assert_eq!(with_move(own, "X-Move"), Vec::<String>::new());
    }
    for (own, name, what) in [
        (
            cookie(),
            "x-tell",
            "expected a header of its own, found \"x-tell\": responses have tokens in it",
        ),
        (
            header(),
            "x-session",
            "expected a header of its own, found \"x-session\": responses have tokens in it",
        ),
        (
            cookie(),
            "Location",
            "expected a header that nothing else uses, found \"location\": HTTP has this name",
        ),
        (
            cookie(),
            "x-limpet-host",
            "expected a header that nothing else uses, found \"x-limpet-host\": Limpet has all names that begin with \
             x-limpet-",
        ),
    ] {
        assert_eq!(with_move(own, name), [format!("move.header: {what}")]);
    }
    let problems = with_move(cookie(), "");
    assert!(
        problems[0].starts_with("move.header: expected a header name: 1 to 256 letters"),
        "{problems:?}"
    );
}

#[test]
fn a_move_needs_a_token_with_any_response() {
    for own in [
        json!({ "cookie": {"name": "s", "mode": "prefix"} }),
        json!({ "cookie": {"name": "s", "mode": "rewrite"} }),
        json!({ "header": {"name": "s", "mode": "prefix"} }),
    ] {
        let message = "move: remove it in this mode: a token is sent only when the application sets its cookie or \
                       header, so other responses could not move a session";
        assert_eq!(with_move(own, "m"), [message]);
    }
    let message = "move: remove it or add tell: a token gets to its client only in redirects, so most responses \
                   could not move a session";
    assert_eq!(
        with_move(json!({ "query": {"name": "s", "redirects": true} }), "m"),
        [message]
    );
    let told = json!({ "query": {"name": "s"}, "tell": {"header": {"name": "x"}} });
    assert_eq!(with_move(told, "m"), Vec::<String>::new());
}

#[test]
fn hosts_have_addresses_with_ports() {
    let hosts = |address: &str| changed(&[("/hosts", json!({ "web": { address: "web-0" } }))]);
    for address in ["10.0.0.7:8080", "[2001:db8::7]:8080"] {
        assert_eq!(problems(&hosts(address)), []);
    }
    for address in ["10.0.0.7", "10.0.0.7:0", "0.0.0.0:80", "web-0:80", "[fe80::1%1]:80", ""] {
        let problems: Vec<String> = problems(&hosts(address)).iter().map(ToString::to_string).collect();
        let message = "hosts.web: expected addresses with their ports, as 10.0.0.7:8080 or [2001:db8::7]:8080, found";
        assert_eq!(problems, [format!("{message} {address:?}")]);
    }
}
