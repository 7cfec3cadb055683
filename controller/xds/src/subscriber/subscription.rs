//! The state of one stream for one resource type.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::group::{Catalogue, ChangedNames};
use super::super::hosts::parent;
use limpet_resources::{Name, PREFLIGHT, Resource, ResourceType, ResourceVersion};

/// The name that stands for all resources (xDS protocol, wildcard subscription).
pub(super) const WILDCARD: &str = "*";

/// The bytes of resources in one response, where it may be partial: bounds the memory for a slow reader, and the wait
/// of the other types.
const RESPONSE_BYTES: usize = 1 << 20;

/// What becomes of a resource that a node asks for and that is published no longer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum UnpublishedAction {
    #[default]
    Removed,
    /// Until the node stops asking for it.
    Kept,
}

#[derive(Debug, Default)]
pub(super) struct Subscription {
    pub(super) unpublished: UnpublishedAction,
    pub(super) started: bool,
    pub(super) wildcard: bool,
    pub(super) names: BTreeSet<Name>,
    /// Route configurations whose virtual hosts the node takes.
    pub(super) parents: BTreeSet<Name>,
    /// The `parents` whose virtual hosts are not removed.
    pub(super) kept: BTreeSet<Name>,
    /// The number of the last change of the group that was taken in.
    cursor: u64,
    pub(super) has: BTreeMap<Name, SentResource>,
    /// What the client should get, unless it turns out to have it.
    updates: BTreeSet<Name>,
    removals: BTreeSet<Name>,
    /// What the client asked for and does not exist, to be sent as removed.
    absent: BTreeSet<Name>,
    /// What the client gets although it has it.
    forced: BTreeSet<Name>,
    unasked: BTreeSet<Name>,
    pub(super) in_flight: Option<InFlight>,
    /// The nonce of the last response.
    pub(super) sent_nonce: u64,
    pub(super) former: InitialState,
    /// Parts of a refused response. Sending fewer resources at a time finds the bad one.
    suspects: Vec<Vec<Name>>,
    pub(super) refused: BTreeMap<Name, RejectedVersion>,
    /// The client asked for everything, has nothing, and waits for an empty response.
    pub(super) owed_an_answer: bool,
}

/// What a client had when it connected, which it says only in the state of the world.
#[derive(Debug, Default)]
pub(super) enum InitialState {
    #[default]
    Nothing,
    /// This version, which is not compared yet with what is published.
    Version(String),
    Something,
}

#[derive(Debug, Clone)]
pub(super) struct SentResource {
    /// None if another server sent it.
    pub(super) version: Option<ResourceVersion>,
    /// The last good one, if known, in case the next is refused.
    pub(super) resource: Option<Arc<Resource>>,
}

#[derive(Debug, Clone)]
pub(super) struct RejectedVersion {
    pub(super) version: ResourceVersion,
    pub(super) message: Arc<str>,
}

#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) nonce: u64,
    pub(super) items: Vec<ResourceChange>,
}

#[derive(Debug, Clone)]
pub(super) struct ResourceChange {
    pub(super) name: Name,
    /// None if the resource does not exist.
    pub(super) resource: Option<Arc<Resource>>,
}

/// What order permits to send now.
#[derive(Debug, Clone, Copy)]
pub(super) struct AllowedNames {
    pub(super) updates: bool,
    pub(super) removals: bool,
}

impl Subscription {
    pub(super) fn subscribes(&self, name: &str) -> bool {
        let of_parent = || !self.parents.is_empty() && parent(name).is_some_and(|routes| self.parents.contains(routes));
        self.wildcard || self.names.contains(name) || of_parent()
    }

    pub(super) fn entries(&self) -> usize {
        let in_flight = self.in_flight.as_ref().map_or(0, |in_flight| in_flight.items.len());
        self.has.len() + self.refused.len() + self.updates.len() + self.unasked.len() + in_flight
    }

    /// Whether a response with something new is unanswered.
    pub(super) fn is_updating(&self) -> bool {
        let sent = |in_flight: &InFlight| in_flight.items.iter().any(|item| item.resource.is_some());
        self.has_updates() || self.in_flight.as_ref().is_some_and(sent)
    }

    pub(super) fn has_updates(&self) -> bool {
        !self.updates.is_empty() || !self.suspects.is_empty()
    }

    pub(super) fn has_removals(&self) -> bool {
        !self.removals.is_empty()
    }

