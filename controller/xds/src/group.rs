//! The resources that the nodes of one group should have, and what changed when. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::hosts::{by_host, parent, with_hosts};
use limpet_resources::{ByName, Name, PREFLIGHT, PerType, Resource, ResourceType, Resources, changes};

/// Removed names that are remembered. A stream that is further behind compares everything.
const REMOVALS_KEPT: usize = 4096;

/// The resources of a group.
///
/// Each change has a number, and the group remembers the last change of each name. So later changes are found without a
/// look at the rest, and a slow stream needs no more memory than a fast one.
#[derive(Debug, Default)]
pub(super) struct ResourceGroup {
    /// None: it is not known yet what nodes should have.
    published: Option<Resources>,
    sequence: u64,
    /// Route configurations are without their virtual hosts here, for nodes that take these one by one.
    catalogues: PerType<Catalogue>,
    /// Route configurations with their virtual hosts, while a node wants them.
    wholes: Option<Catalogue>,
    units: Catalogue,
    hosts: BTreeMap<Name, usize>,
}

impl ResourceGroup {
    pub(super) fn is_published(&self) -> bool {
        self.published.is_some()
    }

    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// All resources of a type. Route configurations are without their virtual hosts.
    pub(super) fn catalogue(&self, resource_type: ResourceType) -> &Catalogue {
        &self.catalogues[resource_type]
    }

    /// Route configurations for nodes that do not take virtual hosts one by one. See [`Self::make_all_wholes`].
    pub(super) fn wholes(&self) -> &Catalogue {
        self.wholes
            .as_ref()
            .unwrap_or(self.catalogue(ResourceType::RouteConfiguration))
    }

    /// Called when a node does not take virtual hosts one by one.
    pub(super) fn make_all_wholes(&mut self) {
        if self.wholes.is_some() {
            return;
        }
        // Nothing is known of what such a node has.
        let floor = self.sequence;
        self.wholes = Some(Catalogue {
            floor,
            ..Catalogue::default()
        });
        let all = self.catalogue(ResourceType::RouteConfiguration).iter();
        let all: BTreeSet<Name> = all.map(|routes| Arc::clone(routes.name())).collect();
        self.make_wholes(&all);
    }

    /// Called when no node wants [`Self::wholes`].
    pub(super) fn drop_wholes(&mut self) {
        self.wholes = None;
    }

    pub(super) fn units(&self) -> &Catalogue {
        &self.units
    }

    /// The bytes that a repeated request for this name costs: with virtual hosts, or all units of the preflight.
    pub(super) fn weight(&self, resource_type: ResourceType, name: &str) -> usize {
        let published = self.catalogue(resource_type).get(name);
        let own = published.map_or(0, |resource| resource.body().len());
        if resource_type != ResourceType::RouteConfiguration {
            return own;
        }
        let of_hosts = self.hosts_of(name).map(|host| host.body().len());
        let units = self.units.iter().filter(|_| name == PREFLIGHT);
        own + of_hosts.sum::<usize>() + units.map(|unit| unit.body().len()).sum::<usize>()
    }

    /// Returns whether anything changed.
    pub(super) fn publish(&mut self, resources: Resources) -> bool {
        let start = self.sequence;
        if self.published.is_none() {
            self.sequence += 1;
            for each in ResourceType::ALL {
                // A node may have resources that this server never heard of. They are removed.
                self.catalogues[each].floor = self.sequence;
            }
            self.units.floor = self.sequence;
            if let Some(wholes) = &mut self.wholes {
                wholes.floor = self.sequence;
            }
        }
        let after = resources.clone();
        let before = self.published.replace(resources).unwrap_or_default();
        let others = ResourceType::ALL.into_iter();
        for each in others.filter(|each| *each != ResourceType::RouteConfiguration) {
            self.catalogues[each].catch_up(before.by_name(each), after.by_name(each), &mut self.sequence);
        }
        self.units
            .catch_up(before.units_by_name(), after.units_by_name(), &mut self.sequence);
        self.publish_routes(&before, &after);
        self.sequence != start
    }

    fn publish_routes(&mut self, before: &Resources, after: &Resources) {
        let [routes, hosts] = [ResourceType::RouteConfiguration, ResourceType::VirtualHost];
        let changed = changes(before.by_name(routes), after.by_name(routes));
        let mut frames: BTreeSet<Name> = changed.map(|(name, ..)| Arc::clone(name)).collect();
        let mut wholes = frames.clone();
        for (name, before, after) in changes(before.by_name(hosts), after.by_name(hosts)) {
            let Some(parent) = parent(name).map(Name::from) else {
                continue;
            };
            let had_any = self.hosts.contains_key(&parent);
            let count = self.hosts.entry(Arc::clone(&parent)).or_default();
            *count = (*count + usize::from(before.is_none())).saturating_sub(usize::from(after.is_none()));
            if *count == 0 {
                self.hosts.remove(&parent);
            }
            if had_any != self.hosts.contains_key(&parent) {
                frames.insert(Arc::clone(&parent));
            }
            wholes.insert(parent);
        }
        for name in frames {
            let frame = after.get(routes, &name).map(|routes| {
                if self.hosts.contains_key(&name) {
                    Arc::new(by_host(routes))
                } else {
                    Arc::clone(routes)
                }
            });
            self.catalogues[routes].set(&name, frame, &mut self.sequence);
        }
        self.make_wholes(&wholes);
    }

