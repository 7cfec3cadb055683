use std::collections::BTreeSet;

use super::{config_maps, nodes, secrets};
use limpet_api::ObjectName;
use limpet_model::{ContourSettings, Objects, contour_secrets};

/// An object that another one names, and that is watched by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wanted {
    /// The certificate of a listener, or of a host of Contour's.
    Secret(ObjectName),
    /// The authorities of backends.
    ConfigMap(ObjectName),
    /// A node with Envoys that are reached by its address.
    Node(ObjectName),
}

impl Wanted {
    pub(crate) fn name(&self) -> &ObjectName {
        match self {
            Self::Secret(name) | Self::ConfigMap(name) | Self::Node(name) => name,
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

/// What the objects of our Gateways name, and Contour's roots, if they are read.
pub(super) fn wanted(objects: &Objects, controller: &str, contour: Option<&ContourSettings>) -> BTreeSet<Wanted> {
    let of_roots = contour
        .into_iter()
        .flat_map(|contour| contour_secrets(objects, contour));
    let secrets = secrets::wanted(objects, controller).into_iter().chain(of_roots);
    let secrets = secrets.map(Wanted::Secret);
    let config_maps = config_maps::wanted(objects, controller).into_iter();
    let nodes = nodes::wanted(objects).into_iter().map(Wanted::Node);
    let all = secrets.chain(config_maps.map(Wanted::ConfigMap));
    all.chain(nodes).collect()
}
