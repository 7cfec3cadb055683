//! What proxies have of the filter's configuration.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::cluster::reconcile::manifests::Written;
use crate::cluster::reconcile::reconcile_loop::changed_or_never;
use limpet_core::envoy::FILTER_NAME;
use limpet_outputs::FilterInputs;
use limpet_resources::{Name, ResourceType, Version};
use limpet_xds::Status;

/// What is published of the filter's configuration.
#[derive(Debug, Clone)]
pub(crate) struct PublishedFilter {
    /// The keyring and the fences in it.
    pub(crate) inputs: Arc<FilterInputs>,
    /// How long a token may live unused, under any of the configurations: `limpet_core::config::longest_life`.
    pub(crate) life: Duration,
    /// Over xDS: the version of each group's resource.
    pub(crate) versions: BTreeMap<Name, Version>,
    /// In objects: the generation of what is to be written.
    pub(crate) generation: u64,
}

/// How it is known what proxies have.
#[derive(Debug, Clone)]
pub(crate) enum Delivery {
    /// Envoys acknowledge it.
    Xds(Status),
    /// A control plane gets objects, and does not say what became of them: they count as delivered after a while.
    Objects {
        written: watch::Receiver<Written>,
        /// Who does not lead writes nothing, and nobody has to wait for it.
        leads: watch::Receiver<bool>,
    },
}

impl Delivery {
    /// Whether all proxies have it. An Envoy that has not asked for its filter's configuration yet gets this one, and no other, when it does; so it is
    /// not waited for.
    pub(crate) fn has(&self, published_filter: &PublishedFilter) -> bool {
        match self {
            Self::Xds(status) => published_filter.versions.iter().all(|(group, version)| {
                let progress = status.progress(group, ResourceType::ExtensionConfig, FILTER_NAME, *version);
                progress.refused + progress.pending == 0
            }),
            Self::Objects { written, leads } => !*leads.borrow() || written.borrow().has(published_filter.generation),
        }
    }

    /// Waits until something of that may have changed.
    pub(crate) async fn changed(&mut self) {
        match self {
            Self::Xds(status) => status.changed().await,
            Self::Objects { written, .. } => changed_or_never(written).await,
        }
    }
}
