use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{all, forward, graph, listening, module, only, route, to, with_session};
use crate::envoy::EnvoyOptions;
use limpet_api::ObjectName;
use limpet_model::graph::{Hostname, Listener, VirtualHost};
use limpet_model::{Certificate, Graph};
use limpet_resources::ResourceType;

fn plain() -> Graph {
    graph(vec![with_session(forward(vec![to("v1", 1)]), "web")])
}

fn manager(listener: &Value, chain: usize) -> Value {
    listener["filter_chains"][chain]["filters"][0]["typed_config"].clone()
}

fn names(filters: &Value) -> Vec<&str> {
    let filters = filters.as_array().unwrap();
    filters.iter().filter_map(|filter| filter["name"].as_str()).collect()
}

#[test]
fn a_port_without_tls_has_one_chain_for_all_hosts() {
    let listener = only(&plain(), &EnvoyOptions::default(), ResourceType::Listener);
    assert_eq!(listener["name"], "http-80");
    assert_eq!(
        listener["address"],
        json!({"socket_address": {"address": "0.0.0.0", "port_value": 80}})
    );
    assert_eq!(listener["filter_chains"].as_array().unwrap().len(), 1);
    assert_eq!(listener.get("listener_filters"), None);
    let manager = manager(&listener, 0);
    assert_eq!(
        manager["rds"],
        json!({
            "config_source": {"ads": {}, "initial_fetch_timeout": "0s", "resource_api_version": "V3"},
            "route_config_name": "http-80",
        })
    );
    assert_eq!(manager["upgrade_configs"], json!([{"upgrade_type": "websocket"}]));
    assert_eq!(manager["use_remote_address"], true);
    assert_eq!(manager["normalize_path"], true);
    assert_eq!(manager["merge_slashes"], true);
    assert_eq!(manager["server_header_transformation"], "PASS_THROUGH");
    assert_eq!(manager.get("codec_type"), None, "AUTO is the default");
    assert_eq!(manager.get("access_log"), None);
}

#[test]
fn the_wasm_filters_chain_is_that_of_the_examples() {
    let manager = manager(&only(&plain(), &EnvoyOptions::default(), ResourceType::Listener), 0);
    let filters = &manager["http_filters"];
    assert_eq!(
        names(filters),
        [
            "envoy.filters.http.cors",
            "limpet.internal_headers",
            "limpet.wasm",
            "limpet.stateful_session",
            "limpet.stateful_session_strict",
            "envoy.filters.http.router"
        ]
    );
    assert_eq!(filters[0]["disabled"], true, "routes ask for it");
    let early = &manager["early_header_mutation_extensions"][0]["typed_config"]["mutations"];
    assert_eq!(
        *early,
        json!([
            {"remove": "x-limpet-host"},
            {"remove": "x-limpet-host-strict"},
            {"remove": "x-limpet-destination"},
            {"remove": "x-limpet-session"},
        ])
    );
    assert_eq!(
        filters[1]["typed_config"]["mutations"],
        json!({
            "request_mutations": [
                {"remove": "x-limpet-session"},
                {"append": {
                    "header": {"key": "x-limpet-session", "value": "%METADATA(ROUTE:limpet:session)%"},
                    "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
                }},
            ],
            "response_mutations": [{"remove": "x-limpet-host"}, {"remove": "x-limpet-host-strict"}],
        })
    );
    assert_eq!(
        filters[2]["config_discovery"],
        json!({
            "config_source": {"ads": {}, "initial_fetch_timeout": "0s", "resource_api_version": "V3"},
            "type_urls": [
                "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
                "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
            ],
        })
    );
    for (filter, header, strict) in [
        (&filters[3], "x-limpet-host", Value::Null),
        (&filters[4], "x-limpet-host-strict", json!(true)),
    ] {
        assert_eq!(filter["disabled"], true, "routes ask for it");
        assert_eq!(filter["typed_config"]["strict"], strict);
        assert_eq!(filter["typed_config"]["session_state"]["typed_config"]["name"], header);
    }
}

