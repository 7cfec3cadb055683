//! The listener that says whether Envoy is ready: for a kubelet and for load balancers, which do not reach the admin
//! interface.
//!
//! Envoy itself answers, by its health check filter: no request of this listener is led anywhere, and so none reaches
//! the admin interface. Envoy's threads accept connections once it has its first configuration, which is what makes it
//! ready there as well.

use std::net::SocketAddr;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::HttpProtocolOptions;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::extensions::filters::http::health_check::v3::HealthCheck;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::{
    CodecType, RouteSpecifier,
};

use super::super::chain::{filter, router};
use super::super::listeners::{bind, network_filter};
use super::super::pack::{duration, no, number, pack};
use super::super::routes::{answer_all, exactly};

/// The name of the listener, and the prefix of its statistics, by which `limpet drain` tells them from those of
/// clients.
const NAME: &str = "limpet.ready";

/// How many connections it may have at the same time. They are short, and few ask.
const CONNECTIONS: f64 = 64.0;

const READY: [(&str, &str); 2] = [(":method", "GET"), (":path", "/ready")];

pub(super) fn listener(address: SocketAddr) -> Listener {
    Listener {
        name: NAME.to_owned(),
        stat_prefix: NAME.to_owned(),
        address: Some(bind(address.ip(), address.port())),
        filter_chains: vec![FilterChain {
            filters: vec![network_filter(manager())],
            ..FilterChain::default()
        }],
        per_connection_buffer_limit_bytes: number(8 * 1024),
        // An Envoy that is full serves its clients, so it is ready: to say anything else would lead them to the others,
        // until all are full.
        ignore_global_conn_limit: true,
        bypass_overload_manager: true,
        ..Listener::default()
    }
}

/// The listener's own limit, as a runtime setting: Envoy has no field for it.
pub(super) fn most_connections() -> (&'static str, f64) {
    (
        "envoy.resource_limits.listener.limpet.ready.connection_limit",
        CONNECTIONS,
    )
}

fn manager() -> HttpConnectionManager {
    let check = HealthCheck {
        pass_through_mode: no(),
        // The whole path as it came, with a query. What is not exactly this goes on to the routes, and so to 404.
        headers: READY.map(|(name, value)| exactly(name, value)).to_vec(),
        ..HealthCheck::default()
    };
    HttpConnectionManager {
        stat_prefix: NAME.to_owned(),
        codec_type: CodecType::Http1.into(),
        route_specifier: Some(RouteSpecifier::RouteConfig(RouteConfiguration {
            name: NAME.to_owned(),
            virtual_hosts: vec![answer_all(NAME, 404)],
            ..RouteConfiguration::default()
        })),
        http_filters: vec![filter("envoy.filters.http.health_check", pack(check)), router()],
        normalize_path: no(),
        max_request_headers_kb: number(4),
        request_headers_timeout: duration(Duration::from_secs(2)),
        request_timeout: duration(Duration::from_secs(2)),
        stream_idle_timeout: duration(Duration::from_secs(2)),
        common_http_protocol_options: Some(HttpProtocolOptions {
            idle_timeout: duration(Duration::from_secs(2)),
            max_connection_duration: duration(Duration::from_secs(10)),
            ..HttpProtocolOptions::default()
        }),
        ..HttpConnectionManager::default()
    }
}
