//! The hosts of clusters whose sessions their application moves, as the filter's configuration has them.
//!
//! Endpoints go to Envoys at once. These hosts are gathered, because each change makes Envoy set up the filter again.

use std::collections::BTreeMap;
use std::sync::Arc;

use limpet_api::ObjectName;
use limpet_model::endpoints::Endpoint;
use limpet_model::graph::ClusterName;
use limpet_outputs::envoy::{HostNames, MovingFilter, host_names};
use limpet_resources::Resource;

/// The Gateways that have such sessions.
#[derive(Debug, Default)]
pub(super) struct MovingGateways(BTreeMap<ObjectName, MovingGateway>);

#[derive(Debug)]
struct MovingGateway {
    filter: MovingFilter,
    hosts: BTreeMap<ClusterName, HostNames>,
    /// Whether the hosts are others than those that were published last.
    has_changed: bool,
}

impl MovingGateways {
    /// With these filters, and without hosts.
    pub(super) fn new(filters: BTreeMap<ObjectName, MovingFilter>) -> Self {
        let gateway = |filter| MovingGateway {
            filter,
            hosts: BTreeMap::new(),
            has_changed: true,
        };
        Self(
            filters
                .into_iter()
                .map(|(name, filter)| (name, gateway(filter)))
                .collect(),
        )
    }

    /// Takes in the endpoints of a cluster.
    pub(super) fn observe(&mut self, cluster: &ClusterName, endpoints: &[Endpoint]) {
        let concerned = self.0.values_mut().filter(|gateway| gateway.filter.needs(cluster));
        let mut names = None;
        for gateway in concerned {
            let names = names.get_or_insert_with(|| host_names(endpoints));
            if gateway.hosts.get(cluster) != Some(names) {
                gateway.hosts.insert(cluster.clone(), names.clone());
                gateway.has_changed = true;
            }
        }
    }

    /// Whether hosts have changed since [`Self::changed`].
    pub(super) fn has_changed(&self) -> bool {
        self.0.values().any(|gateway| gateway.has_changed)
    }

    /// The filters of Gateways whose hosts have changed.
    pub(super) fn changed(&mut self) -> Vec<(ObjectName, Arc<Resource>)> {
        let changed = self.0.iter_mut().filter(|(_, gateway)| gateway.has_changed);
        changed
            .map(|(name, gateway)| {
                gateway.has_changed = false;
                (name.clone(), Arc::new(gateway.filter.with(&gateway.hosts)))
            })
            .collect()
    }
}
