use std::collections::BTreeSet;

use serde_json::Value;

use super::rollout::{self, RolloutProblem};
use limpet_api::ObjectName;
use limpet_outputs::manifests::{ManifestKind, Objection, ProxyPods};
use limpet_outputs::{ControlPlane, envoys};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ManifestRecipient {
    Plane(ControlPlane),
    /// The Envoys that we keep: in this namespace, or in the Gateways'.
    Envoys(Option<String>),
}

impl ManifestRecipient {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Plane(plane) => plane.name(),
            Self::Envoys(_) => "Envoys",
        }
    }

    pub(super) fn definitions(&self) -> &'static [&'static ManifestKind] {
        match self {
            Self::Plane(plane) => plane.definitions(),
            Self::Envoys(_) => envoys::DEFINITIONS,
        }
    }

    /// The namespaces with objects of ours. `None`: all.
    pub(super) fn namespaces(&self, gateways: &BTreeSet<ObjectName>) -> BTreeSet<Option<String>> {
        match self {
            Self::Plane(_) => BTreeSet::from([None]),
            Self::Envoys(Some(own)) => BTreeSet::from([Some(own.clone())]),
            Self::Envoys(None) => gateways
                .iter()
                .map(|gateway| Some(gateway.namespace.to_string()))
                .collect(),
        }
    }

    pub(super) fn objections(&self, object: &Value) -> Vec<Objection> {
        match self {
            Self::Plane(plane) => plane.objections(object),
            Self::Envoys(_) => Vec::new(),
        }
    }

    pub(super) fn has_keyring(&self, definition: &ManifestKind) -> bool {
        match self {
            Self::Plane(plane) => plane.keyring_kind() == definition,
            Self::Envoys(_) => false,
        }
    }

    pub(super) fn trouble(&self, definition: &ManifestKind, object: &Value) -> Option<RolloutProblem> {
        let is_for_envoys = matches!(self, Self::Envoys(_)) && *definition == envoys::DEPLOYMENT;
        is_for_envoys.then(|| rollout::trouble(object)).flatten()
    }

    /// The pods of a Gateway's proxies, if a control plane writes them.
    pub(super) fn proxies(&self, gateway: &ObjectName) -> Option<ProxyPods> {
        match self {
            Self::Plane(plane) => Some(plane.proxies(gateway)),
            Self::Envoys(_) => None,
        }
    }
}
