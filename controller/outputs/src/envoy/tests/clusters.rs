use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use prost::Message as _;
use serde_json::{Value, json};

use super::{all, cluster, forward, gateway, graph, route, to, with_session};
use crate::envoy::{EnvoyOptions, load_assignment, resources};
use crate::json;
use limpet_core::envoy::HASH_STATE;
use limpet_model::Authorities;
use limpet_model::endpoints::{Endpoint, EndpointState};
use limpet_model::graph::{
    BackendTls, Balance, ClusterName, HashOn, Protocol, SessionUse, SubjectAltName, TrustedAuthorities,
};
use limpet_resources::ResourceType;

#[test]
fn a_cluster_has_eds_and_keeps_sessions_on_draining_hosts() {
    let graph = graph(vec![route(vec![to("v1", 1)])]);
    let clusters = all(&graph, &EnvoyOptions::default(), ResourceType::Cluster);
    assert_eq!(
        clusters,
        [json!({
            "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            "name": "v1",
            "type": "EDS",
            "eds_cluster_config": {
                "eds_config": {"ads": {}, "initial_fetch_timeout": "0s", "resource_api_version": "V3"},
            },
            "connect_timeout": "1s",
            "circuit_breakers": {"thresholds": [{"max_retries": 1024}]},
            "lb_policy": "LEAST_REQUEST",
            "common_lb_config": {"override_host_status": {"statuses": ["UNKNOWN", "HEALTHY", "DEGRADED", "DRAINING"]}},
        })]
    );
}

#[test]
fn the_connect_timeout_of_pods_is_that_of_the_options() {
    let mut graph = graph(vec![route(vec![to("v1", 1), to("v2", 1)])]);
    let mut outside = cluster("v2");
    outside.external_name = Some("web.example.com".to_owned());
    graph.clusters.insert(ClusterName("v2".into()), Arc::new(outside));
    let options = EnvoyOptions {
        connect_timeout: Duration::from_millis(250).into(),
        ..EnvoyOptions::default()
    };
    let clusters = all(&graph, &options, ResourceType::Cluster);
    let timeouts: Vec<&Value> = clusters.iter().map(|cluster| &cluster["connect_timeout"]).collect();
    assert_eq!(timeouts, ["0.250s", "5s"], "what is outside has its own");
}

#[test]
fn a_cluster_may_speak_http2_and_have_sessions_of_its_own() {
    let mut graph = graph(vec![route(vec![to("v1", 1)])]);
    let mut spec = cluster("v1");
    spec.protocol = Protocol::H2c;
    spec.session = Some(SessionUse {
        policy: "web".into(),
        scope: "XBackend/shop/v1".into(),
    });
    graph.clusters.insert(ClusterName("v1".into()), Arc::new(spec));
    let made = all(&graph, &EnvoyOptions::default(), ResourceType::Cluster).remove(0);
    assert_eq!(
        made["metadata"],
        json!({"filter_metadata": {"limpet": {"session": "web/XBackend/shop/v1"}}})
    );
    let options = &made["typed_extension_protocol_options"]["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"];
    assert_eq!(options["explicit_http_config"], json!({"http2_protocol_options": {}}));
}

#[test]
fn a_cluster_may_be_one_in_which_the_address_chooses() {
    let mut forward = forward(vec![to("v1", 1), to("v2", 1)]);
    forward.hash = vec![HashOn::Address];
    let mut graph = graph(vec![with_session(forward, "web")]);
    let mut spec = cluster("v1");
    spec.balance = Balance::RingHash;
    graph.clusters.insert(ClusterName("v1".into()), Arc::new(spec));
    let clusters = all(&graph, &EnvoyOptions::default(), ResourceType::Cluster);
    let policies: Vec<&str> = clusters.iter().filter_map(|made| made["lb_policy"].as_str()).collect();
    assert_eq!(policies, ["RING_HASH", "LEAST_REQUEST"]);
    let routes = all(&graph, &EnvoyOptions::default(), ResourceType::RouteConfiguration).remove(0);
    let routes = routes["virtual_hosts"][0]["routes"].as_array().expect("routes").clone();
    assert_eq!(routes.len(), 3, "one for each cluster, and the weighted one");
    for route in routes {
        assert_eq!(
            route["route"]["hash_policy"],
            json!([
                {"filter_state": {"key": HASH_STATE}, "terminal": true},
                {"connection_properties": {"source_ip": true}},
            ])
        );
    }
}

#[test]
fn a_cluster_over_tls_names_its_authorities_by_content() {
    let mut graph = graph(vec![route(vec![to("v1", 1)]), route(vec![to("v2", 1)])]);
    let authorities = Authorities::of_pem("one");
    let secret = format!("limpet.authorities/{}", authorities.name());
    for (name, protocol) in [("v1", Protocol::Http1), ("v2", Protocol::H2c)] {
        let mut spec = cluster(name);
        spec.protocol = protocol;
        spec.tls = Some(BackendTls {
            sni: "web.internal".to_owned(),
            subject_alt_names: vec![
                SubjectAltName::Dns("web.internal".to_owned()),
                SubjectAltName::Uri("spiffe://shop/web".to_owned()),
            ],
            authorities: TrustedAuthorities::Certificates(authorities.clone()),
        });
        graph.clusters.insert(ClusterName(name.into()), Arc::new(spec));
    }
    let clusters = all(&graph, &EnvoyOptions::default(), ResourceType::Cluster);
    let names = json!([
        {"san_type": "DNS", "matcher": {"exact": "web.internal"}},
        {"san_type": "URI", "matcher": {"exact": "spiffe://shop/web"}},
    ]);
    for (cluster, alpn) in clusters.iter().zip(["http/1.1", "h2"]) {
        let expected = json!({
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "sni": "web.internal",
            "common_tls_context": {
                "tls_params": {"tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3"},
                "alpn_protocols": [alpn],
                "combined_validation_context": {
                    "default_validation_context": {"match_typed_subject_alt_names": names},
                    "validation_context_sds_secret_config": {
                        "name": secret,
                        "sds_config": {"ads": {}, "initial_fetch_timeout": "0s", "resource_api_version": "V3"},
                    },
                },
            },
        });
        assert_eq!(cluster["transport_socket"]["typed_config"], expected);
    }
    let secrets = all(&graph, &EnvoyOptions::default(), ResourceType::Secret);
    assert_eq!(
        secrets,
        [json!({
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
            "name": secret,
            "validation_context": {"trusted_ca": {"inline_string": "one"}},
        })],
        "equal authorities are one secret"
    );
}

