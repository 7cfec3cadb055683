use std::collections::{BTreeMap, BTreeSet};

use super::{config_maps, nodes, secrets};
use limpet_api::{Kind, Meta, ObjectName};
use limpet_model::{ContourSettings, Objects, contour_secrets, fair_share};

/// An object that is watched by its name, because another one names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReferencedObject {
    /// The certificate of a listener, or of a host of Contour's.
    Secret(ObjectName),
    /// The authorities of backends.
    ConfigMap(ObjectName),
    /// A node with Envoys that are reached by its address.
    Node(ObjectName),
}

impl ReferencedObject {
    pub(crate) fn name(&self) -> &ObjectName {
        match self {
            Self::Secret(name) | Self::ConfigMap(name) | Self::Node(name) => name,
        }
    }
}

/// The number of a choice of single objects. A dropped object is forgotten, and a watch reports an object once. So an
/// object that is wanted again needs a new watch, even before the former one has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReferenceChoice(u64);

impl ReferenceChoice {
    pub(super) fn next(&mut self) {
        self.0 = self.0.wrapping_add(1);
    }
}

/// The most watched Secrets and ConfigMaps. Each takes a watch of the API server, and a listener may name 64. Beyond
/// that, each namespace has a fair share.
const MOST: usize = if cfg!(test) { 500 } else { 5000 };

#[derive(Debug, Default)]
pub(super) struct AllWanted {
    pub(super) watched: BTreeSet<ReferencedObject>,
    /// Those without room, and why.
    pub(super) beyond: BTreeMap<ReferencedObject, String>,
}

/// The references of our Gateways' objects, and Contour's roots, if they are read. `led_to`: see
/// [`config_maps::referenced`].
pub(super) fn all_references(
    objects: &Objects,
    controller: &str,
    contour: Option<&ContourSettings>,
    led_to: &mut Option<BTreeSet<(Kind, ObjectName)>>,
) -> AllWanted {
    let of_roots = contour
        .into_iter()
        .flat_map(|contour| contour_secrets(objects, contour));
    let secrets = secrets::referenced(objects, controller).into_iter().chain(of_roots);
    let secrets = secrets.map(|(by, name)| (by, ReferencedObject::Secret(name)));
    let config_maps = config_maps::referenced(objects, controller, led_to).into_iter();
    let config_maps = config_maps.map(|(by, name)| (by, ReferencedObject::ConfigMap(name)));
    let mut all = within_shares(secrets.chain(config_maps).collect());
    all.watched
        .extend(nodes::referenced(objects).into_iter().map(ReferencedObject::Node));
    all
}

/// `named`: objects, each with what names it. Within a namespace the oldest goes first, so that none loses a watch to a
/// younger one.
fn within_shares(mut named: Vec<(&Meta, ReferencedObject)>) -> AllWanted {
    named.sort_by_key(|(by, _)| by.precedence());
    let mut by_namespace: BTreeMap<&str, (BTreeSet<&ReferencedObject>, Vec<&ReferencedObject>)> = BTreeMap::new();
    for (by, object) in &named {
        let (known, in_order) = by_namespace.entry(&by.namespace).or_default();
        if known.insert(object) {
            in_order.push(object);
        }
    }
    let share = fair_share(by_namespace.values().map(|(_, in_order)| in_order.len()), MOST);
    let (mut watched, mut beyond) = (BTreeSet::new(), BTreeMap::new());
    for (namespace, (_, in_order)) in by_namespace {
        watched.extend(
            in_order
                .iter()
                .take(share)
                .map(|object| ReferencedObject::clone(object)),
        );
        for object in in_order.iter().skip(share) {
            let why = format!(
                "not read, because objects of the namespace {namespace} name more than {share} Secrets and ConfigMaps, \
                 which is its share of {MOST}: name fewer in its Gateways, IngressRoutes and BackendTLSPolicies"
            );
            beyond.insert(ReferencedObject::clone(object), why);
        }
    }
    // Another namespace may have room for it.
    beyond.retain(|object, _| !watched.contains(object));
    AllWanted { watched, beyond }
}
