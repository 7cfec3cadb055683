//! Listeners, one for each port of a Gateway.

use std::net::IpAddr;
use std::time::Duration;

use envoy_types::pb::envoy::config::accesslog::v3::{AccessLog, access_log};
use envoy_types::pb::envoy::config::core::v3::{
    Address, DataSource, Http1ProtocolOptions, Http2ProtocolOptions, HttpProtocolOptions, SubstitutionFormatString,
    TransportSocket, address, data_source, substitution_format_string, transport_socket,
};
use envoy_types::pb::envoy::config::listener::v3::{
    Filter, FilterChain, FilterChainMatch, Listener as EnvoyListener, ListenerFilter, filter, listener_filter,
};
use envoy_types::pb::envoy::extensions::access_loggers::stream::v3::{StdoutAccessLog, stdout_access_log};
use envoy_types::pb::envoy::extensions::filters::listener::tls_inspector::v3::TlsInspector;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::{
    CodecType, InternalAddressConfig, PathWithEscapedSlashesAction, RouteSpecifier, ServerHeaderTransformation,
    UpgradeConfig,
};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{HttpConnectionManager, Rds};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::tls_parameters::TlsProtocol;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CommonTlsContext, DownstreamTlsContext, SdsSecretConfig, TlsParameters,
};
use limpet_core::outcome::FILTER_STATE;

use super::chain::{early_mutation, http_filters, missing_filter, router};
use super::options::{EnvoyOptions, FilterBuild};
use super::pack::{ads, duration, number, pack, socket, yes};
use limpet_api::ObjectName;
use limpet_model::graph::{Connections, Hostname, Listener, TlsVersion};

/// An Envoy listener and its route configurations. `connections`: its Gateway's.
pub(super) fn listener(
    port: u16,
    listeners: &[Listener],
    connections: &Connections,
    options: &EnvoyOptions,
) -> Option<EnvoyListener> {
    let (plain, tls): (Vec<&Listener>, Vec<&Listener>) =
        listeners.iter().partition(|listener| listener.certificates.is_none());
    let filter_chains: Vec<FilterChain> = if plain.is_empty() {
        let tls = tls.into_iter().filter(|listener| has_certificates(listener));
        tls.map(|listener| tls_chain(port, listener, connections, options))
            .collect()
    } else {
        vec![FilterChain {
            filters: vec![manager(&plain_name(port), connections, options)],
            ..FilterChain::default()
        }]
    };
    let ends_tls = filter_chains.iter().any(|chain| chain.transport_socket.is_some());
    (!filter_chains.is_empty()).then(|| EnvoyListener {
        name: if ends_tls {
            tls_port_name(port)
        } else {
            plain_name(port)
        },
        address: Some(bind(options.listen_address, port)),
        listener_filters: ends_tls.then(tls_inspector).into_iter().collect(),
        filter_chains,
        // Envoy's best practice for edge proxies: bounds the memory for a client that does not read.
        per_connection_buffer_limit_bytes: number(32 * 1024),
        ..EnvoyListener::default()
    })
}

pub(super) fn plain_name(port: u16) -> String {
    format!("http-{port}")
}

fn tls_port_name(port: u16) -> String {
    format!("https-{port}")
}

pub(super) fn tls_name(port: u16, listener: &Listener) -> String {
    format!("{}/{}", tls_port_name(port), listener.name)
}

fn has_certificates(listener: &Listener) -> bool {
    listener.certificates.as_ref().is_some_and(|names| !names.is_empty())
}

pub(super) fn bind(address: IpAddr, port: u16) -> Address {
    let mut bind = socket(&address.to_string(), port);
    if let Some(address::Address::SocketAddress(socket)) = &mut bind.address {
        // One socket for IPv4 and IPv6.
        socket.ipv4_compat = address.is_ipv6() && address.is_unspecified();
    }
    bind
}

fn tls_chain(port: u16, listener: &Listener, connections: &Connections, options: &EnvoyOptions) -> FilterChain {
    let server_names = match &listener.hostname {
        Hostname::Any => Vec::new(),
        hostname => vec![hostname.to_string()],
    };
    let secret = |name: &ObjectName| SdsSecretConfig {
        name: name.to_string(),
        sds_config: Some(ads()),
    };
    let context = DownstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            alpn_protocols: vec!["h2".to_owned(), "http/1.1".to_owned()],
            tls_params: listener.tls_minimum.map(tls_parameters),
            tls_certificate_sds_secret_configs: listener.certificates.iter().flatten().map(secret).collect(),
            ..CommonTlsContext::default()
        }),
        ..DownstreamTlsContext::default()
    };
    FilterChain {
        name: listener.name.clone(),
        filter_chain_match: Some(FilterChainMatch {
            server_names,
            ..FilterChainMatch::default()
        }),
        filters: vec![manager(&tls_name(port, listener), connections, options)],
        transport_socket: Some(TransportSocket {
            name: "envoy.transport_sockets.tls".to_owned(),
            config_type: Some(transport_socket::ConfigType::TypedConfig(pack(context))),
        }),
        ..FilterChain::default()
    }
}

/// Ciphers for TLS 1.2 and 1.1. Envoy's own list has none for 1.1.
const CIPHERS_WITH_TLS_1_1: [&str; 8] = [
    "[ECDHE-ECDSA-AES128-GCM-SHA256|ECDHE-ECDSA-CHACHA20-POLY1305]",
    "[ECDHE-RSA-AES128-GCM-SHA256|ECDHE-RSA-CHACHA20-POLY1305]",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-RSA-AES256-SHA",
];

