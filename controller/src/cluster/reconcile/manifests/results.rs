use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tokio::time::Instant;

use super::complaints::UndeletedObjects;
use super::rollout::RolloutProblem;
use limpet_api::ObjectName;
use limpet_model::Extent;
use limpet_model::reports::Condition;
use limpet_outputs::envoys;
use limpet_outputs::manifests::{Manifest, Objection};

/// The most problems in a condition.
const TOLD: usize = 3;
/// The reason if Envoys cannot be kept as wanted.
const ENVOYS_NOT_WRITTEN: &str = "EnvoysNotWritten";
/// The reason of a Gateway without Envoys, whose pods do not come up.
pub(crate) const NO_RESOURCES: &str = "NoResources";

type Problems = BTreeMap<ObjectName, BTreeSet<String>>;

#[derive(Debug, Default)]
pub(super) struct ManifestResults {
    /// Why objects could not be written.
    pub(super) problems: Problems,
    /// Objects with a former keyring, and why.
    pub(super) outdated: BTreeSet<String>,
    /// Why objects do not work: the control plane refuses them, or proxies lack something.
    pub(super) refusals: Problems,
    /// What the control plane accepts only in part.
    parts: Problems,
    /// Gateways that ask for an address which the API server refuses.
    without_address: BTreeSet<ObjectName>,
    troubles: BTreeMap<ObjectName, RolloutProblem>,
    pub(super) undeleted: UndeletedObjects,
    /// Gateways with objects that wait for filters.
    pub(super) held: BTreeSet<ObjectName>,
    /// The end of the first wait for filters, if known.
    pub(super) due: Option<Instant>,
    /// Whether something was written, to which the control plane may still object.
    pub(super) wrote: bool,
}

impl ManifestResults {
    /// Whether this time has come; else notes the wait.
    pub(super) fn is_due(&mut self, due: Option<Instant>) -> bool {
        if due.is_some_and(|due| due <= Instant::now()) {
            return true;
        }
        self.due = self.due.into_iter().chain(due).min();
        false
    }

    pub(super) fn object_to(&mut self, manifest: &Manifest, objection: &Objection) {
        let by_gateway = match objection.extent {
            Extent::All => &mut self.refusals,
            Extent::Part => &mut self.parts,
        };
        let concerns = |gateway: &&ObjectName| objection.gateway.as_ref().is_none_or(|of| of == *gateway);
        for gateway in manifest.gateways.iter().filter(concerns) {
            by_gateway
                .entry(gateway.clone())
                .or_default()
                .insert(objection.message.clone());
        }
    }

    /// The API server refuses the object's content.
    pub(super) fn invalidate(&mut self, manifest: &Manifest, problem: &str) {
        if *manifest.definition == envoys::SERVICE && asks_for_an_address(&manifest.spec) {
            self.without_address.extend(manifest.gateways.iter().cloned());
        }
        self.refuse(manifest, problem);
    }

    pub(super) fn refuse(&mut self, manifest: &Manifest, problem: &str) {
        for gateway in &manifest.gateways {
            let of_gateway = self.problems.entry(gateway.clone()).or_default();
            of_gateway.insert(problem.to_owned());
        }
    }

    pub(super) fn trouble(&mut self, manifest: &Manifest, trouble: &RolloutProblem) {
        for gateway in &manifest.gateways {
            self.troubles.insert(gateway.clone(), trouble.clone());
        }
    }

    pub(super) fn stuck(&self) -> BTreeMap<ObjectName, String> {
        let stuck = self.troubles.iter().filter(|(_, trouble)| trouble.serves);
        stuck
            .map(|(gateway, trouble)| (gateway.clone(), trouble.message.clone()))
            .collect()
    }

    /// Whether the next check may wait. A long rollout changes no objects. Refused objects have their own time.
    pub(super) fn is_settled(&self) -> bool {
        self.refusals.is_empty() && self.parts.is_empty() && !self.wrote
    }

    /// Problems of a Gateway's Envoys, or why there are none.
    pub(super) fn of_envoys(&self, gateway: &ObjectName) -> Option<Condition> {
        let Some(problems) = self.problems.get(gateway) else {
            let trouble = self.troubles.get(gateway).filter(|trouble| !trouble.serves)?;
            return Some(Condition::fails("Programmed", NO_RESOURCES, &*trouble.message));
        };
        let reason = if self.without_address.contains(gateway) {
            "AddressNotUsable"
        } else {
            ENVOYS_NOT_WRITTEN
        };
        Some(Condition::fails("Programmed", reason, joined_message(problems)))
    }

    /// The condition for another control plane; `None`: the former one stays until the objects are written.
    pub(super) fn condition(&self, gateway: &ObjectName, name: &str) -> Option<Condition> {
        let wrong = self.problems.get(gateway).or_else(|| self.refusals.get(gateway));
        Some(match (wrong, self.parts.get(gateway)) {
            (Some(wrong), _) => Condition::fails("Programmed", "Invalid", joined_message(wrong)),
            (None, Some(parts)) => Condition::holds("Programmed", "PartiallyProgrammed", joined_message(parts)),
            (None, None) if self.held.contains(gateway) => return None,
            (None, None) => Condition::holds(
                "Programmed",
                "Programmed",
                format!("The objects for {name} are written; {name} does not report whether proxies have them"),
            ),
        })
    }
}

fn joined_message(problems: &BTreeSet<String>) -> String {
    let told: Vec<&str> = problems.iter().take(TOLD).map(String::as_str).collect();
    told.join("; ")
}

fn asks_for_an_address(spec: &Value) -> bool {
    ["clusterIP", "loadBalancerIP"]
        .iter()
        .any(|field| spec.get(field).is_some())
}
