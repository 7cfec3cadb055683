use std::collections::BTreeSet;

use super::{config_maps, secrets};
use limpet_api::ObjectName;
use limpet_model::Objects;

/// An object that another one names, and that is watched by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wanted {
    /// The certificate of a listener.
    Secret(ObjectName),
    /// The authorities of backends.
    ConfigMap(ObjectName),
}

impl Wanted {
    pub(crate) fn name(&self) -> &ObjectName {
        match self {
            Self::Secret(name) | Self::ConfigMap(name) => name,
        }
    }
}

/// The number of a choice of the single objects to watch. What is dropped is forgotten, and the watch of an object
/// tells it once. So an object that is wanted again needs a new watch, even if nobody had time to end the former one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Choice(u64);

impl Choice {
    pub(super) fn next(&mut self) {
        self.0 = self.0.wrapping_add(1);
    }
}

/// What the objects of our Gateways name.
pub(super) fn wanted(objects: &Objects, controller: &str) -> BTreeSet<Wanted> {
    let secrets = secrets::wanted(objects, controller).into_iter().map(Wanted::Secret);
    let config_maps = config_maps::wanted(objects, controller).into_iter();
    secrets.chain(config_maps.map(Wanted::ConfigMap)).collect()
}
