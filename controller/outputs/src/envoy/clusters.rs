//! Clusters and their endpoints.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::circuit_breakers::Thresholds;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, CommonLbConfig, DiscoveryType, EdsClusterConfig, LbPolicy,
};
use envoy_types::pb::envoy::config::cluster::v3::{CircuitBreakers, Cluster as EnvoyCluster};
use envoy_types::pb::envoy::config::core::v3::health_check::{HealthChecker, HttpHealthCheck};
use envoy_types::pb::envoy::config::core::v3::{
    HealthCheck as EnvoyHealthCheck, HealthStatus, HealthStatusSet, Http2ProtocolOptions,
};
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint as EnvoyEndpoint, LbEndpoint, LocalityLbEndpoints,
};
use envoy_types::pb::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::http_protocol_options::explicit_http_config::ProtocolConfig;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::http_protocol_options::{
    ExplicitHttpConfig, UpstreamProtocolOptions,
};
use envoy_types::pb::envoy::r#type::v3::Percent;
use envoy_types::pb::google::protobuf::Any;

use super::backend_tls;
use super::pack::{ads, duration, number, pack, session, socket};
use limpet_core::envoy::NO_SESSION;
use limpet_model::endpoints::{Endpoint, EndpointState};
use limpet_model::graph::{Balance, Cluster, ClusterName, HealthCheck, Protocol};

/// A server outside of the cluster may be far, and is the only one.
const CONNECT_TIMEOUT_OUTSIDE: Duration = Duration::from_secs(5);

/// Retries of a cluster at once: as many as requests. Envoy's default is 3, so when a backend goes under load, most
/// requests would fail instead of being tried again.
const MAX_RETRIES: u32 = 1024;

/// Health states in which a host keeps its sessions. Envoy's default lacks DRAINING, so draining would move sessions.
const SESSIONS_STAY: [HealthStatus; 4] = [
    HealthStatus::Unknown,
    HealthStatus::Healthy,
    HealthStatus::Degraded,
    HealthStatus::Draining,
];

/// `connect_timeout`: for pods.
pub(super) fn cluster(name: &ClusterName, cluster: &Cluster, connect_timeout: Duration) -> EnvoyCluster {
    let (discovery, load_assignment, connect_timeout) = match &cluster.external_name {
        None => (DiscoveryType::Eds, None, connect_timeout),
        Some(host) => {
            let (discovery, endpoints) = one_endpoint(&name.0, host, cluster.port);
            (discovery, Some(endpoints), CONNECT_TIMEOUT_OUTSIDE)
        }
    };
    let limits = &cluster.limits;
    EnvoyCluster {
        name: name.to_string(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(discovery.into())),
        eds_cluster_config: load_assignment.is_none().then(|| EdsClusterConfig {
            eds_config: Some(ads()),
            ..EdsClusterConfig::default()
        }),
        load_assignment,
        connect_timeout: duration(connect_timeout),
        circuit_breakers: Some(CircuitBreakers {
            thresholds: vec![Thresholds {
                max_connections: limits.connections.and_then(number),
                max_pending_requests: limits.pending.and_then(number),
                max_requests: limits.requests.and_then(number),
                max_retries: number(limits.retries.unwrap_or(MAX_RETRIES)),
                ..Thresholds::default()
            }],
            ..CircuitBreakers::default()
        }),
        lb_policy: LbPolicy::into(match cluster.balance {
            Balance::LeastRequest => LbPolicy::LeastRequest,
            Balance::RoundRobin => LbPolicy::RoundRobin,
            Balance::Random => LbPolicy::Random,
            // Its ring takes little memory, and does not depend on the order of the hosts: Envoys choose alike.
            Balance::RingHash => LbPolicy::RingHash,
            Balance::Maglev => LbPolicy::Maglev,
        }),
        health_checks: cluster.health_check.iter().map(health_check).collect(),
        // A backend that is gone from EndpointSlices is gone, even if it still answers checks.
        ignore_health_on_host_removal: cluster.health_check.is_some(),
        common_lb_config: Some(CommonLbConfig {
            override_host_status: Some(HealthStatusSet {
                statuses: SESSIONS_STAY.map(i32::from).to_vec(),
            }),
            // Rather no backend than an unhealthy one.
            healthy_panic_threshold: cluster.health_check.as_ref().map(|_| Percent { value: 0.0 }),
            ..CommonLbConfig::default()
        }),
        typed_extension_protocol_options: match cluster.protocol {
            Protocol::Http1 => HashMap::new(),
            Protocol::H2c => http2(),
        },
        transport_socket: cluster
            .tls
            .as_ref()
            .map(|tls| backend_tls::transport(tls, cluster.protocol)),
        metadata: match &cluster.session {
            _ if cluster.never_begins => Some(session(NO_SESSION)),
            Some(used) => Some(session(&format!("{}/{}", used.policy, used.scope))),
            None => None,
        },
        ..EnvoyCluster::default()
    }
}

