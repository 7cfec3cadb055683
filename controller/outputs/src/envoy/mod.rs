//! A graph as Envoy resources.
//!
//! `envoy-configs/` has the same by hand, and `docs/reference/envoy-configuration.md` explains it. Equal graphs give
//! equal bytes: everything is sorted, and no map of a message has more than one entry, because `prost` encodes map
//! entries in any order.
//!
//! - `options`: the section `envoy` of the controller's configuration; `managed` its part about Envoys that it keeps.
//! - `listeners`, `chain`: ports, TLS, and the HTTP filters. `clusters`: also endpoints. `backend_tls`: TLS towards
//!   them. `code`: the server of the wasm filter.
//! - `hosts`: virtual hosts as resources. `served`: all resources of a Gateway, kept up to date. `preflight`: what
//!   Envoys are asked before routes go live.
//! - `moving`: the filter with the hosts of clusters whose sessions move. `elsewhere`: for Envoys whose routes come
//!   from another control plane. `standalone`: all resources in one file.

mod backend_tls;
mod bootstrap;
pub(super) mod chain;
mod clusters;
mod code;
mod elsewhere;
pub(super) mod filter;
mod hosts;
mod listeners;
mod managed;
mod moving;
mod options;
pub(super) mod pack;
mod preflight;
pub(super) mod routes;
mod served;
mod standalone;

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::core::v3::{DataSource, data_source};
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{Secret, TlsCertificate, secret};
use prost::Message;

pub use bootstrap::{BootstrapOptions, BootstrapTls, OverloadLimits, bootstrap, bootstrap_secrets};
pub use elsewhere::RoutesElsewhere;
pub use filter::extension_config;
use filter::reports;
pub use managed::{EnvoyEnvironment, EnvoysNamespace, ManagedOptions};
pub use moving::{ClusterHosts, HostNames, MovingFilter, host_names, hosts_left_out};
pub use options::{EnvoyOptions, FilterBuild, ModuleFilter, RemoteFile, Splits, WasmFilter};
pub use served::{GatewayResources, ReplacedPolicy};
pub use standalone::static_bootstrap;

use crate::filter::{FilterInputs, filter_config};
use crate::policy_room::MOST_BYTES;
use crate::used::GatewayReferences;
use limpet_api::ObjectName;
use limpet_model::endpoints::Endpoint;
use limpet_model::graph::{Cluster, ClusterName, Gateway};
use limpet_model::{Certificate, Graph};
use limpet_resources::{Resource, ResourceType, Resources};
use routes::RouteBuilder;

/// All resources of a Gateway's Envoys, by type and name, except endpoints ([`load_assignment`]).
#[must_use]
pub fn resources(graph: &Graph, gateway: &ObjectName, options: &EnvoyOptions, inputs: &FilterInputs) -> Vec<Resource> {
    let (mut all, configurations) = live(graph, gateway, options, inputs);
    let whole = |routes: &RouteConfiguration| resource(ResourceType::RouteConfiguration, &routes.name, routes);
    all.extend(configurations.iter().map(whole));
    all.sort_by(|one, other| (one.resource_type(), one.name()).cmp(&(other.resource_type(), other.name())));
    all
}

/// As [`resources`], with virtual hosts apart and the preflight's resources, for an xDS server.
#[must_use]
pub fn served(graph: &Graph, gateway: &ObjectName, options: &EnvoyOptions, inputs: &FilterInputs) -> Resources {
    let (all, configurations) = live(graph, gateway, options, inputs);
    let mut all: Resources = all.into_iter().collect();
    if options.elsewhere(gateway).is_none() {
        all.insert(preflight::routes());
    }
    let configurations: Vec<_> = configurations.into_iter().map(hosts::EncodedRoutes::of).collect();
    for unit in preflight::units(configurations.iter().flat_map(hosts::EncodedRoutes::routes)) {
        all.insert_unit(unit);
    }
    for configuration in configurations {
        all.extend(configuration.apart());
    }
    all
}

