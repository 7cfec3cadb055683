//! Builds again what a change concerns. See `design/islands.md`.
//!
//! Objects that have to do with each other (`links`) are in one island (`partition`). An island is built of its own
//! objects and of those that it reads (`restrict`), by the same code as all objects, and its result replaces its former
//! one (`merge`). `common` has what islands share although nothing joins them.
//!
//! So a build costs what changed (`changes`) with the islands around it. Changes of settings and GatewayClasses concern
//! all islands, a Gateway's changes all of its routes.

mod cookie_registry;
mod links;
mod merge;
mod object_changes;
mod partition;
mod restrict;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use limpet_api::{Kind, ObjectName, ObjectRef};

use super::build::{BuildOutput, MOST_BUILDS, build_with_stand_ins, build_within};
use super::gone_classes;
use super::grant_index::GrantIndex;
use super::grants::GrantedReferences;
use super::graph::Graph;
use super::memory::Memory;
use super::memory_room::MemoryRoom;
use super::reports::ListenerReport;
use super::sessions::BuildContext;
use super::sessions::BuildLimits;
use super::{Objects, Reports, Settings, contour, without_status};
use cookie_registry::{CookieDifference, CookieRegistry};
use links::{IslandLink, IslandMember, links};
use merge::{IslandPart, MergedIslands};
use object_changes::ObjectChanges;
use partition::{Island, Partition, SettledIslands};
use restrict::restricted;

/// Rounds until islands agree about what they have in common. More than two are not needed: the cookies that an island
/// writes do not depend on others.
const MOST_ROUNDS: usize = 8;

/// Builds as [`build`](super::build) does, and keeps the results of its parts for the next time.
#[derive(Debug)]
pub struct Incremental {
    limits: BuildLimits,
    objects: Objects,
    settings: Option<Settings>,
    partition: Partition,
    common: CookieRegistry,
    parts: HashMap<Island, Box<IslandPart>>,
    merged: MergedIslands,
    /// The part of the memory that has room, if not all has.
    room: Option<MemoryRoom>,
    /// The Gateways of other controllers.
    others: BTreeSet<ObjectName>,
    /// The listeners of each Gateway that serve. Beside the object, its routes read only this.
    serving: BTreeMap<ObjectName, GatewayServing>,
}

/// Whether a Gateway serves, and which of its listeners.
type GatewayServing = (bool, Option<Vec<bool>>);

impl Default for Incremental {
    fn default() -> Self {
        Self::with_limits(BuildLimits::default())
    }
}

impl Incremental {
    fn with_limits(limits: BuildLimits) -> Self {
        Self {
            limits,
            objects: Objects::default(),
            settings: None,
            partition: Partition::default(),
            common: CookieRegistry::default(),
            parts: HashMap::new(),
            merged: MergedIslands::default(),
            room: None,
            others: BTreeSet::new(),
            serving: BTreeMap::new(),
        }
    }

    /// Builds the graph of `objects`, and a report on each object.
    #[must_use]
    pub fn build(&mut self, objects: &Objects, settings: &Settings) -> (Graph, Reports) {
        self.build_parts(objects, settings).unwrap_or_else(|| {
            *self = Self::with_limits(self.limits);
            let context = BuildContext {
                limits: self.limits,
                ..BuildContext::default()
            };
            let built = build_within(objects, settings, context);
            (built.graph, built.reports)
        })
    }

    /// `None`: it came to no end.
    fn build_parts(&mut self, objects: &Objects, settings: &Settings) -> Option<(Graph, Reports)> {
        let mut objects = objects.clone();
        let mut is_settled = self.apply(&objects, settings);
        let (mut memory, mut forgot) = self.memory();
        for _ in 1..MOST_BUILDS {
            memory.classes.clone_from(&objects.memory.classes);
            if !forgot || memory == objects.memory || !is_settled {
                break;
            }
            objects.memory = memory;
            is_settled = self.apply(&objects, settings);
            (memory, forgot) = self.memory();
        }
        memory.classes = gone_classes::remembered(&objects, settings);
        let graph = Graph {
            memory,
            ..self.merged.graph.clone()
        };
        is_settled.then(|| (graph, self.merged.reports.clone()))
    }

