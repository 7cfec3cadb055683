use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::cluster::reconcile::manifests::WrittenManifests;
use crate::cluster::reconcile::reconcile_loop::changed_or_never;
use limpet_api::ObjectName;
use limpet_outputs::FilterInputs;
use limpet_resources::{Name, ResourceType, ResourceVersion};
use limpet_xds::AckStatus;

#[derive(Debug, Clone)]
pub(crate) struct PublishedFilter {
    pub(crate) inputs: Arc<FilterInputs>,
    /// `limpet_core::config::longest_life` of all configurations.
    pub(crate) life: Duration,
    /// Over xDS: the resource's name and version, by group.
    pub(crate) versions: BTreeMap<Name, (Name, ResourceVersion)>,
    /// For objects: the first generation with these inputs.
    pub(crate) generation: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum Delivery {
    Xds(AckStatus),
    /// A control plane does not report delivery: its objects count as delivered after some time.
    Objects {
        written: watch::Receiver<WrittenManifests>,
        /// Other replicas write nothing, so nothing is awaited.
        leads: watch::Receiver<bool>,
    },
}

impl Delivery {
    /// Whether no proxy uses another one. An Envoy that has not asked for the filter's configuration yet does not
    /// count: it will get this one. Nor does one without any that refuses this one: it verifies and issues no token.
    pub(crate) fn has(&self, published_filter: &PublishedFilter) -> bool {
        match self {
            Self::Xds(status) => behind(status, published_filter).next().is_none(),
            Self::Objects { written, leads } => !*leads.borrow() || written.borrow().has(published_filter.generation),
        }
    }

    /// Whether the proxies of a Gateway have all that is published. `generation`: of objects.
    pub(crate) fn has_all(&self, gateway: &ObjectName, generation: u64) -> bool {
        match self {
            Self::Xds(status) => status.is_settled(&gateway.to_string()),
            Self::Objects { written, .. } => written.borrow().has_all(generation, gateway),
        }
    }

    /// The first proxy with another configuration, in words, if known.
    pub(crate) fn behind(&self, published_filter: &PublishedFilter) -> Option<String> {
        match self {
            Self::Xds(status) => {
                let (gateway, envoy) = behind(status, published_filter).next()?;
                Some(format!("Envoy {envoy} of Gateway {gateway} has not acknowledged it"))
            }
            Self::Objects { written, leads } if *leads.borrow() => written.borrow().outdated.first().cloned(),
            Self::Objects { .. } => None,
        }
    }

    /// The number of Envoys of each Gateway with another configuration. Empty for a control plane.
    pub(crate) fn behind_by_gateway(&self, published_filter: &PublishedFilter) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        if let Self::Xds(status) = self {
            for (gateway, _) in behind(status, published_filter) {
                *counts.entry(gateway.to_string()).or_default() += 1;
            }
        }
        counts
    }

    /// The Gateway and node of each connected Envoy with it. None for a control plane.
    pub(crate) fn envoys_with(&self, published_filter: &PublishedFilter) -> Vec<(String, String)> {
        let Self::Xds(status) = self else {
            return Vec::new();
        };
        let groups = published_filter.versions.iter();
        let envoys = groups.flat_map(|(group, (name, version))| {
            let key = (ResourceType::ExtensionConfig, name.clone());
            let has = |id: &Name| status.acknowledged(group, id).get(&key) == Some(version);
            let nodes = status.nodes(group).into_iter().map(|node| node.id);
            let nodes: Vec<Name> = nodes.filter(has).collect();
            nodes.into_iter().map(|node| (group.to_string(), node.to_string()))
        });
        envoys.collect()
    }

    pub(crate) async fn changed(&mut self) {
        match self {
            Self::Xds(status) => status.changed().await,
            Self::Objects { written, .. } => changed_or_never(written).await,
        }
    }
}

/// The Gateway and node of each Envoy that may have another one.
fn behind<'a>(
    status: &'a AckStatus,
    published_filter: &'a PublishedFilter,
) -> impl Iterator<Item = (&'a Name, Name)> + use<'a> {
    let groups = published_filter.versions.iter();
    groups.flat_map(|(group, (name, version))| {
        let nodes = status.behind(group, ResourceType::ExtensionConfig, name, *version);
        nodes.into_iter().map(move |node| (group, node))
    })
}
