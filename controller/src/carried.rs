//! What Envoys have of the filter's configuration.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::find::NAME;
use crate::outputs::FilterInputs;
use crate::xds::{Name, ResourceType, Status, Version};

/// What is published of the filter's configuration, by groups of Envoys.
#[derive(Debug, Clone)]
pub(crate) struct Carried {
    /// The keyring and the fences in it.
    pub(crate) inputs: Arc<FilterInputs>,
    /// How long a token may live unused, under any of the configurations: `limpet_core::config::longest_life`.
    pub(crate) life: Duration,
    /// The version of each group's resource.
    pub(crate) versions: BTreeMap<Name, Version>,
}

impl Carried {
    /// Whether every connected Envoy has acknowledged it. One that has not asked for it yet gets it, and no other, when it does; so it is not
    /// waited for.
    pub(crate) fn is_everywhere(&self, status: &Status) -> bool {
        self.versions.iter().all(|(group, version)| {
            let progress = status.progress(group, ResourceType::ExtensionConfig, NAME, *version);
            progress.refused + progress.pending == 0
        })
    }
}
