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

/// How many problems a Gateway's condition repeats.
const TOLD: usize = 3;
/// The reason of a Gateway whose Envoys cannot be kept as they should be.
const ENVOYS_NOT_WRITTEN: &str = "EnvoysNotWritten";
/// The reason of a Gateway without Envoys whose pods do not come up.
pub(crate) const NO_RESOURCES: &str = "NoResources";

/// Messages by Gateway.
type Problems = BTreeMap<ObjectName, BTreeSet<String>>;

/// The result of a round.
#[derive(Debug, Default)]
pub(super) struct ManifestResults {
    /// Why an object could not be written.
    pub(super) problems: Problems,
    /// The objects that stay with the keyring that they have, and why.
    pub(super) outdated: BTreeSet<String>,
    /// Why existing objects do not work: the control plane refuses them, or proxies lack something.
    pub(super) refusals: Problems,
    /// What the control plane accepts only in part.
    parts: Problems,
    /// The Gateways that ask for an address which the API server refuses.
    without_address: BTreeSet<ObjectName>,
    /// Why Envoys are not there.
    troubles: BTreeMap<ObjectName, RolloutProblem>,
    /// What is not wanted and cannot be deleted.
    pub(super) undeleted: UndeletedObjects,
    /// The Gateways with objects that wait for filters.
    pub(super) held: BTreeSet<ObjectName>,
    /// When the first object has waited for filters long enough, if that is known.
    pub(super) due: Option<Instant>,
    /// Whether something was written. The control plane may still object to it.
    pub(super) wrote: bool,
}

impl ManifestResults {
    /// Whether this time has come; else, something waits for it.
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

    /// The API server refuses an object for its content.
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

    /// Why Gateways have former Envoys and not those that they should have.
    pub(super) fn stuck(&self) -> BTreeMap<ObjectName, String> {
        let stuck = self.troubles.iter().filter(|(_, trouble)| trouble.serves);
        stuck
            .map(|(gateway, trouble)| (gateway.clone(), trouble.message.clone()))
            .collect()
    }

    /// Whether the next check may wait. A rollout changes nothing of what is written, and lasts. What was refused is
    /// tried again in its own time.
    pub(super) fn is_settled(&self) -> bool {
        self.refusals.is_empty() && self.parts.is_empty() && !self.wrote
    }

    /// What is wrong with the objects of a Gateway's Envoys, or why there are no Envoys.
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

    /// The condition of a Gateway of another control plane; `None`: the former one, until its objects are written.
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

/// Whether a Service asks for an address.
fn asks_for_an_address(spec: &Value) -> bool {
    ["clusterIP", "loadBalancerIP"]
        .iter()
        .any(|field| spec.get(field).is_some())
}
