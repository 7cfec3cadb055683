use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limpet_api::ObjectName;
use limpet_model::reports::Condition;
use limpet_outputs::manifests::Manifests;

/// What is to be written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// A later one is larger.
    pub(crate) generation: u64,
    /// The objects.
    pub(crate) manifests: Arc<Manifests>,
    /// The Gateways that there are.
    pub(crate) gateways: BTreeSet<ObjectName>,
    /// The environment variables that proxies need.
    pub(crate) variables: BTreeSet<String>,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// The generation that is there as a whole.
    pub(crate) generation: u64,
    /// Whether that is so for so long that all proxies have it, as far as one can say.
    pub(crate) settled: bool,
    /// `Programmed` of each Gateway.
    pub(crate) conditions: BTreeMap<ObjectName, Condition>,
}

impl Written {
    /// Whether proxies have this generation, or a later one.
    pub(crate) fn has(&self, generation: u64) -> bool {
        self.settled && self.generation >= generation
    }
}