    /// Whether the client has all that it asked for, as far as changes are taken in.
    pub(super) fn is_settled(&self) -> bool {
        !self.has_updates() && !self.has_removals() && self.in_flight.is_none() && self.refused.is_empty()
    }

    pub(super) fn knows(&self, sequence: u64) -> bool {
        self.cursor >= sequence
    }

    /// Whether the client asks for all that is published, as far as changes are taken in.
    pub(super) fn asks_for_all(&self) -> bool {
        self.unasked.is_empty()
    }

    pub(super) fn catch_up(&mut self, catalogue: &Catalogue, sequence: u64) {
        if !self.started || self.cursor == sequence {
            return;
        }
        match catalogue.since(self.cursor) {
            ChangedNames::Names(names) => names.into_iter().for_each(|name| self.compare(name, catalogue)),
            ChangedNames::Unknown => {
                let known = catalogue.iter().map(|resource| resource.name());
                let others = self.has.keys().chain(&self.names).chain(&self.unasked);
                let names: BTreeSet<_> = known.chain(others).cloned().collect();
                for name in &names {
                    self.compare(name, catalogue);
                }
            }
        }
        self.cursor = sequence;
    }

    pub(super) fn compare(&mut self, name: &Name, catalogue: &Catalogue) {
        self.updates.remove(name);
        self.removals.remove(name);
        self.absent.remove(name);
        self.unasked.remove(name);
        if !self.subscribes(name) {
            // Nodes that do not ask for the preflight get none.
            if catalogue.get(name).is_some() && &**name != PREFLIGHT {
                self.unasked.insert(Arc::clone(name));
            }
            return;
        }
        let Some(resource) = catalogue.get(name) else {
            self.refused.remove(name);
            self.forced.remove(name);
            if self.has.contains_key(name) {
                let is_kept = parent(name).is_some_and(|routes| self.kept.contains(routes));
                if self.unpublished == UnpublishedAction::Removed && !is_kept {
                    self.removals.insert(Arc::clone(name));
                }
            } else if self.names.contains(name) {
                self.absent.insert(Arc::clone(name));
            }
            return;
        };
        let version = resource.version();
        if self.refused.get(name).is_some_and(|refused| refused.version != version) {
            self.refused.remove(name);
        }
        let has_it = self.has.get(name).is_some_and(|held| held.version == Some(version));
        if (!has_it && !self.refused.contains_key(name)) || self.forced.contains(name) {
            self.updates.insert(Arc::clone(name));
        }
    }

    /// The client asks for this name, and gets the resource even if it should have it already.
    pub(super) fn subscribe(&mut self, name: &Name, catalogue: &Catalogue) {
        self.names.insert(Arc::clone(name));
        self.force(name, catalogue);
    }

    pub(super) fn unsubscribe(&mut self, name: &Name, catalogue: &Catalogue) {
        self.names.remove(name);
        if !self.wildcard {
            self.forget(name);
            self.compare(name, catalogue);
        }
    }

    /// Forgets this name: the client neither has it nor should get it.
    pub(super) fn forget(&mut self, name: &str) {
        self.has.remove(name);
        self.refused.remove(name);
        for names in [
            &mut self.updates,
            &mut self.removals,
            &mut self.absent,
            &mut self.forced,
        ] {
            names.remove(name);
        }
    }

    pub(super) fn subscribe_wildcard(&mut self, catalogue: &Catalogue) {
        self.wildcard = true;
        self.owed_an_answer = true;
        for resource in catalogue.iter() {
            self.compare(resource.name(), catalogue);
        }
    }

    pub(super) fn unsubscribe_wildcard(&mut self, catalogue: &Catalogue) {
        self.wildcard = false;
        let published = catalogue.iter().map(|resource| resource.name());
        let pending = [&self.updates, &self.removals].into_iter().flatten();
        let known = self.has.keys().chain(self.refused.keys()).chain(pending);
        let others = published.chain(known).filter(|name| !self.names.contains(*name));
        for name in others.cloned().collect::<Vec<_>>() {
            self.forget(&name);
            self.compare(&name, catalogue);
        }
    }

    pub(super) fn force(&mut self, name: &Name, catalogue: &Catalogue) {
        self.forced.insert(Arc::clone(name));
        self.compare(name, catalogue);
    }