fn tls_parameters(minimum: TlsVersion) -> TlsParameters {
    let (minimum, ciphers): (_, &[&str]) = match minimum {
        TlsVersion::V1_1 => (TlsProtocol::TlSv11, &CIPHERS_WITH_TLS_1_1),
        TlsVersion::V1_2 => (TlsProtocol::TlSv12, &[]),
        TlsVersion::V1_3 => (TlsProtocol::TlSv13, &[]),
    };
    TlsParameters {
        tls_minimum_protocol_version: minimum.into(),
        tls_maximum_protocol_version: TlsProtocol::TlSv13.into(),
        cipher_suites: ciphers.iter().map(|cipher| (*cipher).to_owned()).collect(),
        ..TlsParameters::default()
    }
}

fn tls_inspector() -> ListenerFilter {
    ListenerFilter {
        name: "envoy.filters.listener.tls_inspector".to_owned(),
        config_type: Some(listener_filter::ConfigType::TypedConfig(pack(TlsInspector::default()))),
        ..ListenerFilter::default()
    }
}

fn manager(routes: &str, connections: &Connections, options: &EnvoyOptions) -> Filter {
    let manager = HttpConnectionManager {
        stat_prefix: routes.to_owned(),
        // HTTP/1.1, HTTP/2 by ALPN, and HTTP/2 with prior knowledge.
        codec_type: CodecType::Auto.into(),
        route_specifier: Some(discovered(routes)),
        early_header_mutation_extensions: vec![early_mutation(&options.filter)],
        http_filters: http_filters(&options.filter),
        local_reply_config: Some(missing_filter()),
        upgrade_configs: vec![UpgradeConfig {
            upgrade_type: "websocket".to_owned(),
            ..UpgradeConfig::default()
        }],
        // The client is the peer of the connection, or what trusted proxies in front say. No address is trusted with
        // Envoy's own headers.
        use_remote_address: yes(),
        xff_num_trusted_hops: connections.trusted_hops,
        http_protocol_options: connections.http10.then(|| Http1ProtocolOptions {
            accept_http_10: true,
            ..Http1ProtocolOptions::default()
        }),
        common_http_protocol_options: connections.idle_timeout.map(|timeout| HttpProtocolOptions {
            idle_timeout: duration(timeout),
            ..HttpProtocolOptions::default()
        }),
        internal_address_config: Some(InternalAddressConfig::default()),
        // A name with a dot at its end is the same host (RFC 3986 section 3.2.2).
        strip_trailing_host_dot: true,
        // Match routes on the path as the backend will read it.
        normalize_path: yes(),
        merge_slashes: true,
        path_with_escaped_slashes_action: PathWithEscapedSlashesAction::UnescapeAndRedirect.into(),
        // Pass the backend's `Server` header, or none.
        server_header_transformation: ServerHeaderTransformation::PassThrough.into(),
        // Envoy's best practices for edge proxies.
        http2_protocol_options: Some(Http2ProtocolOptions {
            max_concurrent_streams: number(100),
            initial_stream_window_size: number(64 * 1024),
            initial_connection_window_size: number(1024 * 1024),
            ..Http2ProtocolOptions::default()
        }),
        request_headers_timeout: duration(Duration::from_secs(10)),
        access_log: options
            .access_log
            .then(|| access_log(&options.filter))
            .into_iter()
            .collect(),
        ..HttpConnectionManager::default()
    };
    network_filter(manager)
}

/// A connection manager that takes no connections: it only has routes.
pub(super) fn unbound_manager(routes: &str) -> Filter {
    let manager = HttpConnectionManager {
        stat_prefix: routes.to_owned(),
        route_specifier: Some(discovered(routes)),
        http_filters: vec![router()],
        ..HttpConnectionManager::default()
    };
    network_filter(manager)
}

pub(super) fn network_filter(manager: HttpConnectionManager) -> Filter {
    Filter {
        name: "envoy.filters.network.http_connection_manager".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(pack(manager))),
    }
}

fn discovered(routes: &str) -> RouteSpecifier {
    RouteSpecifier::Rds(Rds {
        config_source: Some(ads()),
        route_config_name: routes.to_owned(),
    })
}

fn access_log(build: &FilterBuild) -> AccessLog {
    let state = match build {
        // The filter state of a wasm filter has a prefix.
        FilterBuild::Wasm(_) => format!("wasm.{FILTER_STATE}"),
        FilterBuild::Module(_) => FILTER_STATE.to_owned(),
    };
    let line = format!(
        "%START_TIME% %DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% %REQ(:METHOD)% %REQ(:AUTHORITY)% \
         %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL% \
         %RESPONSE_CODE% %RESPONSE_FLAGS% %DURATION% route=%ROUTE_NAME% cluster=%UPSTREAM_CLUSTER% \
         session=%FILTER_STATE({state}:PLAIN)%\n"
    );
    let format = SubstitutionFormatString {
        format: Some(substitution_format_string::Format::TextFormatSource(DataSource {
            specifier: Some(data_source::Specifier::InlineString(line)),
            ..DataSource::default()
        })),
        ..SubstitutionFormatString::default()
    };
    AccessLog {
        name: "envoy.access_loggers.stdout".to_owned(),
        config_type: Some(access_log::ConfigType::TypedConfig(pack(StdoutAccessLog {
            access_log_format: Some(stdout_access_log::AccessLogFormat::LogFormat(format)),
        }))),
        ..AccessLog::default()
    }
}