    /// The memory, and whether something was forgotten for lack of room.
    fn memory(&mut self) -> (Memory, bool) {
        let changed = std::mem::take(&mut self.merged.remembered);
        let all = &self.merged.graph.memory;
        if self.merged.bytes <= self.limits.most_bytes {
            self.room = None;
            return (all.clone(), false);
        }
        let room = match &mut self.room {
            Some(room) => {
                room.update(&changed, all);
                room
            }
            none => {
                let room = none.insert(MemoryRoom::new(self.limits.most_bytes));
                room.update(&all.objects(), all);
                room
            }
        };
        room.remaining()
    }

    /// Builds what differs. Returns whether that came to an end.
    fn apply(&mut self, objects: &Objects, settings: &Settings) -> bool {
        let has_other_classes = self.objects.gateway_classes != objects.gateway_classes
            || self.objects.gone_classes != objects.gone_classes;
        if self.settings.as_ref() != Some(settings) || has_other_classes {
            *self = Self {
                settings: Some(settings.clone()),
                ..Self::with_limits(self.limits)
            };
            let references = GrantedReferences::new(objects);
            for member in [IslandMember::Classes, IslandMember::Contour] {
                let links = links(&member, objects, settings, &references);
                self.partition.set(member, links);
            }
        }
        let mut changes = ObjectChanges::between(&self.objects, objects, &self.merged.graph.memory);
        let is_ours = |class: &str| {
            let class = objects
                .gateway_classes
                .get(class)
                .filter(|_| settings.managed.is_some());
            class.is_some_and(|class| settings.selects(&class.spec.controller_name))
        };
        let mut room = self.objects.parameters_room.take().unwrap_or_default();
        let gateways = Arc::make_mut(&mut room).catch_up(&objects.gateways, &objects.envoy_deployments, is_ours);
        let kind = Kind::Gateway;
        let gateways = gateways.into_iter();
        changes
            .members
            .extend(gateways.map(|name| IslandMember::Object(ObjectRef { kind, name })));
        self.objects = Objects {
            grants: Some(self.grants(objects, &changes)),
            parameters_room: Some(room),
            ..objects.clone()
        };
        self.note(changes, settings);
        let mut is_settled = false;
        for _ in 0..MOST_ROUNDS {
            let settled = self.partition.settle();
            is_settled = settled.is_empty();
            if is_settled {
                break;
            }
            self.build_islands(&settled, settings);
        }
        self.merged.finish();
        is_settled
    }

    /// What the grants among these objects permit, which may be known already.
    fn grants(&mut self, objects: &Objects, changes: &ObjectChanges) -> Arc<GrantIndex> {
        if let Some(known) = &objects.grants {
            return Arc::clone(known);
        }
        let mut grants = self.objects.grants.take().unwrap_or_default();
        for link in &changes.links {
            if let IslandLink::Grants(namespace) = link {
                Arc::make_mut(&mut grants).catch_up(namespace, &objects.reference_grants);
            }
        }
        grants
    }

