//! Objects for another control plane, as an output wants them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use limpet_api::{ObjectName, Text};
use limpet_model::{Extent, Graph, Objects, Unsupported};

use super::envoy::EnvoyOptions;
use super::{FilterInputs, RetainedConfig};

pub use limpet_model::{MANAGED_BY, MANAGER};

/// The label of the controller that wrote an object, with the value [`controller_label`].
pub const CONTROLLER_LABEL: &str = "limpet.dev/controller";

/// The inputs of manifests.
#[derive(Debug, Clone, Copy)]
pub struct ManifestInputs<'a> {
    /// The objects, for what a graph does not have, such as the uids of owners.
    pub objects: &'a Objects,
    /// The graph to serve.
    pub graph: &'a Graph,
    /// The filter, and what all proxies share.
    pub options: &'a EnvoyOptions,
    /// The keyring and the fences.
    pub inputs: &'a FilterInputs,
    /// Retained content by Gateway: proxies may still have routes for it.
    pub retained: &'a BTreeMap<ObjectName, RetainedConfig>,
}

/// The objects that should exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifests {
    /// Objects in the order in which they are written. The next build shares equal ones.
    pub objects: Vec<Arc<Manifest>>,
    /// What the objects cannot express.
    pub unsupported: Vec<Unsupported>,
    /// Gateways whose objects are neither written nor deleted.
    pub unchanged: BTreeSet<ObjectName>,
}

impl Manifests {
    /// Sorts by stage, then by the kind's place in `definitions`, then by name.
    pub(crate) fn sort(&mut self, definitions: &[&ManifestKind]) {
        let place = |manifest: &Manifest| definitions.iter().position(|known| *known == manifest.definition);
        let key = |manifest: &Manifest| (manifest.stage, place(manifest));
        self.objects
            .sort_by(|one, other| key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name)));
        self.unsupported.sort();
        self.unsupported.dedup();
    }
}

/// An object that should exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The stage in which it is written.
    pub stage: WriteStage,
    /// Its kind.
    pub definition: &'static ManifestKind,
    /// Its name.
    pub name: ObjectName,
    /// The Gateways whose proxies it is for.
    pub gateways: BTreeSet<ObjectName>,
    /// The namespace in whose turn it is written: the route's, or the Gateway's where it serves several routes. The
    /// object may be in another one.
    pub tenant: Text,
    /// The owner, in the same namespace. The cluster deletes both together.
    pub owner: Option<ManifestOwner>,
    /// Labels besides its writer's.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The `spec`; null if its kind has none.
    pub spec: Value,
}

/// An objection of a control plane to an object of ours, from the object's status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objection {
    /// The Gateway that it concerns; all if `None`.
    pub gateway: Option<ObjectName>,
    /// The effect on sessions.
    pub extent: Extent,
    /// The object and the control plane's message.
    pub message: String,
}

/// When an object is written. A proxy that refers to something that it does not have yet serves without sessions, or
/// not at all. So the objects of a stage reach the proxies before the next stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteStage {
    /// What routes use: the filter, its configuration, and its neighbours in the chain.
    Filter,
    /// The routes that use it.
    Routes,
}

/// A kind that is written.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManifestKind {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The API version, without the group.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The plural, as in the paths of the API.
    pub plural: &'static str,
}

/// The owner of an object, which the cluster deletes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestOwner {
    /// The API version, with the group.
    pub api_version: String,
    /// The owner's kind.
    pub kind: &'static str,
    /// The owner's name.
    pub name: String,
    /// The owner's uid.
    pub uid: String,
}

/// Pods that run proxies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyPods {
    /// The pods' namespace; any if `None`.
    pub namespace: Option<String>,
    /// A label selector for the pods.
    pub selector: String,
    /// The container that runs Envoy.
    pub container: &'static str,
}

impl Manifest {
    /// The object as the controller that `label` names writes it.
    #[must_use]
    pub fn object(&self, label: &str) -> Value {
        let mut labels = self.labels.clone();
        labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
        labels.insert(CONTROLLER_LABEL.to_owned(), label.to_owned());
        let mut metadata = json!({
            "name": self.name.name,
            "namespace": self.name.namespace,
            "labels": labels,
        });
        if let (false, Value::Object(metadata)) = (self.annotations.is_empty(), &mut metadata) {
            metadata.insert("annotations".to_owned(), json!(self.annotations));
        }
        // Objects from files have no uid.
        if let Some(owner) = self.owner.as_ref().filter(|owner| !owner.uid.is_empty()) {
            let owner = json!([{
                "apiVersion": owner.api_version,
                "kind": owner.kind,
                "name": owner.name,
                "uid": owner.uid,
            }]);
            if let Value::Object(metadata) = &mut metadata {
                metadata.insert("ownerReferences".to_owned(), owner);
            }
        }
        let mut object = json!({
            "apiVersion": self.definition.api_version(),
            "kind": self.definition.kind,
            "metadata": metadata,
        });
        if let (false, Value::Object(object)) = (self.spec.is_null(), &mut object) {
            object.insert("spec".to_owned(), self.spec.clone());
        }
        object
    }
}

impl ManifestKind {
    /// Group and version, as in `apiVersion`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            return self.version.to_owned();
        }
        format!("{}/{}", self.group, self.version)
    }
}

/// A controller's name as a label value, which is limited to 63 characters and has no slash.
#[must_use]
pub fn controller_label(controller_name: &str) -> String {
    const LONGEST: usize = 63;
    let legal = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '_'
        }
    };
    let label: String = controller_name.chars().map(legal).collect();
    if label.len() <= LONGEST {
        return label;
    }
    let hash = limpet_model::short_hash(controller_name.as_bytes());
    let head: String = label.chars().take(LONGEST - hash.len() - 1).collect();
    format!("{head}-{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_short_and_has_no_slash() {
        assert_eq!(controller_label("limpet.dev/istio"), "limpet.dev_istio");
        let long = |last: char| controller_label(&format!("limpet.dev/{}{last}", "x".repeat(70)));
        assert_eq!(long('a').len(), 63);
        assert_ne!(long('a'), long('b'));
    }
}
