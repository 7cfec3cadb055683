//! Policies whose sessions addresses hold.

use serde_json::json;

use crate::base::*;

const AT: &str = "/policies/api";

#[test]
fn every_field_has_its_range() {
    for (field, right_ones, wrong_ones) in [
        ("prefixV4", [1, 32], [0, 33]),
        ("prefixV6", [1, 128], [0, 129]),
        ("entries", [1, 10_000_000], [0, 10_000_001]),
    ] {
        for value in right_ones {
            right(AT, json!({ "source": { field: value } }));
        }
        for value in wrong_ones {
            let path = format!("policies.api.source.{field}");
            wrong(AT, json!({ "source": { field: value } }), &[&path]);
        }
    }
    right(AT, json!({ "source": { "timeout": "1ms" } }));
    wrong(
        AT,
        json!({ "source": { "timeout": "0s" } }),
        &["policies.api.source.timeout"],
    );
}

#[test]
fn what_is_found_and_what_is_expected_is_said() {
    let problems = problems(&changed(&[(AT, json!({ "source": { "prefixV4": 40, "entries": 0 } }))]));
    let said: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "policies.api.source.prefixV4: expected 1 to 32 bits, found 40",
            "policies.api.source.entries: expected 1 to 10000000 entries, found 0",
        ]
    );
}

#[test]
fn fields_of_tokens_are_refused() {
    right(
        AT,
        json!({ "source": {}, "strict": true, "strictStatus": 421, "absoluteTimeout": "1h" }),
    );
    for (field, value) in [
        ("idleTimeout", json!("1h")),
        ("also", json!([{ "header": { "name": "x-s" } }])),
        ("tell", json!({ "header": { "name": "x-s" } })),
        ("token", json!("signed")),
        ("cacheControl", json!("keep")),
    ] {
        let path = format!("policies.api.{field}");
        wrong(AT, json!({ "source": {}, field: value }), &[&path]);
    }
    wrong(
        AT,
        json!({ "source": {}, "cookie": { "name": "s" } }),
        &["policies.api"],
    );
}
