//! The hosts of clusters whose sessions their application moves, for the filter's configuration.
//!
//! Endpoints go to Envoys at once. These hosts are gathered, because each change makes Envoy set up the filter again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limpet_api::ObjectName;
use limpet_model::endpoints::Endpoint;
use limpet_model::graph::ClusterName;
use limpet_outputs::envoy::{ClusterHosts, MovingFilter, host_names, hosts_left_out};
use limpet_resources::Resource;

#[derive(Debug, Default)]
pub(super) struct MovingGateways(BTreeMap<ObjectName, MovingGateway>);

#[derive(Debug)]
struct MovingGateway {
    filter: Arc<MovingFilter>,
    hosts: BTreeMap<ClusterName, ClusterHosts>,
    /// Whether hosts differ from the published ones.
    has_changed: bool,
    /// The Services whose hosts had no room.
    left_out: BTreeSet<ObjectName>,
}

impl MovingGateways {
    /// Replaces all filters. Returns the clusters whose hosts are not known.
    pub(super) fn catch_up(&mut self, filters: BTreeMap<ObjectName, Arc<MovingFilter>>) -> BTreeSet<ClusterName> {
        let mut unknown = BTreeSet::new();
        let mut known = std::mem::take(&mut self.0);
        for (name, filter) in filters {
            let former = known.remove(&name);
            let has_changed = former
                .as_ref()
                .is_none_or(|former| !Arc::ptr_eq(&former.filter, &filter));
            let mut gateway = MovingGateway {
                has_changed: has_changed || former.as_ref().is_some_and(|former| former.has_changed),
                left_out: BTreeSet::new(),
                hosts: former.map(|former| former.hosts).unwrap_or_default(),
                filter,
            };
            if has_changed {
                gateway.hosts.retain(|cluster, _| gateway.filter.needs(cluster));
                let clusters = gateway.filter.clusters().iter();
                unknown.extend(
                    clusters
                        .filter(|cluster| !gateway.hosts.contains_key(*cluster))
                        .cloned(),
                );
            }
            self.0.insert(name, gateway);
        }
        unknown
    }

    pub(super) fn observe(&mut self, service: &ObjectName, cluster: &ClusterName, endpoints: &[Endpoint]) {
        let concerned = self.0.values_mut().filter(|gateway| gateway.filter.needs(cluster));
        let mut hosts = None;
        for gateway in concerned {
            let hosts = hosts.get_or_insert_with(|| ClusterHosts {
                service: service.clone(),
                names: host_names(endpoints),
            });
            if gateway.hosts.get(cluster) != Some(hosts) {
                gateway.hosts.insert(cluster.clone(), hosts.clone());
                gateway.has_changed = true;
            }
        }
    }

    /// Whether hosts have changed since [`Self::changed`].
    pub(super) fn has_changed(&self) -> bool {
        self.0.values().any(|gateway| gateway.has_changed)
    }

    pub(super) fn services_left_out(&self) -> impl Iterator<Item = &ObjectName> {
        self.0.values().flat_map(|gateway| &gateway.left_out)
    }

    pub(super) fn changed(&mut self) -> Vec<(ObjectName, Arc<Resource>)> {
        let changed = self.0.iter_mut().filter(|(_, gateway)| gateway.has_changed);
        changed
            .map(|(name, gateway)| {
                gateway.has_changed = false;
                gateway.left_out = hosts_left_out(&gateway.hosts);
                (name.clone(), Arc::new(gateway.filter.with(&gateway.hosts)))
            })
            .collect()
    }
}
