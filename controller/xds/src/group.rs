//! The resources that the nodes of one group should have, and what changed when. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::hosts::{by_host, parent, with_hosts};
use limpet_resources::{ByName, Name, PREFLIGHT, PerType, Resource, ResourceType, Resources};

/// How many removed names are remembered. A stream that is further behind compares everything.
const REMOVALS_KEPT: usize = 4096;

/// The resources of a group.
///
/// Each change has a number, and the group remembers the last change of each name. So the changes since a number are
/// found without a look at the rest, and a slow stream needs no more memory than a fast one.
#[derive(Debug, Default)]
pub(super) struct Group {
    published: bool,
    sequence: u64,
    catalogues: PerType<Catalogue>,
    /// Route configurations as they are for nodes that take virtual hosts one by one.
    frames: Catalogue,
    units: Catalogue,
}

impl Group {
    /// Whether something was published. Until then nobody knows what the nodes should have.
    pub(super) fn is_published(&self) -> bool {
        self.published
    }

    /// The number of the last change.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// All resources of a type.
    pub(super) fn catalogue(&self, resource_type: ResourceType) -> &Catalogue {
        &self.catalogues[resource_type]
    }

    /// The route configurations for nodes that take virtual hosts one by one.
    pub(super) fn frames(&self) -> &Catalogue {
        &self.frames
    }

    /// The units of the preflight.
    pub(super) fn units(&self) -> &Catalogue {
        &self.units
    }

    /// The bytes that are sent to a node that asks for this name once more: of route configurations with their virtual
    /// hosts, of the preflight with all units.
    pub(super) fn weight(&self, resource_type: ResourceType, name: &str) -> usize {
        let published = self.catalogue(resource_type).get(name);
        let own = published.map_or(0, |resource| resource.body().len());
        if resource_type != ResourceType::RouteConfiguration || name != PREFLIGHT {
            return own;
        }
        let units = self.units.iter().map(|unit| unit.body().len());
        own + units.sum::<usize>()
    }

    /// Replaces all resources. Returns whether anything changed.
    pub(super) fn publish(&mut self, mut resources: Resources) -> bool {
        let before = self.sequence;
        if !self.published {
            self.published = true;
            self.sequence += 1;
            for each in ResourceType::ALL {
                // A node may have resources that this server never heard of. They are removed.
                self.catalogues[each].floor = self.sequence;
            }
            self.frames.floor = self.sequence;
            self.units.floor = self.sequence;
        }
        self.frames.replace(compose(&mut resources), &mut self.sequence);
        for each in ResourceType::ALL {
            self.catalogues[each].replace(resources.take(each), &mut self.sequence);
        }
        self.units.replace(resources.take_units(), &mut self.sequence);
        self.sequence != before
    }

    /// Replaces one resource, other than a virtual host or a route configuration that has such. Returns whether
    /// anything changed, which is never so in a group that is not published.
    pub(super) fn publish_one(&mut self, resource: Arc<Resource>) -> bool {
        if !self.published {
            return false;
        }
        if resource.resource_type() == ResourceType::RouteConfiguration {
            self.frames.insert(Arc::clone(&resource), &mut self.sequence);
        }
        self.catalogues[resource.resource_type()].insert(resource, &mut self.sequence)
    }

    /// Removes one resource. Returns whether it existed.
    pub(super) fn remove_one(&mut self, resource_type: ResourceType, name: &str) -> bool {
        if resource_type == ResourceType::RouteConfiguration {
            self.frames.remove(name, &mut self.sequence);
        }
        self.catalogues[resource_type].remove(name, &mut self.sequence)
    }

    /// Forgets what the nodes should have.
    pub(super) fn forget(&mut self) {
        *self = Self {
            sequence: self.sequence + 1,
            ..Self::default()
        };
    }
}

/// Puts the virtual hosts into their route configurations, and returns what these are without.
fn compose(resources: &mut Resources) -> ByName {
    let mut hosts: BTreeMap<Name, Vec<Arc<Resource>>> = BTreeMap::new();
    for host in resources.of_type(ResourceType::VirtualHost) {
        if let Some(routes) = parent(host.name()) {
            hosts.entry(routes.into()).or_default().push(Arc::clone(host));
        }
    }
    let mut frames = ByName::new();
    let all: Vec<_> = resources.of_type(ResourceType::RouteConfiguration).cloned().collect();
    for routes in all {
        let frame = match hosts.get(routes.name()) {
            None => routes,
            Some(hosts) => {
                resources.insert(with_hosts(&routes, hosts));
                Arc::new(by_host(&routes))
            }
        };
        frames.insert(Arc::clone(frame.name()), frame);
    }
    frames
}

/// The resources of one type.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    resources: BTreeMap<Name, Entry>,
    removed: BTreeMap<Name, u64>,
    /// The last change of each name.
    changes: BTreeMap<u64, Name>,
    /// Removals up to this number may be missing in `changes`.
    floor: u64,
}

#[derive(Debug)]
struct Entry {
    resource: Arc<Resource>,
    changed: u64,
}

/// Which names changed.
pub(super) enum Changes<'a> {
    /// Only these names.
    Names(Vec<&'a Name>),
    /// Everything may have changed.
    Unknown,
}