fn health_check(check: &HealthCheck) -> EnvoyHealthCheck {
    EnvoyHealthCheck {
        timeout: duration(check.timeout),
        interval: duration(check.interval),
        // Envoy's own is a minute: so long, a backend that was not up at first would stay unhealthy.
        no_traffic_interval: duration(check.interval),
        unhealthy_threshold: number(check.unhealthy_after),
        healthy_threshold: number(check.healthy_after),
        health_checker: Some(HealthChecker::HttpHealthCheck(HttpHealthCheck {
            host: check.host.clone(),
            path: check.path.clone(),
            ..HttpHealthCheck::default()
        })),
        ..EnvoyHealthCheck::default()
    }
}

pub(super) fn http2() -> HashMap<String, Any> {
    let options = HttpProtocolOptions {
        upstream_protocol_options: Some(UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig {
            protocol_config: Some(ProtocolConfig::Http2ProtocolOptions(Http2ProtocolOptions::default())),
        })),
        ..HttpProtocolOptions::default()
    };
    let name = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    HashMap::from([(name.to_owned(), pack(options))])
}

/// A server that is not in the graph, by name or address.
pub(super) fn one_endpoint(cluster: &str, host: &str, port: u16) -> (DiscoveryType, ClusterLoadAssignment) {
    let by_name = host.parse::<IpAddr>().is_err();
    let endpoint = EnvoyEndpoint {
        address: Some(socket(host, port)),
        ..EnvoyEndpoint::default()
    };
    let load_assignment = ClusterLoadAssignment {
        cluster_name: cluster.to_owned(),
        endpoints: vec![LocalityLbEndpoints {
            lb_endpoints: vec![LbEndpoint {
                host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
                ..LbEndpoint::default()
            }],
            ..LocalityLbEndpoints::default()
        }],
        ..ClusterLoadAssignment::default()
    };
    let kind = if by_name {
        DiscoveryType::StrictDns
    } else {
        DiscoveryType::Static
    };
    (kind, load_assignment)
}

/// Without the name of a cluster.
pub(super) fn load_assignment(endpoints: &[Endpoint]) -> ClusterLoadAssignment {
    let mut sorted: Vec<&Endpoint> = endpoints.iter().collect();
    sorted.sort();
    let lb_endpoints = sorted.into_iter().map(lb_endpoint).collect();
    ClusterLoadAssignment {
        // One locality, even if it is empty: an assignment without localities takes another path in Envoy.
        endpoints: vec![LocalityLbEndpoints {
            lb_endpoints,
            ..LocalityLbEndpoints::default()
        }],
        ..ClusterLoadAssignment::default()
    }
}

fn lb_endpoint(endpoint: &Endpoint) -> LbEndpoint {
    let status = match endpoint.state {
        EndpointState::Ready => HealthStatus::Healthy,
        EndpointState::Draining => HealthStatus::Draining,
    };
    LbEndpoint {
        health_status: status.into(),
        host_identifier: Some(HostIdentifier::Endpoint(EnvoyEndpoint {
            address: Some(socket(&endpoint.address.ip().to_string(), endpoint.address.port())),
            ..EnvoyEndpoint::default()
        })),
        ..LbEndpoint::default()
    }
}
