//! The listener of Envoy's readiness, for a kubelet and load balancers, which do not reach the admin interface. Envoy's
//! health check filter answers, once Envoy has its first configuration. No request is led anywhere, so none reaches the
//! admin interface.

use std::net::SocketAddr;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::HttpProtocolOptions;
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::extensions::filters::http::health_check::v3::HealthCheck;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;

use super::super::chain::{filter, router};
use super::super::pack::{duration, no, number, pack};
use super::super::routes::{answer_all, exactly};
use super::watched;

/// The name of the listener, and the prefix of its statistics: `limpet envoy drain` does not count them as clients'.
const NAME: &str = "limpet.ready";

/// Connections at the same time: they are short, and few ask.
const CONNECTIONS: f64 = 64.0;

const READY: [(&str, &str); 2] = [(":method", "GET"), (":path", "/ready")];

pub(super) fn listener(address: SocketAddr) -> Listener {
    watched::listener(address, 8 * 1024, manager())
}

/// The listener's limit, as a runtime setting: Envoy has no field for it.
pub(super) fn most_connections() -> (&'static str, f64) {
    (
        "envoy.resource_limits.listener.limpet.ready.connection_limit",
        CONNECTIONS,
    )
}

fn manager() -> HttpConnectionManager {
    let check = HealthCheck {
        pass_through_mode: no(),
        // The whole path as it came, with a query. All else gets 404 from the routes.
        headers: READY.map(|(name, value)| exactly(name, value)).to_vec(),
        ..HealthCheck::default()
    };
    HttpConnectionManager {
        http_filters: vec![filter("envoy.filters.http.health_check", pack(check)), router()],
        max_request_headers_kb: number(4),
        stream_idle_timeout: duration(Duration::from_secs(2)),
        common_http_protocol_options: Some(HttpProtocolOptions {
            idle_timeout: duration(Duration::from_secs(2)),
            max_connection_duration: duration(Duration::from_secs(10)),
            ..HttpProtocolOptions::default()
        }),
        ..watched::manager(answer_all(NAME, 404))
    }
}
