//! The optional listener for Prometheus: `GET /stats/prometheus`, and 404 for all else.
//!
//! The admin interface answers, which is on loopback. The path is passed as it came, so no request can mean another
//! page.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::circuit_breakers::Thresholds;
use envoy_types::pb::envoy::config::cluster::v3::cluster::ClusterDiscoveryType;
use envoy_types::pb::envoy::config::cluster::v3::{CircuitBreakers, Cluster};
use envoy_types::pb::envoy::config::core::v3::HttpProtocolOptions;
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::{Route, RouteAction, RouteMatch, VirtualHost};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;

use super::super::chain::router;
use super::super::clusters::one_endpoint;
use super::super::pack::{duration, number};
use super::super::routes::{answer_all, exactly};
use super::watched;

/// The name of the listener, and the prefix of its statistics: `limpet envoy drain` does not count them as clients'.
const NAME: &str = "limpet.metrics";
const ADMIN: &str = "limpet.admin";
const PATH: &str = "/stats/prometheus";

const CONNECTIONS: f64 = 16.0;
/// Requests at the same time: Envoy's main thread answers them.
const REQUESTS: u32 = 2;

pub(super) fn listener(address: SocketAddr) -> Listener {
    watched::listener(address, 32 * 1024, manager())
}

/// The listener's limit, as a runtime setting: Envoy has no field for it.
pub(super) fn most_connections() -> (&'static str, f64) {
    (
        "envoy.resource_limits.listener.limpet.metrics.connection_limit",
        CONNECTIONS,
    )
}

pub(super) fn cluster(admin_port: u16) -> Cluster {
    let (kind, load_assignment) = one_endpoint(ADMIN, &Ipv4Addr::LOCALHOST.to_string(), admin_port);
    Cluster {
        name: ADMIN.to_owned(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(kind.into())),
        connect_timeout: duration(Duration::from_secs(2)),
        circuit_breakers: Some(CircuitBreakers {
            thresholds: vec![Thresholds {
                max_connections: number(REQUESTS),
                max_pending_requests: number(16),
                ..Thresholds::default()
            }],
            ..CircuitBreakers::default()
        }),
        load_assignment: Some(load_assignment),
        ..Cluster::default()
    }
}

fn manager() -> HttpConnectionManager {
    HttpConnectionManager {
        http_filters: vec![router()],
        max_request_headers_kb: number(8),
        stream_idle_timeout: duration(Duration::from_secs(30)),
        common_http_protocol_options: Some(HttpProtocolOptions {
            idle_timeout: duration(Duration::from_secs(10)),
            max_connection_duration: duration(Duration::from_secs(300)),
            ..HttpProtocolOptions::default()
        }),
        ..watched::manager(routes())
    }
}

fn routes() -> VirtualHost {
    let mut host = answer_all(NAME, 404);
    let page = Route {
        r#match: Some(RouteMatch {
            path_specifier: Some(PathSpecifier::Path(PATH.to_owned())),
            headers: vec![exactly(":method", "GET")],
            ..RouteMatch::default()
        }),
        action: Some(Action::Route(RouteAction {
            cluster_specifier: Some(ClusterSpecifier::Cluster(ADMIN.to_owned())),
            timeout: duration(Duration::from_secs(30)),
            ..RouteAction::default()
        })),
        ..Route::default()
    };
    host.routes.insert(0, page);
    host
}
