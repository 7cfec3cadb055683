//! The rules for `begin` and `end`.

use serde_json::{Value, json};

use crate::base::*;

const SHOP: &str = "/policies/shop";

fn found(policy: &Value) -> Vec<String> {
    let problems = problems(&changed(&[(SHOP, policy.clone())]));
    let problems = problems.iter().map(ToString::to_string);
    problems
        .map(|problem| problem.trim_start_matches("policies.shop.").to_owned())
        .collect()
}

fn beginning(begin: &Value) -> Vec<String> {
    found(&json!({ "cookie": {"name": "s"}, "begin": begin }))
}

const FINE: [String; 0] = [];

#[test]
fn begin_is_a_word_or_an_object() {
    for begin in [json!("always"), json!({"cookie": "t"}), json!({"header": "Location"})] {
        assert_eq!(beginning(&begin), FINE, "{begin}");
    }
    let expected = "expected always, or an object with cookie, header or methods";
    for (begin, what) in [
        (json!("never"), r#"value: string "never""#),
        (json!(true), "type: boolean `true`"),
        (json!(["POST"]), "type: sequence"),
        (Value::Null, "type: null"),
    ] {
        assert_eq!(beginning(&begin), [format!("begin: invalid {what}, {expected}")]);
    }
    let typo = beginning(&json!({"method": ["POST"]}));
    assert_eq!(
        typo[0],
        "begin.method: unknown field `method`, expected one of `cookie`, `header`, `methods`"
    );
}

#[test]
fn a_session_begins_with_something() {
    for nothing in [json!({}), json!({"methods": []})] {
        assert_eq!(
            beginning(&nothing),
            ["begin: expected cookie, header or methods, found none"]
        );
    }
    let both = json!({"cookie": "t", "header": "t", "methods": ["POST"]});
    assert_eq!(beginning(&both), ["begin: expected cookie or header, found both"]);
}

#[test]
fn methods_are_written_as_they_are_sent() {
    assert_eq!(beginning(&json!({"methods": ["POST", "PUT", "M-SEARCH"]})), FINE);
    for wrong in ["post", "", "-", "PO ST", "P0ST", &"A".repeat(33)] {
        let message =
            format!("begin.methods[1]: expected a method: 1 to 32 capital letters, such as POST, found {wrong:?}");
        assert_eq!(beginning(&json!({"methods": ["GET", wrong]})), [message]);
    }
    assert_eq!(
        beginning(&json!({"methods": ["POST", "PUT", "POST"]})),
        [r#"begin.methods[2]: expected each method once, found "POST" again"#]
    );
}

/// The application would never see its own sign, or the filter takes it away.
#[test]
fn the_sign_is_the_applications() {
    let policy = |fields: &Value| {
        let mut policy = json!({
            "cookie": {"name": "s"},
            "also": [{"cookie": {"name": "further"}}, {"header": {"name": "X-Further"}}],
            "tell": {"header": {"name": "X-Tell"}},
        });
        for (name, value) in fields.as_object().unwrap() {
            policy[name] = value.clone();
        }
        found(&policy)
    };
    for name in ["s", "further"] {
        let message = format!("cookie: expected a cookie of the application, found {name:?}, which carries tokens");
        assert_eq!(
            policy(&json!({"begin": {"cookie": name}})),
            [format!("begin.{message}")]
        );
        assert_eq!(policy(&json!({"end": {"cookie": name}})), [format!("end.{message}")]);
    }
    for name in ["x-further", "X-Tell"] {
        let lower = name.to_lowercase();
        let message =
            format!("begin.header: expected a header of the application, found {lower:?}, which carries tokens");
        let of_end = message.replace("begin.", "end.");
        assert_eq!(policy(&json!({"begin": {"header": name}})), [message]);
        assert_eq!(policy(&json!({"end": {"header": name}})), [of_end]);
    }
    for (fields, expected) in [
        (json!({}), "end: expected cookie or header, found none"),
        (
            json!({"cookie": "t", "header": "x-t"}),
            "end: expected cookie or header, found both",
        ),
    ] {
        assert_eq!(policy(&json!({ "end": fields })), [expected]);
    }
    assert_eq!(
        policy(&json!({"begin": {"header": "x-limpet-host"}})),
        [
            "begin.header: expected a header of the application, found \"x-limpet-host\", which only the filter and \
             Envoy use"
        ]
    );
    for fine in [
        json!({"begin": {"header": "s"}}),
        json!({"begin": {"header": "set-cookie"}}),
        json!({"begin": {"cookie": "x-tell"}}),
        json!({"begin": {"cookie": "S"}, "end": {"cookie": "S"}}),
        json!({"end": {"header": "Clear-Site-Data"}}),
    ] {
        assert_eq!(policy(&fine), FINE, "{fine}");
    }
}

#[test]
fn names_are_checked_where_they_stand() {
    for (field, of) in [
        ("begin.cookie", "cookie"),
        ("begin.header", "header"),
        ("end.cookie", "cookie"),
        ("end.header", "header"),
    ] {
        let (section, name) = field.split_once('.').unwrap();
        let policy = json!({ "cookie": {"name": "s"}, section: {name: "a b"} });
        let found = found(&policy);
        assert!(
            found.len() == 1 && found[0].starts_with(&format!("{field}: expected a {of} name: ")),
            "{found:?}"
        );
    }
}

#[test]
fn the_application_begins_and_ends_its_own_session() {
    for carrier in [
        json!({"cookie": {"name": "s", "mode": "prefix"}}),
        json!({"cookie": {"name": "s", "mode": "rewrite"}}),
        json!({"header": {"name": "s", "mode": "prefix"}}),
    ] {
        let with = |section: &str, value: &Value| {
            let mut policy = carrier.clone();
            policy[section] = value.clone();
            found(&policy)
        };
        assert_eq!(with("begin", &json!("always")), FINE);
        for begin in [
            json!({"cookie": "t"}),
            json!({"header": "t"}),
            json!({"methods": ["POST"]}),
        ] {
            let message = "begin: expected always in this mode: the application begins the session when it sets its \
                           cookie or header";
            assert_eq!(with("begin", &begin), [message], "{carrier}");
        }
        let message = "end: remove it in this mode: the session ends with the application's own cookie or header";
        assert_eq!(with("end", &json!({"cookie": "t"})), [message], "{carrier}");
    }
}

#[test]
fn only_a_cookie_or_an_entry_can_be_taken_back() {
    let message = "end: remove it, or use cookie or source: a token that is in no cookie cannot be taken back";
    let end = json!({"cookie": "t"});
    for carrier in [
        json!({"header": {"name": "s"}, "end": end}),
        json!({"query": {"name": "s"}, "tell": {"header": {"name": "x"}}, "end": end}),
    ] {
        assert_eq!(found(&carrier), [message]);
    }
    assert_eq!(
        found(&json!({"source": {}, "begin": {"cookie": "t"}, "end": end})),
        FINE
    );
}
