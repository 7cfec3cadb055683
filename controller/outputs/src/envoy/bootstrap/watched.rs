//! Common parts of the listeners for monitors of an Envoy.

use std::net::SocketAddr;
use std::time::Duration;

use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, VirtualHost};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::{
    CodecType, RouteSpecifier,
};

use super::super::listeners::{bind, network_filter};
use super::super::pack::{duration, no, number};

/// A listener of the manager's name, which is the prefix of its statistics, too: by it, `limpet envoy drain` tells it
/// from clients' listeners. It buffers so many bytes for each connection.
pub(super) fn listener(address: SocketAddr, buffer: u32, manager: HttpConnectionManager) -> Listener {
    Listener {
        name: manager.stat_prefix.clone(),
        stat_prefix: manager.stat_prefix.clone(),
        address: Some(bind(address.ip(), address.port())),
        filter_chains: vec![FilterChain {
            filters: vec![network_filter(manager)],
            ..FilterChain::default()
        }],
        per_connection_buffer_limit_bytes: number(buffer),
        // An Envoy that is full serves its clients, so it is ready: otherwise they would go to the others, until all
        // are full. A monitor must see that it is full.
        ignore_global_conn_limit: true,
        bypass_overload_manager: true,
        ..Listener::default()
    }
}

/// A manager that has only this virtual host, its name, and little time for a request.
pub(super) fn manager(host: VirtualHost) -> HttpConnectionManager {
    HttpConnectionManager {
        stat_prefix: host.name.clone(),
        codec_type: CodecType::Http1.into(),
        route_specifier: Some(RouteSpecifier::RouteConfig(RouteConfiguration {
            name: host.name.clone(),
            virtual_hosts: vec![host],
            ..RouteConfiguration::default()
        })),
        normalize_path: no(),
        request_headers_timeout: duration(Duration::from_secs(2)),
        request_timeout: duration(Duration::from_secs(2)),
        ..HttpConnectionManager::default()
    }
}