    /// Makes these route configurations with their virtual hosts, if a node wants them.
    fn make_wholes(&mut self, names: &BTreeSet<Name>) {
        let Some(mut wholes) = self.wholes.take() else {
            return;
        };
        for name in names {
            let routes = self
                .published
                .as_ref()
                .and_then(|published| published.get(ResourceType::RouteConfiguration, name));
            let whole = routes.map(|routes| {
                if self.hosts.contains_key(name) {
                    Arc::new(with_hosts(routes, self.hosts_of(name)))
                } else {
                    Arc::clone(routes)
                }
            });
            wholes.set(name, whole, &mut self.sequence);
        }
        self.wholes = Some(wholes);
    }

    fn hosts_of<'g>(&'g self, routes: &'g str) -> impl Iterator<Item = &'g Arc<Resource>> {
        let is_known = self.hosts.contains_key(routes);
        let hosts = is_known.then(|| self.catalogue(ResourceType::VirtualHost).hosts_of(routes));
        hosts.into_iter().flatten()
    }

    /// Replaces one resource, but no virtual host, nor a route configuration that has any. Returns whether anything
    /// changed, never in a group that is not published.
    pub(super) fn publish_one(&mut self, resource: Arc<Resource>) -> bool {
        let Some(mut resources) = self.published.clone() else {
            return false;
        };
        resources.insert(resource);
        self.publish(resources)
    }

    /// Returns whether it existed.
    pub(super) fn remove_one(&mut self, resource_type: ResourceType, name: &str) -> bool {
        let Some(mut resources) = self.published.clone() else {
            return false;
        };
        resources.remove(resource_type, name);
        self.publish(resources)
    }

    pub(super) fn forget(&mut self) {
        *self = Self {
            sequence: self.sequence + 1,
            wholes: self.wholes.as_ref().map(|_| Catalogue::default()),
            ..Self::default()
        };
    }
}

#[derive(Debug, Default)]
pub(super) struct Catalogue {
    resources: BTreeMap<Name, CatalogueEntry>,
    removed: BTreeMap<Name, u64>,
    /// The last change of each name.
    changes: BTreeMap<u64, Name>,
    /// Removals up to this number may be missing in `changes`.
    floor: u64,
}

#[derive(Debug)]
struct CatalogueEntry {
    resource: Arc<Resource>,
    changed: u64,
}

/// The entries of a route configuration's virtual hosts, whose names begin with its name.
pub(super) fn of_parent<'m, V>(
    hosts: &'m BTreeMap<Name, V>,
    routes: &'m str,
) -> impl Iterator<Item = (&'m Name, &'m V)> {
    let start = format!("{routes}/");
    let from = (Bound::Included(start.as_str()), Bound::Unbounded);
    let hosts = hosts.range::<str, _>(from);
    let hosts = hosts.take_while(move |(name, _)| name.starts_with(&start));
    hosts.filter(move |(name, _)| parent(name) == Some(routes))
}

pub(super) enum ChangedNames<'a> {
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

    pub(super) fn hosts_of<'c>(&'c self, routes: &'c str) -> impl Iterator<Item = &'c Arc<Resource>> {
        of_parent(&self.resources, routes).map(|(_, entry)| {
            #[cfg(test)]
            touched::count();
            &entry.resource
        })
    }

    pub(super) fn since(&self, sequence: u64) -> ChangedNames<'_> {
        if sequence < self.floor {
            return ChangedNames::Unknown;
        }
        ChangedNames::Names(self.changes.range(sequence + 1..).map(|(_, name)| name).collect())
    }

    fn catch_up(&mut self, before: &ByName, after: &ByName, sequence: &mut u64) {
        let mut updates = Vec::new();
        for (name, _, resource) in changes(before, after) {
            match resource {
                Some(resource) => updates.push(resource),
                None => drop(self.remove(name, sequence)),
            }
        }
        for resource in updates {
            self.insert(Arc::clone(resource), sequence);
        }
    }

    fn set(&mut self, name: &str, resource: Option<Arc<Resource>>, sequence: &mut u64) -> bool {
        match resource {
            Some(resource) => self.insert(resource, sequence),
            None => self.remove(name, sequence),
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
        let entry = CatalogueEntry { resource, changed };
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

/// Counts resources that this thread has touched, for tests.
#[cfg(test)]
pub(super) mod touched {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        COUNT.set(COUNT.get() + 1);
    }

    /// The count since the last call.
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

    fn changed(group: &ResourceGroup, resource_type: ResourceType, since: u64) -> Option<Vec<String>> {
        match group.catalogue(resource_type).since(since) {
            ChangedNames::Names(names) => Some(names.into_iter().map(ToString::to_string).collect()),
            ChangedNames::Unknown => None,
        }
    }

    #[test]
    fn what_changed_is_found_and_nothing_else() {
        let mut group = ResourceGroup::default();
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
        let mut group = ResourceGroup::default();
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
        let mut group = ResourceGroup::default();
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
        let mut group = ResourceGroup::default();
        assert!(!group.publish_one(resource(Cluster, "a", "1")));
        group.publish([resource(Cluster, "a", "1")].into_iter().collect());
        let before = group.sequence();
        group.forget();
        assert!(!group.is_published() && group.sequence() > before);
        group.publish(Resources::new());
        assert_eq!(changed(&group, Cluster, before), None);
    }
}
