//! Where Envoy gets the code of the filter.

use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use envoy_types::pb::envoy::config::core::v3::{
    AsyncDataSource, DataSource, TransportSocket, async_data_source, data_source, transport_socket,
};
use envoy_types::pb::envoy::extensions::dynamic_modules::v3::DynamicModuleConfig;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::UpstreamTlsContext;

use super::clusters::one_endpoint;
use super::options::{FilterBuild, ModuleFilter, RemoteFile, WasmFilter};
use super::pack::{duration, pack};

pub(super) const CODE_CLUSTER: &str = "limpet.code";

/// The cluster of the server that Envoy gets the wasm filter from; `None` if the filter is a file, or its URL is
/// invalid, which Envoy reports.
pub(super) fn cluster(build: &FilterBuild) -> Option<Cluster> {
    let FilterBuild::Wasm(WasmFilter::Remote(RemoteFile { url, .. })) = build else {
        return None;
    };
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let well_known = if scheme == "https" { 443 } else { 80 };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (authority, well_known),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let tls = || TransportSocket {
        name: "envoy.transport_sockets.tls".to_owned(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(pack(UpstreamTlsContext {
            sni: host.to_owned(),
            ..UpstreamTlsContext::default()
        }))),
    };
    let (kind, load_assignment) = one_endpoint(CODE_CLUSTER, host, port);
    Some(Cluster {
        name: CODE_CLUSTER.to_owned(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::into(kind))),
        connect_timeout: duration(Duration::from_secs(5)),
        load_assignment: Some(load_assignment),
        transport_socket: (scheme == "https").then(tls),
        ..Cluster::default()
    })
}

pub(super) fn module_config(module: &ModuleFilter) -> DynamicModuleConfig {
    match module {
        ModuleFilter::Name(name) => DynamicModuleConfig {
            name: name.clone(),
            ..DynamicModuleConfig::default()
        },
        ModuleFilter::File(file) => DynamicModuleConfig {
            module: Some(local(file)),
            ..DynamicModuleConfig::default()
        },
    }
}

/// A file that the Envoy process can read.
pub(super) fn local(file: &str) -> AsyncDataSource {
    AsyncDataSource {
        specifier: Some(async_data_source::Specifier::Local(DataSource {
            specifier: Some(data_source::Specifier::Filename(file.to_owned())),
            ..DataSource::default()
        })),
    }
}
