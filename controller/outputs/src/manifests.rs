//! Objects for a control plane that is there already: what an output wants written, without a word of how it gets there.

use std::collections::{BTreeMap, BTreeSet};

use limpet_core::config::schema::PolicyConfig;
use serde_json::{Value, json};

use limpet_api::ObjectName;
use limpet_model::{Extent, Graph, Objects, Unsupported};

use super::FilterInputs;
use super::envoy::EnvoyOptions;
use super::envoy_gateway::{self, EnvoyGatewayOptions};
use super::istio::{self, IstioOptions};

pub use limpet_model::{MANAGED_BY, MANAGER};

/// The label that tells whose of several controllers an object is: [`controller_label`].
pub const CONTROLLER_LABEL: &str = "limpet.dev/controller";

/// A control plane that gets objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlPlane {
    /// Istio: `WasmPlugin` and `EnvoyFilter`.
    Istio(IstioOptions),
    /// Envoy Gateway: `EnvoyExtensionPolicy` and what it needs.
    EnvoyGateway(EnvoyGatewayOptions),
}

/// What manifests are made of.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// For what is in no graph: uids of owners, for instance.
    pub objects: &'a Objects,
    /// What is to be served.
    pub graph: &'a Graph,
    /// The filter, and what all proxies have in common.
    pub options: &'a EnvoyOptions,
    /// The keyring and the fences.
    pub inputs: &'a FilterInputs,
    /// By Gateway: policies that proxies may still have routes for, beside those of the graph.
    pub superseded: &'a BTreeMap<ObjectName, BTreeMap<String, PolicyConfig>>,
}

/// What is to be there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifests {
    /// The objects, in the order in which they are written.
    pub objects: Vec<Manifest>,
    /// What they do not give.
    pub unsupported: Vec<Unsupported>,
}

/// An object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// When it is written.
    pub stage: Stage,
    /// Its kind.
    pub definition: &'static Definition,
    /// Its name.
    pub name: ObjectName,
    /// The Gateways whose proxies it is for.
    pub gateways: BTreeSet<ObjectName>,
    /// The object of the same namespace that it goes with.
    pub owner: Option<Owner>,
    /// Its content.
    pub spec: Value,
}

/// What a control plane has against an object that it was given, by the object's status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objection {
    /// The Gateway where that is so; everywhere, where there is none.
    pub gateway: Option<ObjectName>,
    /// What that means for sessions.
    pub extent: Extent,
    /// Which object, and the control plane's words.
    pub message: String,
}

/// A proxy that is told to use what it does not have yet serves without sessions, or not at all. So those of a stage are written, and reach the proxies,
/// before those of the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// What routes use: the filter, its configuration, its neighbours.
    Filter,
    /// What uses it.
    Routes,
}

/// A kind of objects that are written.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Definition {
    /// Its API group.
    pub group: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Its name.
    pub kind: &'static str,
    /// Its name in paths.
    pub plural: &'static str,
}

/// The object that another one goes with: when it is deleted, the cluster deletes both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
}

impl ControlPlane {
    /// Its name, for people.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Istio(_) => "Istio",
            Self::EnvoyGateway(_) => "Envoy Gateway",
        }
    }

    /// The kinds that are written: within a stage in this order.
    #[must_use]
    pub fn definitions(&self) -> &'static [&'static Definition] {
        match self {
            Self::Istio(_) => istio::DEFINITIONS,
            Self::EnvoyGateway(_) => envoy_gateway::DEFINITIONS,
        }
    }

    /// The `controllerName`s of its GatewayClasses.
    #[must_use]
    pub fn gateway_controllers(&self) -> &'static [&'static str] {
        match self {
            Self::Istio(_) => istio::GATEWAY_CONTROLLERS,
            Self::EnvoyGateway(_) => envoy_gateway::GATEWAY_CONTROLLERS,
        }
    }

    /// The GatewayClasses that it makes itself, with their `controllerName`s: they are in a cluster, but in nobody's files.
    #[must_use]
    pub fn own_classes(&self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Istio(_) => istio::OWN_CLASSES,
            Self::EnvoyGateway(_) => &[],
        }
    }

    /// Where the proxies of a Gateway are.
    #[must_use]
    pub fn proxies(&self, gateway: &ObjectName) -> Proxies {
        match self {
            Self::Istio(_) => istio::proxies(gateway),
            Self::EnvoyGateway(options) => envoy_gateway::proxies(gateway, options),
        }
    }

    /// What the control plane has against an object of ours, as it is in the cluster.
    #[must_use]
    pub fn objections(&self, object: &Value) -> Vec<Objection> {
        match self {
            // Its objects have no status that says so.
            Self::Istio(_) => Vec::new(),
            Self::EnvoyGateway(_) => envoy_gateway::objections(object),
        }
    }

    /// What is to be there.
    #[must_use]
    pub fn manifests(&self, source: &Source<'_>) -> Manifests {
        let mut manifests = match self {
            Self::Istio(options) => istio::manifests(source, options),
            Self::EnvoyGateway(options) => envoy_gateway::manifests(source, options),
        };
        let place = |manifest: &Manifest| {
            self.definitions()
                .iter()
                .position(|known| *known == manifest.definition)
        };
        let key = |manifest: &Manifest| (manifest.stage, place(manifest));
        manifests
            .objects
            .sort_by(|one, other| key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name)));
        manifests.unsupported.sort();
        manifests.unsupported.dedup();
        manifests
    }
}

/// Pods that run proxies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxies {
    /// Their namespace; any, where there is none.
    pub namespace: Option<String>,
    /// Their labels, as a selector.
    pub selector: String,
    /// The container that Envoy is in.
    pub container: &'static str,
}

impl Manifest {
    /// The object, as it is written: by the controller that `label` names.
    #[must_use]
    pub fn object(&self, label: &str) -> Value {
        let mut metadata = json!({
            "name": self.name.name,
            "namespace": self.name.namespace,
            "labels": {MANAGED_BY: MANAGER, CONTROLLER_LABEL: label},
        });
        // Without a cluster, nobody has an identity.
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
        json!({
            "apiVersion": self.definition.api_version(),
            "kind": self.definition.kind,
            "metadata": metadata,
            "spec": self.spec,
        })
    }
}

impl Definition {
    /// Group and version.
    #[must_use]
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }
}

/// A controller's name as a label's value, which is shorter and has no slash.
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