#[test]
fn system_authorities_are_the_file_of_the_options() {
    let mut graph = graph(vec![route(vec![to("v1", 1)])]);
    let mut spec = cluster("v1");
    spec.tls = Some(BackendTls {
        sni: "web.internal".to_owned(),
        subject_alt_names: vec![SubjectAltName::Dns("web.internal".to_owned())],
        authorities: TrustedAuthorities::System,
    });
    graph.clusters.insert(ClusterName("v1".into()), Arc::new(spec));
    let file = |options: &EnvoyOptions| {
        let secret = all(&graph, options, ResourceType::Secret).remove(0);
        assert_eq!(secret["name"], "limpet.authorities/system");
        secret["validation_context"]["trusted_ca"]["filename"].clone()
    };
    assert_eq!(file(&EnvoyOptions::default()), "/etc/ssl/certs/ca-certificates.crt");
    let options = EnvoyOptions {
        system_authorities: "/etc/pki/ca.crt".to_owned(),
        ..EnvoyOptions::default()
    };
    assert_eq!(file(&options), "/etc/pki/ca.crt");
}

#[test]
fn a_gateway_has_the_clusters_of_its_routes_and_no_others() {
    let names = |routes| {
        let all = resources(&graph(routes), &gateway(), &EnvoyOptions::default(), &super::inputs());
        let clusters = all
            .into_iter()
            .filter(|one| one.resource_type() == ResourceType::Cluster);
        clusters.map(|one| one.name().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(vec![]), [""; 0]);
    assert_eq!(names(vec![route(vec![to("v2", 1)])]), ["v2"]);
    let split = with_session(forward(vec![to("v1", 1), to("v2", 0), to("v3", 1)]), "web");
    assert_eq!(names(vec![split]), ["v1", "v2"]);
}

#[test]
fn endpoints_are_sorted_and_say_which_of_them_drain() {
    let endpoint = |address: &str, state| Endpoint {
        address: address.parse().unwrap(),
        state,
        owner: None,
        pod: None,
    };
    let endpoints = [
        endpoint("[2001:db8::7]:8080", EndpointState::Ready),
        endpoint("10.0.0.8:8080", EndpointState::Draining),
        endpoint("10.0.0.7:8080", EndpointState::Ready),
    ];
    let made = load_assignment(&ClusterName("v1".into()), &endpoints);
    let lb = |address: &str, status: &str| {
        let address = json!({"socket_address": {"address": address, "port_value": 8080}});
        json!({"health_status": status, "endpoint": {"address": address}})
    };
    assert_eq!(
        json::resource(&made).unwrap(),
        json!({
            "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            "cluster_name": "v1",
            "endpoints": [{"lb_endpoints": [
                lb("10.0.0.7", "HEALTHY"),
                lb("10.0.0.8", "DRAINING"),
                lb("2001:db8::7", "HEALTHY"),
            ]}],
        })
    );
    let encoded = ClusterLoadAssignment::decode(made.body()).unwrap().encode_to_vec();
    assert_eq!(made.body(), encoded, "the bytes of one message");
    let mut reversed = endpoints;
    reversed.reverse();
    assert_eq!(
        load_assignment(&ClusterName("v1".into()), &reversed).version(),
        made.version()
    );
}

#[test]
fn the_server_of_the_wasm_filter_is_a_cluster() {
    let graph = graph(vec![]);
    let cluster = |url: &str| {
        let filter = json!({"filter": {"wasm": {"remote": {"url": url, "sha256": "00"}}}});
        let options: EnvoyOptions = serde_json::from_value(filter).unwrap();
        let made = all(&graph, &options, ResourceType::Cluster).remove(0);
        assert_eq!(made["name"], "limpet.code");
        let endpoint = made["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"].clone();
        let tls = made["transport_socket"]["typed_config"]["sni"].clone();
        (made["type"].clone(), endpoint["address"]["socket_address"].clone(), tls)
    };
    let at = |address: &str, port: u16| json!({"address": address, "port_value": port});
    assert_eq!(
        cluster("https://files.example.com/limpet.wasm"),
        (
            json!("STRICT_DNS"),
            at("files.example.com", 443),
            json!("files.example.com")
        )
    );
    assert_eq!(
        cluster("http://[::1]:8080/x"),
        (json!("STATIC"), at("::1", 8080), json!(null))
    );
    assert_eq!(
        cluster("http://10.0.0.7/a:b"),
        (json!("STATIC"), at("10.0.0.7", 80), json!(null))
    );
}
