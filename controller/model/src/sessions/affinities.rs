//! Services with affinity that rules lead to. The session belongs to the Service: the split chooses the destination of
//! every request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::facts::{RuleFacts, services};
use crate::{Objects, Settings, affinity};
use limpet_api::ObjectName;

/// How long each Service's affinity lasts.
#[derive(Debug, Default)]
pub(super) struct Affinities(BTreeMap<ObjectName, Duration>);

impl Affinities {
    /// Reads the Services of these rules. Another control plane serves them in its own ways.
    pub(super) fn read(objects: &Objects, settings: &Settings, rules: &[RuleFacts<'_>]) -> Self {
        if !settings.serves() {
            return Self::default();
        }
        let names: BTreeSet<&ObjectName> = rules.iter().flat_map(services).collect();
        let affine = |name: &ObjectName| Some((name.clone(), affinity::of_named(objects, name)?));
        Self(names.into_iter().filter_map(affine).collect())
    }

    pub(super) fn any(&self, rule: &RuleFacts<'_>) -> bool {
        services(rule).any(|name| self.0.contains_key(name))
    }

    pub(super) fn timeout(&self, service: &ObjectName) -> Option<Duration> {
        self.0.get(service).copied()
    }
}