#[test]
fn the_module_has_nothing_around_it() {
    let manager = manager(&only(&plain(), &module(), ResourceType::Listener), 0);
    assert_eq!(
        names(&manager["http_filters"]),
        ["envoy.filters.http.cors", "limpet.module", "envoy.filters.http.router"]
    );
    assert_eq!(
        manager["early_header_mutation_extensions"][0]["typed_config"]["mutations"],
        json!([{"remove": "x-limpet-destination"}])
    );
}

/// Envoy refuses requests with this flag if it has no configuration of a discovered filter, and no default.
#[test]
fn where_the_filter_is_missing_envoy_answers_503() {
    for options in [EnvoyOptions::default(), module()] {
        let manager = manager(&only(&plain(), &options, ResourceType::Listener), 0);
        let mappers = manager["local_reply_config"]["mappers"].as_array().unwrap();
        assert_eq!(mappers.len(), 1);
        assert_eq!(
            mappers[0]["filter"],
            json!({"response_flag_filter": {"flags": ["NFCF"]}})
        );
        assert_eq!(mappers[0]["status_code"], 503);
        let filters = manager["http_filters"].as_array().unwrap();
        let discovered = filters.iter().filter(|filter| !filter["config_discovery"].is_null());
        let defaults: Vec<_> = discovered
            .map(|filter| filter["config_discovery"].get("default_config"))
            .collect();
        assert_eq!(defaults, [None]);
    }
}

#[test]
fn listeners_do_not_change_with_routes_policies_or_keys() {
    let listener = |routes| only(&graph(routes), &EnvoyOptions::default(), ResourceType::Listener);
    let with = listener(vec![with_session(forward(vec![to("v1", 1), to("v2", 0)]), "strict")]);
    assert_eq!(with, listener(vec![route(vec![to("v2", 1)])]));
}

#[test]
fn a_dual_stack_listener_takes_both() {
    let options = EnvoyOptions {
        listen_address: "::".parse().unwrap(),
        access_log: true,
        ..EnvoyOptions::default()
    };
    let listener = only(&plain(), &options, ResourceType::Listener);
    assert_eq!(
        listener["address"],
        json!({"socket_address": {"address": "::", "port_value": 80, "ipv4_compat": true}})
    );
    let log = &manager(&listener, 0)["access_log"][0]["typed_config"]["log_format"]["text_format_source"];
    let log = log["inline_string"].as_str().unwrap();
    assert!(
        log.contains("session=%FILTER_STATE(wasm.limpet.session:PLAIN)%"),
        "{log}"
    );
}

