//! The filter's configuration with the hosts of clusters whose sessions their application moves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limpet_core::config::schema::FilterConfig;

use super::filter::{extension_config, reports};
use super::options::EnvoyOptions;
use super::resource;
use crate::filter::{FilterInputs, filter_config};
use crate::policy_room::MOST_BYTES;
use crate::used::GatewayReferences;
use limpet_api::ObjectName;
use limpet_model::endpoints::Endpoint;
use limpet_model::graph::ClusterName;
use limpet_model::{Graph, within_share};
use limpet_resources::{Resource, ResourceType};

/// Names of a cluster's hosts, by their addresses; empty for a host without a name.
pub type HostNames = BTreeMap<String, String>;

/// The most hosts in a Gateway's filter, of which each namespace of Services has a fair share.
const MOST_HOSTS: usize = 20_000;

/// The hosts of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterHosts {
    /// The cluster's Service.
    pub service: ObjectName,
    /// The hosts.
    pub names: HostNames,
}

/// Names of these endpoints for applications.
#[must_use]
pub fn host_names(endpoints: &[Endpoint]) -> HostNames {
    let name = |endpoint: &Endpoint| {
        let pod = endpoint.pod.as_deref().unwrap_or_default();
        (endpoint.address.to_string(), pod.to_owned())
    };
    endpoints.iter().map(name).collect()
}

/// The filter of a Gateway's Envoys, which lacks the hosts of these clusters.
#[derive(Debug, Clone)]
pub struct MovingFilter {
    config: FilterConfig,
    options: Arc<EnvoyOptions>,
    clusters: BTreeSet<ClusterName>,
}

impl MovingFilter {
    /// `None` if no application moves sessions of the Gateway, or if other control planes name its clusters.
    #[must_use]
    pub fn of(graph: &Graph, gateway: &ObjectName, options: &EnvoyOptions, inputs: &FilterInputs) -> Option<Self> {
        Self::with_used(graph, gateway, &GatewayReferences::by(graph, gateway), options, inputs)
    }

    pub(super) fn with_used(
        graph: &Graph,
        gateway: &ObjectName,
        used: &GatewayReferences,
        options: &EnvoyOptions,
        inputs: &FilterInputs,
    ) -> Option<Self> {
        let options = options.of(graph, gateway);
        let clusters = used.moving(graph);
        if clusters.is_empty() || options.elsewhere(gateway).is_some() {
            return None;
        }
        Some(Self {
            config: FilterConfig {
                report_sessions: reports(gateway, inputs),
                ..filter_config(
                    used.policies_within(graph, MOST_BYTES),
                    &used.namespaces(),
                    options.access_log,
                    inputs,
                )
            },
            clusters,
            options: Arc::new(options.into_owned()),
        })
    }

    /// The clusters whose hosts it needs.
    #[must_use]
    pub fn clusters(&self) -> &BTreeSet<ClusterName> {
        &self.clusters
    }

    /// Whether it needs the hosts of a cluster.
    #[must_use]
    pub fn needs(&self, cluster: &ClusterName) -> bool {
        self.clusters.contains(cluster)
    }

    /// The filter with the hosts of these clusters for which there is room.
    #[must_use]
    pub fn with(&self, clusters: &BTreeMap<ClusterName, ClusterHosts>) -> Resource {
        let hosts = with_room(clusters).into_iter();
        let hosts = hosts.map(|(cluster, hosts)| (cluster.to_string(), hosts.names.clone()));
        let config = FilterConfig {
            hosts: hosts.collect(),
            ..self.config.clone()
        };
        let filter = extension_config(&config, &self.options);
        resource(ResourceType::ExtensionConfig, &filter.name, &filter)
    }
}

/// The Services of the clusters for whose hosts a filter has no room.
#[must_use]
pub fn hosts_left_out(clusters: &BTreeMap<ClusterName, ClusterHosts>) -> BTreeSet<ObjectName> {
    let kept = with_room(clusters);
    let left_out = clusters.iter().filter(|(cluster, _)| !kept.contains_key(cluster));
    left_out.map(|(_, hosts)| hosts.service.clone()).collect()
}

/// The clusters whose hosts have room: of namespaces with more than their share, the first by name.
fn with_room(clusters: &BTreeMap<ClusterName, ClusterHosts>) -> BTreeMap<&ClusterName, &ClusterHosts> {
    let mut namespaces: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for (cluster, hosts) in clusters {
        let of_namespace = namespaces.entry(&hosts.service.namespace).or_default();
        of_namespace.push(((cluster, hosts), hosts.names.len()));
    }
    within_share(namespaces, MOST_HOSTS).into_iter().collect()
}
