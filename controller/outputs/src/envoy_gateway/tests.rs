//! Names of objects.
#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use limpet_api::{Kind, ObjectName, ObjectRef};
use limpet_model::FewSet;
use limpet_model::graph::{RuleOrigin, SessionRequester, SessionUse};

use super::rules::SessionRule;
use super::{draining, policies};

fn policy_name(kind: Kind, route: &str, rule: Option<&str>) -> String {
    let origin = RuleOrigin {
        route: ObjectRef {
            kind,
            name: ObjectName::new("shop", route),
        },
        index: 0,
        name: rule.map(str::to_owned),
        gateways: FewSet::default(),
        requested_by: SessionRequester::Rule,
    };
    let session = SessionUse {
        policy: "web".into(),
        scope: "any".into(),
    };
    policies::name(&SessionRule {
        origin: &origin,
        session,
        has_own_cluster: false,
    })
}

/// By the API server's rules: a DNS subdomain.
fn is_legal(name: &str) -> bool {
    let legal = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    name.len() <= 253 && name.split('.').all(legal)
}

#[test]
fn no_two_rules_have_policies_of_one_name() {
    let names = [
        policy_name(Kind::HttpRoute, "a", None),
        policy_name(Kind::HttpRoute, "a", Some("b")),
        policy_name(Kind::HttpRoute, "a-b", None),
        policy_name(Kind::GrpcRoute, "a", None),
    ];
    let different: BTreeSet<&String> = names.iter().collect();
    assert_eq!(different.len(), names.len(), "{names:?}");
    assert!(names[1].starts_with("limpet-a-b-"), "{names:?}");
}

#[test]
fn long_names_stay_legal() {
    let long = format!("{}.{}", "r".repeat(230), "x".repeat(22));
    let rule = "s".repeat(253);
    let names = [
        policy_name(Kind::HttpRoute, &long, Some(&rule)),
        policy_name(Kind::HttpRoute, &long, None),
        policy_name(Kind::HttpRoute, &"r.".repeat(126), None),
        draining::name(&ObjectName::new("shop", &long)),
    ];
    for name in &names {
        assert!(is_legal(name), "{name}");
    }
}
