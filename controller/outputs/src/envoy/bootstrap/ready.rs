//! The listener that says whether Envoy is ready: for a kubelet and for load balancers, which do not reach the admin
//! interface.
//!
//! Envoy itself answers, by its health check filter: no request of this listener is led anywhere, and so none reaches
//! the admin interface. Envoy's threads accept connections once it has its first configuration, which makes it ready
//! there as well.

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

/// The name of the listener, and the prefix of its statistics: `limpet drain` does not count them as clients'.
const NAME: &str = "limpet.ready";

/// How many connections it may have at the same time. They are short, and few ask.
const CONNECTIONS: f64 = 64.0;

const READY: [(&str, &str); 2] = [(":method", "GET"), (":path", "/ready")];

pub(super) fn listener(address: SocketAddr) -> Listener {
    watched::listener(address, 8 * 1024, manager())
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