fn tls(name: &str, hostname: &str, certificates: &[&str]) -> Listener {
    let certificates = certificates.iter().map(|name| ObjectName::new("shop", name));
    Listener {
        name: name.to_owned(),
        hostname: Hostname::parse(Some(hostname)),
        certificates: Some(certificates.collect()),
        tls_minimum: None,
        virtual_hosts: Listener::hosts([VirtualHost {
            hostname: Hostname::parse(Some(hostname)),
            routes: vec![route(vec![to("v1", 1)])],
        }]),
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "what each listener becomes")]
fn listeners_with_tls_have_a_chain_and_routes_each() {
    let listeners = vec![
        tls("shop", "shop.example.com", &["shop"]),
        tls("rest", "*.example.com", &["rest", "more"]),
        tls("all", "", &["rest"]),
    ];
    let mut graph = listening(BTreeMap::from([(443, listeners)]));
    let certificate = |text: &str| Certificate {
        chain: Arc::from(text.as_bytes()),
        key: Arc::new(Zeroizing::new(b"key".to_vec())),
    };
    for name in ["shop", "rest", "more"] {
        graph
            .certificates
            .insert(ObjectName::new("shop", name), Arc::new(certificate(name)));
    }
    let listener = only(&graph, &EnvoyOptions::default(), ResourceType::Listener);
    assert_eq!(listener["name"], "https-443");
    assert_eq!(
        listener["listener_filters"][0]["name"],
        "envoy.filters.listener.tls_inspector"
    );
    let chains = listener["filter_chains"].as_array().unwrap();
    let names: Vec<_> = chains.iter().map(|chain| &chain["filter_chain_match"]).collect();
    assert_eq!(
        names,
        [
            &json!({"server_names": ["shop.example.com"]}),
            &json!({"server_names": ["*.example.com"]}),
            &json!({})
        ]
    );
    let routes: Vec<_> = (0..3)
        .map(|chain| manager(&listener, chain)["rds"]["route_config_name"].clone())
        .collect();
    assert_eq!(routes, ["https-443/shop", "https-443/rest", "https-443/all"]);
    let tls = &chains[1]["transport_socket"]["typed_config"]["common_tls_context"];
    assert_eq!(tls["alpn_protocols"], json!(["h2", "http/1.1"]));
    let ads = json!({"ads": {}, "initial_fetch_timeout": "0s", "resource_api_version": "V3"});
    let sds = |name: &str| json!({"name": name, "sds_config": ads});
    assert_eq!(
        tls["tls_certificate_sds_secret_configs"],
        json!([sds("shop/rest"), sds("shop/more")])
    );

    let secrets = all(&graph, &EnvoyOptions::default(), ResourceType::Secret);
    let names: Vec<_> = secrets.iter().map(|secret| &secret["name"]).collect();
    assert_eq!(names, ["shop/more", "shop/rest", "shop/shop"]);
    // "more" and "key".
    assert_eq!(
        secrets[0]["tls_certificate"],
        json!({"certificate_chain": {"inline_bytes": "bW9yZQ=="}, "private_key": {"inline_bytes": "a2V5"}})
    );

    let routes = all(&graph, &EnvoyOptions::default(), ResourceType::RouteConfiguration);
    let names: Vec<_> = routes.iter().map(|routes| &routes["name"]).collect();
    assert_eq!(names, ["https-443/all", "https-443/rest", "https-443/shop"]);
    let domains = |routes: &Value| {
        let hosts = routes["virtual_hosts"].as_array().unwrap().iter();
        hosts.map(|host| host["domains"].clone()).collect::<Vec<_>>()
    };
    let expected = [
        [json!(["*"]), json!(["shop.example.com", "*.example.com"])],
        [json!(["*.example.com"]), json!(["shop.example.com", "*"])],
        [json!(["shop.example.com"]), json!(["*.example.com", "*"])],
    ];
    assert_eq!(routes.iter().map(domains).collect::<Vec<_>>(), expected);
    for routes in &routes {
        let misdirected = &routes["virtual_hosts"][1];
        assert_eq!(misdirected["name"], "misdirected");
        assert_eq!(misdirected["routes"][0]["match"], json!({"prefix": "/"}));
        assert_eq!(misdirected["routes"][0]["direct_response"], json!({"status": 421}));
    }
}

#[test]
fn the_only_listener_of_a_port_misdirects_nothing() {
    let graph = listening(BTreeMap::from([(443, vec![tls("all", "shop.example.com", &["shop"])])]));
    let routes = only(&graph, &EnvoyOptions::default(), ResourceType::RouteConfiguration);
    assert_eq!(routes["virtual_hosts"].as_array().unwrap().len(), 1);
}

#[test]
fn a_listener_without_a_certificate_is_left_out() {
    let graph = listening(BTreeMap::from([(443, vec![tls("none", "shop.example.com", &[])])]));
    assert_eq!(
        all(&graph, &EnvoyOptions::default(), ResourceType::Listener),
        [Value::Null; 0]
    );
}

#[test]
fn a_ports_hosts_are_those_of_all_its_listeners() {
    let listener = |name: &str, hostname: &str| Listener {
        certificates: None,
        tls_minimum: None,
        ..tls(name, hostname, &[])
    };
    let graph = listening(BTreeMap::from([(
        80,
        vec![listener("a", "a.example.com"), listener("b", "")],
    )]));
    let routes = only(&graph, &EnvoyOptions::default(), ResourceType::RouteConfiguration);
    assert_eq!(routes["name"], "http-80");
    assert_eq!(routes["ignore_port_in_host_matching"], true);
    assert_eq!(routes["validate_clusters"], false);
    let hosts = routes["virtual_hosts"].as_array().unwrap().iter();
    let hosts: Vec<_> = hosts
        .map(|host| (host["name"].clone(), host["domains"].clone()))
        .collect();
    assert_eq!(
        hosts,
        [
            (json!("a/a.example.com"), json!(["a.example.com"])),
            (json!("b/*"), json!(["*"]))
        ]
    );
}
