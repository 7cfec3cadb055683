//! `maxSessionLife`: a key retires for as long as the longest timeout, so an operator bounds it. `maxSourceEntries`: a
//! policy's author could else fill the memory of all Envoys.

use serde_json::{Value, json};

use super::*;
use crate::SessionLimits;

/// The problems of each kind and shape of object with this timeout.
fn everywhere(timeout: &str, value: &str, settings: &Settings) -> Vec<Vec<String>> {
    let named = json!({"sessionName": "s", timeout: value});
    let union = json!({"cookie": {"name": "s"}, timeout: value});
    let of_policy = |kind: &str, persistence: &Value| {
        let mut world = world(SERVICE_AND_ROUTE);
        world.settings = settings.clone();
        world.add(policy(kind, "p", &["a"], persistence));
        refusals(only_ancestor(world.sessions().report_of(kind, "p")))
    };
    let of_rule = |kind: &str, persistence: &Value| {
        let mut world = world(SERVICE_AND_ROUTE);
        world.settings = settings.clone();
        let mut route = route("web", &json!([inline(&["a"], persistence)]));
        route["kind"] = json!(kind);
        world.objects.http_routes.clear();
        world.add(route);
        world.sessions().problems(0)
    };
    let of_backend = || {
        let mut world = world(SERVICE_AND_ROUTE);
        world.settings = settings.clone();
        world.add(json!({
            "kind": "XBackend",
            "metadata": {"name": "x"},
            "spec": {"type": "EndpointSelector", "sessionPersistence": union},
        }));
        let reference = json!({"group": "gateway.networking.x-k8s.io", "kind": "XBackend", "name": "x"});
        world.add(route("web", &json!([{"backendRefs": [reference]}])));
        refusals(only_ancestor(&world.sessions().backends[&ObjectName::new("shop", "x")]))
    };
    let mut all = vec![
        of_policy("BackendLBPolicy", &named),
        of_policy("XBackendTrafficPolicy", &named),
        of_rule("HTTPRoute", &named),
        of_rule("GRPCRoute", &named),
    ];
    if timeout == "absoluteTimeout" {
        all.push(of_policy("XBackendTrafficPolicy", &union));
        all.push(of_rule("HTTPRoute", &union));
        all.push(of_rule("GRPCRoute", &union));
        all.push(of_backend());
    }
    all
}

fn refusals(conditions: Vec<String>) -> Vec<String> {
    let refused = conditions.into_iter().filter(|said| !said.starts_with("Accepted=True"));
    refused.collect()
}

#[test]
fn no_timeout_is_longer_than_the_operator_allows() {
    for timeout in ["absoluteTimeout", "idleTimeout"] {
        for found in everywhere(timeout, "99999h", &Settings::default()) {
            let [refusal] = &found[..] else {
                panic!("{timeout}: {found:?}");
            };
            let message = format!(
                ".sessionPersistence.{timeout}: expected at most 720h, the maxSessionLife of the controller's \
                 configuration, found 99999h"
            );
            assert!(refusal.ends_with(&message), "{refusal}");
        }
        let hour = Settings {
            session_limits: SessionLimits {
                life: "1h".parse().unwrap(),
                ..SessionLimits::default()
            },
            ..Settings::default()
        };
        for (longest, settings) in [("720h", &Settings::default()), ("1h", &hour)] {
            for found in everywhere(timeout, longest, settings) {
                assert!(found.is_empty(), "{timeout}: {found:?}");
            }
        }
        for found in everywhere(timeout, "1h1ms", &hour) {
            assert!(found[0].contains("expected at most 1h, "), "{found:?}");
        }
    }
}

#[test]
fn no_table_has_more_entries_than_the_operator_allows() {
    let refused = |entries: u32| {
        let mut world = world(SERVICE_AND_ROUTE);
        world.settings.session_limits.source_entries = 1000;
        let mut policy = policy("BackendLBPolicy", "p", &["a"], &json!({"sessionName": "s"}));
        let source = format!("{{timeout: 1h, entries: {entries}}}");
        policy["metadata"]["annotations"] = json!({"session.limpet.dev/source": source});
        world.add(policy);
        refusals(only_ancestor(world.sessions().report_of("BackendLBPolicy", "p")))
    };
    assert_eq!(refused(1000), [""; 0]);
    let found = refused(1001).concat();
    let message = "entries: expected at most 1000, the maxSourceEntries of the controller's configuration, found 1001";
    assert!(
        found.contains("session.limpet.dev/source") && found.ends_with(message),
        "{found}"
    );
}
