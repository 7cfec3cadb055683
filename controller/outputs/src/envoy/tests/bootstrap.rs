use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::gateway;
use crate::envoy::{BootstrapOptions, Limits, bootstrap};
use crate::json;

fn made() -> Value {
    let bootstrap = bootstrap(&BootstrapOptions {
        gateway: gateway(),
        node_id: None,
        controller_host: "controller".to_owned(),
        controller_port: 18000,
        tls: None,
        admin_port: 19000,
        ready: (Ipv4Addr::UNSPECIFIED, 19001).into(),
        limits: Limits {
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

/// Default: half a minute, for which sessions would be led away from pods that other Envoys know.
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
