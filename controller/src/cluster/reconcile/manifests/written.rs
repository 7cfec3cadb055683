use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limpet_api::ObjectName;
use limpet_model::reports::Condition;
use limpet_outputs::manifests::Manifests;
use tokio::sync::watch;

/// The objects to write, and what they need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DesiredManifests {
    /// Increases with every change.
    pub(crate) generation: u64,
    pub(crate) manifests: Arc<Manifests>,
    /// All Gateways.
    pub(crate) gateways: BTreeSet<ObjectName>,
    /// The environment variables that proxies need.
    pub(crate) variables: BTreeSet<String>,
}

impl DesiredManifests {
    /// Passes these on if they are others than before: each time, all that there are in the cluster are listed. Returns
    /// their generation.
    pub(crate) fn hand_over(mut self, to: &watch::Sender<Option<Arc<Self>>>) -> u64 {
        let mut generation = self.generation;
        to.send_if_modified(|before| {
            if let Some(before) = before {
                self.generation = before.generation;
                if **before == self {
                    generation = before.generation;
                    return false;
                }
            }
            self.generation = generation;
            *before = Some(Arc::new(self));
            true
        });
        generation
    }
}

/// What has been written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WrittenManifests {
    /// The last generation whose keyring is in all objects that had one, for so long that all proxies should have it.
    pub(crate) generation: u64,
    /// The last generation that `complete` is about.
    pub(crate) seen: u64,
    /// The Gateways whose objects are all as wanted, for so long that their proxies should have them.
    pub(crate) complete: BTreeSet<ObjectName>,
    /// The objects with another keyring that the API server refuses to change, in words.
    pub(crate) outdated: BTreeSet<String>,
    /// The condition `Programmed` of each Gateway.
    pub(crate) conditions: BTreeMap<ObjectName, Condition>,
    /// Why Gateways have former Envoys and not those that they should have.
    pub(crate) stuck: BTreeMap<ObjectName, String>,
}

impl WrittenManifests {
    /// Whether proxies have the keyring of this generation, or of a later one.
    pub(crate) fn has(&self, generation: u64) -> bool {
        self.generation >= generation
    }

    /// Whether proxies of this Gateway have all of this generation, or of a later one.
    pub(crate) fn has_all(&self, generation: u64, gateway: &ObjectName) -> bool {
        self.seen >= generation && self.complete.contains(gateway)
    }
}