impl Catalogue {
    pub(super) fn get(&self, name: &str) -> Option<&Arc<Resource>> {
        #[cfg(test)]
        touched::count();
        self.resources.get(name).map(|entry| &entry.resource)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values().map(|entry| {
            #[cfg(test)]
            touched::count();
            &entry.resource
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// The changes after this number.
    pub(super) fn since(&self, sequence: u64) -> Changes<'_> {
        if sequence < self.floor {
            return Changes::Unknown;
        }
        Changes::Names(self.changes.range(sequence + 1..).map(|(_, name)| name).collect())
    }

    fn replace(&mut self, resources: ByName, sequence: &mut u64) {
        let gone = self.resources.keys().filter(|name| !resources.contains_key(*name));
        for name in gone.cloned().collect::<Vec<_>>() {
            self.remove(&name, sequence);
        }
        for (_, resource) in resources {
            self.insert(resource, sequence);
        }
    }

    fn insert(&mut self, resource: Arc<Resource>, sequence: &mut u64) -> bool {
        let name = Arc::clone(resource.name());
        if self
            .get(&name)
            .is_some_and(|known| known.version() == resource.version())
        {
            return false;
        }
        *sequence += 1;
        let changed = *sequence;
        let entry = Entry { resource, changed };
        let replaced = self
            .resources
            .insert(Arc::clone(&name), entry)
            .map(|entry| entry.changed);
        if let Some(before) = replaced.or_else(|| self.removed.remove(&name)) {
            self.changes.remove(&before);
        }
        self.changes.insert(changed, name);
        true
    }

    fn remove(&mut self, name: &str, sequence: &mut u64) -> bool {
        let Some((name, entry)) = self.resources.remove_entry(name) else {
            return false;
        };
        *sequence += 1;
        self.changes.remove(&entry.changed);
        self.changes.insert(*sequence, Arc::clone(&name));
        self.removed.insert(name, *sequence);
        if self.removed.len() > REMOVALS_KEPT {
            for changed in std::mem::take(&mut self.removed).into_values() {
                self.changes.remove(&changed);
            }
            self.floor = *sequence;
        }
        true
    }
}

/// How many resources this thread has touched, for tests of what does not grow with their number.
#[cfg(test)]
pub(super) mod touched {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        COUNT.set(COUNT.get() + 1);
    }

    /// How many were touched since the last call.
    pub(crate) fn take() -> usize {
        COUNT.replace(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ResourceType::{Cluster, ClusterLoadAssignment};

    fn resource(resource_type: ResourceType, name: &str, body: &str) -> Arc<Resource> {
        Arc::new(Resource::new(resource_type, name, body.into()))
    }

    fn changed(group: &Group, resource_type: ResourceType, since: u64) -> Option<Vec<String>> {
        match group.catalogue(resource_type).since(since) {
            Changes::Names(names) => Some(names.into_iter().map(ToString::to_string).collect()),
            Changes::Unknown => None,
        }
    }

    #[test]
    fn what_changed_is_found_and_nothing_else() {
        let mut group = Group::default();
        assert!(
            group.publish(
                ["a", "b", "c"]
                    .map(|name| resource(Cluster, name, "1"))
                    .into_iter()
                    .collect()
            )
        );
        assert_eq!(
            changed(&group, Cluster, 0),
            None,
            "what nodes have already is not known"
        );
        let first = group.sequence();
        assert_eq!(changed(&group, Cluster, first), Some(vec![]));

        let next = [
            resource(Cluster, "a", "1"),
            resource(Cluster, "b", "2"),
            resource(Cluster, "d", "1"),
        ];
        assert!(group.publish(next.clone().into_iter().collect()));
        let names = changed(&group, Cluster, first);
        assert_eq!(names, Some(["c", "b", "d"].map(str::to_owned).to_vec()));
        assert!(!group.publish(next.into_iter().collect()), "this changes nothing");
        assert_eq!(changed(&group, Cluster, first), names);
    }

    #[test]
    fn many_changes_of_one_name_are_one_change() {
        let mut group = Group::default();
        group.publish(Resources::new());
        let start = group.sequence();
        for round in 0..100 {
            assert!(group.publish_one(resource(ClusterLoadAssignment, "a", &round.to_string())));
            assert!(group.remove_one(ClusterLoadAssignment, "b") == (round > 0));
            assert!(group.publish_one(resource(ClusterLoadAssignment, "b", &round.to_string())));
        }
        let names = changed(&group, ClusterLoadAssignment, start);
        assert_eq!(names, Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(changed(&group, Cluster, start), Some(vec![]));
    }

    #[test]
    fn removals_do_not_pile_up() {
        let mut group = Group::default();
        group.publish(Resources::new());
        let start = group.sequence();
        for number in 0..3 * REMOVALS_KEPT {
            group.publish_one(resource(Cluster, &number.to_string(), ""));
            group.remove_one(Cluster, &number.to_string());
        }
        assert!(group.catalogue(Cluster).changes.len() <= REMOVALS_KEPT);
        assert_eq!(changed(&group, Cluster, start), None);
        assert_eq!(changed(&group, Cluster, group.sequence()), Some(vec![]));
    }

    #[test]
    fn a_forgotten_group_knows_nothing_until_published_again() {
        let mut group = Group::default();
        assert!(!group.publish_one(resource(Cluster, "a", "1")));
        group.publish([resource(Cluster, "a", "1")].into_iter().collect());
        let before = group.sequence();
        group.forget();
        assert!(!group.is_published() && group.sequence() > before);
        group.publish(Resources::new());
        assert_eq!(changed(&group, Cluster, before), None);
    }
}
