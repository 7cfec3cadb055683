//! `reportSessions`.

use serde_json::json;

use crate::base::*;

#[test]
fn who_is_told_of_sessions_is_checked() {
    let good = json!({ "cluster": "limpet.controller", "nodeCluster": "shop/web" });
    for (field, value, expected) in [
        ("cluster", json!(""), "expected the name of a cluster"),
        ("nodeCluster", json!(""), "expected node.cluster of this Envoy"),
        ("interval", json!("99ms"), "expected a duration from 100ms to 1h"),
        ("interval", json!("61m"), "expected a duration from 100ms to 1h"),
        ("maxBackends", json!(100_001), "expected at most 100000 backends"),
    ] {
        let mut bad = good.clone();
        bad[field] = value;
        let problems = problems(&changed(&[("/reportSessions", bad)]));
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems, [format!("reportSessions.{field}: {expected}")]);
    }
    right("/reportSessions", good);
}
