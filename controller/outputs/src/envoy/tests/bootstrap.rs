use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::gateway;
use crate::envoy::{BootstrapOptions, OverloadLimits, bootstrap};
use crate::json;

fn made() -> Value {
    with_metrics(None)
}

fn with_metrics(port: Option<u16>) -> Value {
    let bootstrap = bootstrap(&BootstrapOptions {
        gateway: gateway(),
        node_id: None,
        controller_host: "controller".to_owned(),
        controller_port: 18000,
        tls: None,
        admin_port: 19000,
        ready: (Ipv4Addr::UNSPECIFIED, 19001).into(),
        metrics: port.map(|port| (Ipv4Addr::UNSPECIFIED, port).into()),
        limits: OverloadLimits {
            heap: 1 << 30,
            connections: 1000,
        },
    });
    json::typed(&bootstrap).unwrap()
}

#[test]
fn an_envoy_without_listeners_is_never_ready() {
    for config in ["lds_config", "cds_config"] {
        let found = &made()["dynamic_resources"][config];
        assert_eq!(found["initial_fetch_timeout"], "0s", "{config}: {found}");
    }
}

#[test]
fn an_envoy_soon_connects_to_a_controller_again() {
    let services = &made()["dynamic_resources"]["ads_config"]["grpc_services"];
    let back_off = &services[0]["envoy_grpc"]["retry_policy"]["retry_back_off"];
    assert_eq!(*back_off, json!({"base_interval": "0.100s", "max_interval": "1s"}));
}

#[test]
fn the_admin_interface_is_on_loopback_and_nothing_leads_there() {
    let made = made();
    let admin = &made["admin"]["address"]["socket_address"];
    assert_eq!(*admin, json!({"address": "127.0.0.1", "port_value": 19000}));
    let clusters = made["static_resources"]["clusters"].as_array().unwrap();
    let names: Vec<_> = clusters.iter().map(|cluster| &cluster["name"]).collect();
    assert_eq!(names, ["limpet.controller"]);
}

#[test]
fn one_page_of_the_admin_interface_is_for_prometheus() {
    let made = with_metrics(Some(9102));
    let resources = &made["static_resources"];
    let endpoint = &resources["clusters"][1]["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"];
    assert_eq!(
        endpoint["address"]["socket_address"],
        json!({"address": "127.0.0.1", "port_value": 19000})
    );
    let listener = &resources["listeners"][2];
    assert_eq!(listener["address"]["socket_address"]["port_value"], 9102);
    let manager = &listener["filter_chains"][0]["filters"][0]["typed_config"];
    let routes = manager["route_config"]["virtual_hosts"][0]["routes"]
        .as_array()
        .unwrap();
    let to_clusters: Vec<_> = routes.iter().filter(|route| route["route"].is_object()).collect();
    let [page] = *to_clusters else { panic!("{routes:?}") };
    assert_eq!(page["match"]["path"], "/stats/prometheus");
    assert_eq!(
        page["match"]["headers"],
        json!([{"name": ":method", "string_match": {"exact": "GET"}}])
    );
    let rewrites = ["prefix_rewrite", "regex_rewrite", "host_rewrite_literal"];
    assert!(
        rewrites.iter().all(|rewrite| page["route"][rewrite].is_null()),
        "{page}"
    );
    let without = &self::made()["static_resources"];
    let count = |list: &str| without[list].as_array().unwrap().len();
    assert_eq!((count("clusters"), count("listeners")), (1, 2));
}
