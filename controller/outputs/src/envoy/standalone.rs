//! All resources in one file, for an Envoy without a controller.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::bootstrap::v3::Bootstrap;
use envoy_types::pb::envoy::config::bootstrap::v3::bootstrap::StaticResources;
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use envoy_types::pb::envoy::config::core::v3::{TypedExtensionConfig, transport_socket};
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::listener::v3::{Filter, FilterChain, Listener, filter};
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    DownstreamTlsContext, Secret, UpstreamTlsContext,
};
use prost::{DecodeError, Message};

use super::bootstrap::{admin, runtime};
use super::pack::pack;
use limpet_resources::{Resource, ResourceType};

/// Writes the resources of one Gateway and the endpoints of its clusters as one configuration. A cluster without
/// endpoints stays empty.
///
/// # Errors
/// If a resource cannot be decoded.
pub fn static_bootstrap<'a>(
    resources: impl IntoIterator<Item = &'a Resource>,
    admin_port: u16,
) -> Result<Bootstrap, DecodeError> {
    let mut parts = StandaloneParts::default();
    for resource in resources {
        parts.add(resource)?;
    }
    let StandaloneParts {
        listeners,
        routes,
        clusters,
        endpoints,
        filters,
        secrets,
    } = parts;
    let listeners = listeners
        .into_iter()
        .map(|listener| inline(listener, &routes, &filters));
    let listeners = listeners.collect::<Result<_, _>>()?;
    let clusters = clusters.into_iter().map(|mut cluster| {
        inline_authorities(&mut cluster)?;
        Ok(with_endpoints(cluster, &endpoints))
    });
    let clusters = clusters.collect::<Result<_, DecodeError>>()?;
    Ok(Bootstrap {
        admin: Some(admin(admin_port)),
        layered_runtime: Some(runtime([])),
        static_resources: Some(StaticResources {
            listeners,
            clusters,
            secrets,
        }),
        ..Bootstrap::default()
    })
}

#[derive(Default)]
struct StandaloneParts {
    listeners: Vec<Listener>,
    routes: BTreeMap<String, RouteConfiguration>,
    clusters: Vec<Cluster>,
    endpoints: BTreeMap<String, ClusterLoadAssignment>,
    filters: BTreeMap<String, TypedExtensionConfig>,
    secrets: Vec<Secret>,
}

impl StandaloneParts {
    fn add(&mut self, resource: &Resource) -> Result<(), DecodeError> {
        let (name, body) = (resource.name().to_string(), resource.body());
        match resource.resource_type() {
            ResourceType::Listener => self.listeners.push(Listener::decode(body)?),
            ResourceType::Cluster => self.clusters.push(Cluster::decode(body)?),
            ResourceType::Secret => self.secrets.push(Secret::decode(body)?),
            ResourceType::RouteConfiguration => {
                self.routes.insert(name, RouteConfiguration::decode(body)?);
            }
            // Route configurations have theirs inline.
            ResourceType::VirtualHost => {}
            ResourceType::ClusterLoadAssignment => {
                self.endpoints.insert(name, ClusterLoadAssignment::decode(body)?);
            }
            ResourceType::ExtensionConfig => {
                self.filters.insert(name, TypedExtensionConfig::decode(body)?);
            }
        }
        Ok(())
    }
}

fn with_endpoints(cluster: Cluster, endpoints: &BTreeMap<String, ClusterLoadAssignment>) -> Cluster {
    if cluster.eds_cluster_config.is_none() {
        return cluster;
    }
    let none = || ClusterLoadAssignment {
        cluster_name: cluster.name.clone(),
        ..ClusterLoadAssignment::default()
    };
    Cluster {
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Static.into())),
        eds_cluster_config: None,
        load_assignment: Some(endpoints.get(&cluster.name).cloned().unwrap_or_else(none)),
        ..cluster
    }
}

fn inline_authorities(cluster: &mut Cluster) -> Result<(), DecodeError> {
    let socket = cluster.transport_socket.as_mut();
    let Some(transport_socket::ConfigType::TypedConfig(packed)) = socket.and_then(|socket| socket.config_type.as_mut())
    else {
        return Ok(());
    };
    let mut context = UpstreamTlsContext::decode(packed.value.as_slice())?;
    let common = context.common_tls_context.as_mut();
    let validation = common.and_then(|common| common.validation_context_type.as_mut());
    if let Some(ValidationContextType::CombinedValidationContext(combined)) = validation
        && let Some(secret) = &mut combined.validation_context_sds_secret_config
    {
        secret.sds_config = None;
    }
    *packed = pack(context);
    Ok(())
}

fn inline(
    mut listener: Listener,
    routes: &BTreeMap<String, RouteConfiguration>,
    filters: &BTreeMap<String, TypedExtensionConfig>,
) -> Result<Listener, DecodeError> {
    for chain in &mut listener.filter_chains {
        inline_secrets(chain)?;
        for filter in &mut chain.filters {
            inline_routes(filter, routes, filters)?;
        }
    }
    Ok(listener)
}

/// A secret without a source is one of the bootstrap's.
fn inline_secrets(chain: &mut FilterChain) -> Result<(), DecodeError> {
    let socket = chain
        .transport_socket
        .as_mut()
        .and_then(|socket| socket.config_type.as_mut());
    let Some(transport_socket::ConfigType::TypedConfig(packed)) = socket else {
        return Ok(());
    };
    let mut context = DownstreamTlsContext::decode(packed.value.as_slice())?;
    if let Some(common) = &mut context.common_tls_context {
        for secret in &mut common.tls_certificate_sds_secret_configs {
            secret.sds_config = None;
        }
    }
    *packed = pack(context);
    Ok(())
}

fn inline_routes(
    filter: &mut Filter,
    routes: &BTreeMap<String, RouteConfiguration>,
    filters: &BTreeMap<String, TypedExtensionConfig>,
) -> Result<(), DecodeError> {
    let Some(filter::ConfigType::TypedConfig(packed)) = &mut filter.config_type else {
        return Ok(());
    };
    let mut manager = HttpConnectionManager::decode(packed.value.as_slice())?;
    if let Some(RouteSpecifier::Rds(rds)) = &manager.route_specifier
        && let Some(found) = routes.get(&rds.route_config_name)
    {
        manager.route_specifier = Some(RouteSpecifier::RouteConfig(found.clone()));
    }
    for filter in &mut manager.http_filters {
        if matches!(filter.config_type, Some(ConfigType::ConfigDiscovery(_)))
            && let Some(typed) = filters.get(&filter.name).and_then(|found| found.typed_config.clone())
        {
            filter.config_type = Some(ConfigType::TypedConfig(typed));
        }
    }
    *packed = pack(manager);
    Ok(())
}