    /// The content of the next response. `whole`: responses of this type are never partial.
    pub(super) fn next_changes(
        &mut self,
        catalogue: &Catalogue,
        allowed: AllowedNames,
        whole: bool,
    ) -> Vec<ResourceChange> {
        while let Some(suspects) = self.suspects.pop() {
            for name in &suspects {
                self.compare(name, catalogue);
            }
            let wanted = suspects
                .into_iter()
                .filter(|name| self.updates.contains(name) || self.removals.contains(name));
            let items = self.items(wanted.collect(), catalogue);
            if !items.is_empty() {
                return items;
            }
        }
        let mut names: Vec<Name> = self.absent.iter().cloned().collect();
        if allowed.removals {
            names.extend(self.removals.iter().cloned());
        }
        if allowed.updates {
            let mut bytes = 0;
            for name in &self.updates {
                if bytes > RESPONSE_BYTES && !whole {
                    break;
                }
                bytes += catalogue.get(name).map_or(0, |resource| resource.body().len());
                names.push(Arc::clone(name));
            }
        }
        self.items(names, catalogue)
    }

    fn items(&mut self, names: Vec<Name>, catalogue: &Catalogue) -> Vec<ResourceChange> {
        for name in &names {
            for pending in [
                &mut self.updates,
                &mut self.removals,
                &mut self.absent,
                &mut self.forced,
            ] {
                pending.remove(name);
            }
        }
        let item = |name: Name| ResourceChange {
            resource: catalogue.get(&name).cloned(),
            name,
        };
        names.into_iter().map(item).collect()
    }

    pub(super) fn acknowledge(&mut self, items: Vec<ResourceChange>, catalogue: &Catalogue) {
        for ResourceChange { name, resource } in items {
            if !self.subscribes(&name) {
                continue;
            }
            self.refused.remove(&name);
            let told = resource.is_none();
            if let Some(resource) = resource {
                let held = SentResource {
                    version: Some(resource.version()),
                    resource: Some(resource),
                };
                self.has.insert(Arc::clone(&name), held);
            } else {
                self.has.remove(&name);
            }
            self.compare(&name, catalogue);
            if told {
                self.absent.remove(&name);
            }
        }
    }

    /// Halves a refused response until the bad resource is found and the others are accepted.
    pub(super) fn refuse(&mut self, mut items: Vec<ResourceChange>, message: &Arc<str>, catalogue: &Catalogue) {
        if items.len() > 1 {
            for item in &items {
                let version = item.resource.as_ref().map(|resource| resource.version());
                if self.has.get(&item.name).is_some_and(|held| held.version == version) {
                    // The client has it already and got it again.
                    self.forced.insert(Arc::clone(&item.name));
                }
            }
            let others = items.split_off(items.len() / 2);
            for half in [others, items] {
                self.suspects.push(half.into_iter().map(|item| item.name).collect());
            }
            return;
        }
        for ResourceChange { name, resource } in items {
            if !self.subscribes(&name) {
                continue;
            }
            if let Some(resource) = resource {
                let refused = RejectedVersion {
                    version: resource.version(),
                    message: Arc::clone(message),
                };
                self.refused.insert(Arc::clone(&name), refused);
            } else {
                self.has.remove(&name);
            }
            self.compare(&name, catalogue);
            self.absent.remove(&name);
        }
    }

    pub(super) fn view_after<'a>(&'a self, items: &'a [ResourceChange]) -> BTreeMap<&'a str, &'a Arc<Resource>> {
        let resource = |(name, held): (&'a Name, &'a SentResource)| Some((&**name, held.resource.as_ref()?));
        let mut view: BTreeMap<_, _> = self.has.iter().filter_map(resource).collect();
        for item in items {
            match &item.resource {
                Some(resource) => view.insert(&item.name, resource),
                None => view.remove(&*item.name),
            };
        }
        view
    }
}

pub(super) fn version_of<'a>(resources: impl IntoIterator<Item = &'a Arc<Resource>>) -> ResourceVersion {
    let versions = resources
        .into_iter()
        .map(|resource| (&**resource.name(), resource.version()));
    ResourceVersion::of_all(versions)
}

/// Whether a response has all resources of this type that the client should have, in the state of the world (xDS
/// protocol, "Deleting resources").
pub(super) const fn is_complete_state(resource_type: ResourceType) -> bool {
    resource_type.has_wildcard()
}
