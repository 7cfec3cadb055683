use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limpet_api::ObjectName;
use limpet_model::reports::Condition;
use limpet_outputs::manifests::Manifests;
use tokio::sync::watch;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DesiredManifests {
    /// Increases with every change.
    pub(crate) generation: u64,
    pub(crate) manifests: Arc<Manifests>,
    pub(crate) gateways: BTreeSet<ObjectName>,
    pub(crate) variables: BTreeSet<String>,
}

impl DesiredManifests {
    /// Sends only changes, because each makes the reconciler list all objects. Returns the generation.
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

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WrittenManifests {
    /// The last generation whose keyring all proxies should have: it is in all objects that had one, for long enough.
    pub(crate) generation: u64,
    /// The generation of `complete`.
    pub(crate) seen: u64,
    /// Gateways whose objects are as wanted for so long that their proxies should have them.
    pub(crate) complete: BTreeSet<ObjectName>,
    /// Objects with another keyring that the API server refuses to change, in words.
    pub(crate) outdated: BTreeSet<String>,
    pub(crate) conditions: BTreeMap<ObjectName, Condition>,
    /// Why Gateways still have former Envoys.
    pub(crate) stuck: BTreeMap<ObjectName, String>,
}

impl WrittenManifests {
    /// Whether proxies have the keyring of this generation, or of a later one.
    pub(crate) fn has(&self, generation: u64) -> bool {
        self.generation >= generation
    }

    /// Whether a Gateway's proxies have all of this generation, or of a later one.
    pub(crate) fn has_all(&self, generation: u64, gateway: &ObjectName) -> bool {
        self.seen >= generation && self.complete.contains(gateway)
    }
}
