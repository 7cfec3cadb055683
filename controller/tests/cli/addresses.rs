//! Sessions that addresses hold: `source.yaml` with one change.

use serde_json::{Value, json};

use crate::{assert_one, example, findings};

const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
const CLUSTER: &str = "/static_resources/clusters/0";

fn with(place: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut envoy = example("source.yaml");
    change(envoy.pointer_mut(place).unwrap());
    envoy
}

fn hashing(policies: Value) -> Value {
    with(MANAGER, |manager| {
        manager["route_config"]["virtual_hosts"][0]["routes"][0]["route"]["hash_policy"] = policies;
    })
}

#[test]
fn a_client_must_not_choose_its_address() {
    assert_eq!(findings(&example("source.yaml")), (0, vec![]));
    let expected = "expected use_remote_address: true, or original_ip_detection_extensions: without them, any client \
                    of the policy web chooses its address by X-Forwarded-For";
    for value in [json!(null), json!(false)] {
        let chosen = with(MANAGER, |manager| manager["use_remote_address"] = value);
        assert_one(&chosen, "warning", "filters[0].typed_config", expected);
    }
    let detected = with(MANAGER, |manager| {
        manager["use_remote_address"] = json!(false);
        manager["original_ip_detection_extensions"] = json!([{"name": "custom"}]);
    });
    assert_eq!(findings(&detected), (0, vec![]));
}

#[test]
fn envoys_must_hash_alike() {
    let expected = "expected a hash_policy that begins with filter_state \
                    envoy.filters.listener.original_dst.remote_ip, terminal, and connection_properties \
                    source_ip: without them, each Envoy chooses a backend of its own for a new client of web/default";
    let state = json!({
        "filter_state": {"key": "envoy.filters.listener.original_dst.remote_ip"},
        "terminal": true,
    });
    let address = json!({"connection_properties": {"source_ip": true}});
    for wrong in [
        json!(null),
        json!([]),
        json!([address]),
        json!([state]),
        json!([address, state]),
        json!([{"filter_state": state["filter_state"]}, address]),
        json!([{"filter_state": {"key": "other"}, "terminal": true}, address]),
        json!([state, {"header": {"header_name": "x"}}]),
    ] {
        assert_one(&hashing(wrong), "warning", "routes[0]", expected);
    }
    assert_eq!(findings(&hashing(json!([state, address]))), (0, vec![]));
}

#[test]
fn clusters_must_balance_by_the_hash() {
    let expected = "lb_policy: expected MAGLEV or RING_HASH, which choose by a hash: without it, each Envoy chooses a \
                    backend of its own for a new client of web/default";
    for wrong in [json!(null), json!("ROUND_ROBIN"), json!("LEAST_REQUEST")] {
        let in_turn = with(CLUSTER, |cluster| cluster["lb_policy"] = wrong);
        assert_one(&in_turn, "warning", "clusters[0]", expected);
    }
    let typed = |kind: &str| {
        let kind = format!("type.googleapis.com/envoy.extensions.load_balancing_policies.{kind}");
        let policy = json!({"typed_extension_config": {"name": "lb", "typed_config": {"@type": kind}}});
        with(CLUSTER, |cluster| {
            cluster["lb_policy"] = json!(null);
            cluster["load_balancing_policy"] = json!({"policies": [policy]});
        })
    };
    for right in ["maglev.v3.Maglev", "ring_hash.v3.RingHash"] {
        assert_eq!(findings(&typed(right)), (0, vec![]));
    }
    assert_one(&typed("round_robin.v3.RoundRobin"), "warning", "clusters[0]", expected);
    let ring = with(CLUSTER, |cluster| cluster["lb_policy"] = json!("RING_HASH"));
    assert_eq!(findings(&ring), (0, vec![]));
}
