//! The JSON of policies, which must not change (`src/config/schema/policy.rs`).

use std::collections::BTreeSet;

use limpet_core::config::schema::PolicyConfig;
use serde_json::Value;

/// Policies that set only what is required, and their JSON.
const SHORTEST: [(&str, &str); 3] = [
    (
        r#"{"cookie":{"name":"s"}}"#,
        concat!(
            r#"{"cookie":{"name":"s","mode":"insert","path":"/","secure":"auto","sameSite":"Strict","#,
            r#""lifetimeType":"Session"},"token":"sealed","cacheControl":"private"}"#
        ),
    ),
    (
        r#"{"header":{"name":"s"}}"#,
        r#"{"header":{"name":"s","mode":"insert"},"token":"sealed","cacheControl":"private"}"#,
    ),
    (
        r#"{"source":{}}"#,
        r#"{"source":{},"token":"sealed","cacheControl":"private"}"#,
    ),
];

/// Policies that set every field to another value than its default.
const LONGEST: [&str; 4] = [
    concat!(
        r#"{"cookie":{"name":"s","mode":"prefix","path":"/a","domain":"example.com","secure":"always","#,
        r#""httpOnly":false,"sameSite":"Lax","partitioned":true,"lifetimeType":"Permanent","perScope":true,"#,
        r#""forward":true},"also":[{"cookie":{"name":"t","forward":true}},{"header":{"name":"t","forward":true}},"#,
        r#"{"query":{"name":"t","forward":true}},{"cookie":{"name":"u"},"former":true}],"#,
        r#""tell":{"header":{"name":"t"}},"#,
        r#""begin":{"cookie":"t","methods":["POST","PUT"]},"end":{"cookie":"t"},"strict":true,"strictStatus":421,"#,
        r#""absoluteTimeout":"1h","idleTimeout":"1m","formerLags":[{"namespace":"n","lag":"1h","#,
        r#""until":7}],"token":"signed","cacheControl":"keep"}"#
    ),
    concat!(
        r#"{"header":{"name":"s","mode":"prefix","forward":true},"begin":{"header":"t"},"strict":true,"#,
        r#""strictStatus":421,"absoluteTimeout":"1h","idleTimeout":"1m","token":"signed","cacheControl":"keep"}"#
    ),
    concat!(
        r#"{"query":{"name":"s","forward":true,"redirects":true},"tell":{"header":{"name":"t"}},"#,
        r#""move":{"header":"m"},"rebalance":"1m","token":"signed","cacheControl":"keep"}"#
    ),
    concat!(
        r#"{"source":{"prefixV4":24,"prefixV6":128,"timeout":"1h","entries":7},"begin":{"methods":["POST"]},"#,
        r#""end":{"cookie":"t"},"strict":true,"strictStatus":421,"#,
        r#""absoluteTimeout":"1h","idleTimeout":"1m","token":"signed","cacheControl":"keep"}"#
    ),
];

fn written(policy: &str) -> String {
    let policy: PolicyConfig = serde_json::from_str(policy).unwrap();
    serde_json::to_string(&policy).unwrap()
}

fn paths(json: &str) -> BTreeSet<String> {
    fn collect(value: &Value, path: &str, paths: &mut BTreeSet<String>) {
        for item in value.as_array().into_iter().flatten() {
            collect(item, path, paths);
        }
        for (name, value) in value.as_object().into_iter().flatten() {
            let path = format!("{path}{name}");
            collect(value, &format!("{path}."), paths);
            paths.insert(path);
        }
    }
    let mut paths = BTreeSet::new();
    collect(&serde_json::from_str(json).unwrap(), "", &mut paths);
    paths
}

#[test]
fn a_field_that_is_not_set_is_not_written() {
    for (policy, expected) in SHORTEST {
        let written = written(policy);
        let new: Vec<_> = paths(&written).difference(&paths(expected)).cloned().collect();
        assert!(
            new.is_empty(),
            "{new:?} would be written for every policy and rename all of them: add skip_serializing_if"
        );
        assert_eq!(written, expected, "policies that set nothing would be renamed");
    }
}

#[test]
fn fields_keep_their_order() {
    for policy in LONGEST {
        assert_eq!(
            written(policy),
            policy,
            "policies that set these fields would be renamed"
        );
    }
}

fn names(schema: &Value) -> BTreeSet<&str> {
    let own = schema["properties"].as_object().into_iter().flatten();
    let parts = schema.as_object().into_iter().flatten().map(|(_, part)| part);
    let parts = parts.chain(schema.as_array().into_iter().flatten());
    own.map(|(name, _)| name.as_str())
        .chain(parts.flat_map(names))
        .collect()
}

#[test]
fn every_field_has_its_order() {
    let schema = schemars::schema_for!(PolicyConfig).to_value();
    let paths: BTreeSet<String> = LONGEST.into_iter().flat_map(paths).collect();
    let is_set = |name: &&str| paths.iter().any(|path| path.rsplit('.').next() == Some(*name));
    let missing: Vec<_> = names(&schema).into_iter().filter(|name| !is_set(name)).collect();
    assert!(missing.is_empty(), "no policy of LONGEST sets {missing:?}");
}