/// The resources, and apart from them the route configurations.
fn live(
    graph: &Graph,
    gateway: &ObjectName,
    options: &EnvoyOptions,
    inputs: &FilterInputs,
) -> (Vec<Resource>, Vec<RouteConfiguration>) {
    let options = &*options.of(graph, gateway);
    let used = GatewayReferences::by(graph, gateway);
    let mut all = vec![filter_resource(graph, gateway, &used, options, inputs)];
    if options.elsewhere(gateway).is_some() {
        return (all, Vec::new());
    }
    let clusters = || used.clusters().filter_map(|name| graph.clusters.get_key_value(name));
    all.extend(clusters().map(|(name, cluster)| cluster_resource(name, cluster, options)));
    let secrets = backend_tls::secrets(clusters().map(|(_, cluster)| &**cluster), options).into_iter();
    all.extend(secrets.map(|secret| resource(ResourceType::Secret, &secret.name, &secret)));
    if let Some(cluster) = code::cluster(&options.filter) {
        all.push(resource(ResourceType::Cluster, &cluster.name, &cluster));
    }
    let routes = RouteBuilder { graph, options };
    let gateway = graph.gateways.get(gateway);
    for name in gateway.map(|gateway| certificates(gateway)).unwrap_or_default() {
        if let Some(certificate) = graph.certificates.get(name) {
            all.push(certificate_resource(name, certificate));
        }
    }
    let connections = gateway.map(|gateway| gateway.connections).unwrap_or_default();
    let ports = gateway.into_iter().flat_map(|gateway| &gateway.ports);
    for (port, listeners) in ports.clone() {
        if let Some(listener) = listeners::listener(*port, listeners, &connections, options) {
            all.push(resource(ResourceType::Listener, &listener.name, &listener));
        }
    }
    let configurations: Vec<RouteConfiguration> = ports
        .flat_map(|(port, listeners)| routes.of_port(*port, listeners))
        .collect();
    (all, configurations)
}

fn filter_resource(
    graph: &Graph,
    gateway: &ObjectName,
    used: &GatewayReferences,
    options: &EnvoyOptions,
    inputs: &FilterInputs,
) -> Resource {
    let mut filter = filter_config(
        used.policies_within(graph, MOST_BYTES),
        &used.namespaces(),
        options.access_log,
        inputs,
    );
    match options.elsewhere(gateway) {
        Some(elsewhere) => {
            filter.routes = elsewhere.table(graph, gateway);
            filter
                .routes
                .retain(|route| filter.policies.contains_key(&route.policy));
        }
        None => filter.report_sessions = reports(gateway, inputs),
    }
    let filter = extension_config(&filter, options);
    resource(ResourceType::ExtensionConfig, &filter.name, &filter)
}

fn cluster_resource(name: &ClusterName, cluster: &Cluster, options: &EnvoyOptions) -> Resource {
    let cluster = clusters::cluster(name, cluster, options.connect_timeout.get());
    resource(ResourceType::Cluster, &name.0, &cluster)
}

fn certificates(gateway: &Gateway) -> BTreeSet<&ObjectName> {
    let listeners = gateway.ports.values().flatten();
    listeners
        .flat_map(|listener| listener.certificates.iter().flatten())
        .collect()
}

/// The endpoints of a cluster.
#[must_use]
pub fn load_assignment(cluster: &ClusterName, endpoints: &[Endpoint]) -> Resource {
    EncodedEndpoints::new(endpoints).of(cluster)
}

/// Endpoints as in the load assignments of all their clusters, encoded once.
#[derive(Debug)]
pub struct EncodedEndpoints(Vec<u8>);

impl EncodedEndpoints {
    /// Encodes them.
    #[must_use]
    pub fn new(endpoints: &[Endpoint]) -> Self {
        Self(clusters::load_assignment(endpoints).encode_to_vec())
    }

    /// The load assignment of one of the clusters. Its name is the first field, so the others follow it.
    #[must_use]
    pub fn of(&self, cluster: &ClusterName) -> Resource {
        let named = ClusterLoadAssignment {
            cluster_name: cluster.to_string(),
            ..ClusterLoadAssignment::default()
        };
        let body = [named.encode_to_vec().as_slice(), &self.0].concat();
        Resource::new(ResourceType::ClusterLoadAssignment, &*cluster.0, body)
    }
}

fn certificate_resource(name: &ObjectName, certificate: &Certificate) -> Resource {
    let bytes = |bytes: &[u8]| DataSource {
        specifier: Some(data_source::Specifier::InlineBytes(bytes.to_vec())),
        ..DataSource::default()
    };
    let name = name.to_string();
    let secret = Secret {
        name: name.clone(),
        r#type: Some(secret::Type::TlsCertificate(TlsCertificate {
            certificate_chain: Some(bytes(&certificate.chain)),
            private_key: Some(bytes(&certificate.key)),
            ..TlsCertificate::default()
        })),
    };
    resource(ResourceType::Secret, &name, &secret)
}

fn resource(resource_type: ResourceType, name: &str, message: &impl Message) -> Resource {
    Resource::new(resource_type, name, message.encode_to_vec())
}

#[cfg(test)]
mod tests;
