//! The rules for `rebalance`.

use serde_json::{Value, json};

use crate::base::*;

fn with_rebalance(mut policy: Value, after: &str) -> Vec<String> {
    policy["rebalance"] = json!(after);
    found(policy)
}

#[test]
fn it_is_shorter_than_sessions_may_stay_unused() {
    let cookie = |timeout: &str| json!({ "cookie": {"name": "s"}, timeout: "10m" });
    for timeout in ["idleTimeout", "absoluteTimeout"] {
        assert_eq!(with_rebalance(cookie(timeout), "9m59s"), Vec::<String>::new());
        for after in ["10m", "1h"] {
            let message = "rebalance: expected less than sessions may stay unused: they are over then";
            assert_eq!(with_rebalance(cookie(timeout), after), [message]);
        }
    }
    let message = "rebalance: expected a duration greater than zero";
    assert_eq!(with_rebalance(cookie("idleTimeout"), "0s"), [message]);
    // `maxIdle` is no field of the policy.
    assert_eq!(
        with_rebalance(json!({ "header": {"name": "s"} }), "99999h"),
        Vec::<String>::new()
    );
}

#[test]
fn it_needs_to_know_of_the_last_use() {
    for own in [
        json!({ "cookie": {"name": "s", "mode": "prefix"} }),
        json!({ "cookie": {"name": "s", "mode": "rewrite"} }),
        json!({ "header": {"name": "s", "mode": "prefix"} }),
    ] {
        let message = "rebalance: remove it in this mode: a token is renewed only when the application sets its \
                       cookie or header again, so the time of its last use would be unknown";
        assert_eq!(with_rebalance(own, "5m"), [message]);
    }
    let message = "rebalance: remove it or add tell: a token is renewed only in redirects, so the \
                       time of its last use would be unknown";
    let query = json!({ "query": {"name": "s", "redirects": true} });
    assert_eq!(with_rebalance(query, "5m"), [message]);
    let told = json!({ "query": {"name": "s"}, "tell": {"header": {"name": "x"}} });
    assert_eq!(with_rebalance(told, "5m"), Vec::<String>::new());
    let message = "rebalance: remove it with source: a session by address would move by chance, in only one Envoy";
    assert_eq!(with_rebalance(json!({ "source": {} }), "5m"), [message]);
}