    fn note(&mut self, changes: ObjectChanges, settings: &Settings) {
        let mut members = changes.members;
        let had_others = !self.others.is_empty();
        for name in changes.gateways {
            if self.is_others(&name, settings) {
                self.others.insert(name.clone());
            } else {
                self.others.remove(&name);
            }
            // The hosts of its routes come from its listeners.
            let link = IslandLink::Gateway(name);
            members.extend(self.partition.holders(&link).map(|member| IslandMember::clone(member)));
            self.partition.mark_dirty(&link);
        }
        if had_others == self.others.is_empty() {
            self.partition.mark_dirty(&IslandLink::OthersGateways);
        }
        for link in changes.links {
            if matches!(
                link,
                IslandLink::Deployments | IslandLink::Grants(_) | IslandLink::Namespace(_)
            ) {
                // Deployments may name the Services of Gateways; the others say what routes may refer and attach to.
                members.extend(self.partition.holders(&link).map(|member| IslandMember::clone(member)));
            }
            self.partition.mark_dirty(&link);
        }
        let references = GrantedReferences::new(&self.objects);
        for member in members {
            let links = links(&member, &self.objects, settings, &references);
            self.partition.set(member, links);
        }
    }

    /// Whether the Gateway is of another controller's class.
    fn is_others(&self, name: &ObjectName, settings: &Settings) -> bool {
        let gateway = self.objects.gateways.get(name);
        gateway.is_some_and(|gateway| without_status::is_others(&self.objects, settings, gateway))
    }

    fn build_islands(&mut self, settled: &SettledIslands, settings: &Settings) {
        let mut difference = CookieDifference::default();
        self.remove_islands(&settled.removed, &mut difference);
        let is_gateway = |island: &Island| self.gateway_of(*island).is_some();
        let (gateways, mut others): (BTreeSet<_>, BTreeSet<_>) = settled.dirty.iter().copied().partition(is_gateway);
        self.remove_islands(&gateways, &mut difference);
        for island in gateways {
            self.build_island(island, settings, &mut difference);
        }
        // A Gateway that serves in another way has its routes built again.
        others.extend(self.partition.settle().dirty);
        self.remove_islands(&others, &mut difference);
        for island in &others {
            self.build_island(*island, settings, &mut difference);
        }
        let mut concerned = self.common.affected_islands(&difference);
        concerned.extend(others);
        for island in concerned {
            let part = self.parts.get(&island);
            if part.is_some_and(|part| !self.common.agrees(&part.in_common)) {
                self.partition.mark_island_dirty(island);
            }
        }
    }

    fn gateway_of(&self, island: Island) -> Option<&ObjectName> {
        match &**self.partition.members(island).first()? {
            IslandMember::Object(object) if object.kind == Kind::Gateway => Some(&object.name),
            _ => None,
        }
    }

    fn remove_islands(&mut self, islands: &BTreeSet<Island>, difference: &mut CookieDifference) {
        for island in islands {
            if let Some(part) = self.parts.remove(island) {
                self.merged.remove(&part);
                self.common.remove(*island, &part.in_common, difference);
            }
        }
    }

    fn build_island(&mut self, island: Island, settings: &Settings, difference: &mut CookieDifference) {
        let members = self.partition.members(island);
        let objects = restricted(&self.objects, &self.partition, island, self.others.first());
        let context = BuildContext {
            limits: BuildLimits {
                most_bytes: usize::MAX,
                ..self.limits
            },
            elsewhere: Some(&self.common),
            explained: None,
        };
        let is_contour = members.first().is_some_and(|member| **member == IslandMember::Contour);
        let mut built = build_with_stand_ins(&objects, settings, context);
        if is_contour && contour::has_name_conflict(&objects, settings) {
            built.graph.gateways.clear();
        }
        if let Some(name) = self.gateway_of(island).cloned() {
            let serving = serving(&name, &built);
            if self.serving.insert(name.clone(), serving.clone()) != Some(serving) {
                self.partition.mark_dirty(&IslandLink::Gateway(name));
            }
        }
        let part = self.merged.insert(self.partition.members(island), built);
        self.common.insert(island, &part.in_common, difference);
        self.parts.insert(island, Box::new(part));
    }
}

fn serving(name: &ObjectName, built: &BuildOutput) -> GatewayServing {
    let report = built.reports.gateways.get(name);
    let listeners = report.map(|report| report.listeners.iter().map(ListenerReport::serves).collect());
    (built.graph.gateways.contains_key(name), listeners)
}
