//! Delegations: the objects that each root reaches, cycles, and orphans, by the prefixes and delegates of routes.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use limpet_api::ObjectName;

use crate::fair_share;

#[derive(Debug, Clone)]
pub(super) struct Vertex<'a> {
    /// A root has a host: no object can delegate to it.
    pub(super) is_root: bool,
    pub(super) is_refused: bool,
    pub(super) routes: Vec<Edge<'a>>,
    /// The first and last prefix in the order of paths: if both lie within what was delegated, all do.
    range: Option<(&'a str, &'a str)>,
}

#[derive(Debug, Clone)]
pub(super) struct Edge<'a> {
    pub(super) index: usize,
    pub(super) prefix: &'a str,
    /// Its delegate.
    pub(super) to: Option<ObjectName>,
    /// Its Services. Envoy has a route for each in a split with a session.
    pub(super) services: usize,
}

impl Edge<'_> {
    fn routes(&self) -> usize {
        self.services.max(1) + self.prefix.len() / BYTES_OF_PREFIX
    }
}

impl<'a> Vertex<'a> {
    pub(super) fn new(is_root: bool, is_refused: bool, routes: Vec<Edge<'a>>) -> Self {
        let prefixes = || routes.iter().map(|route| route.prefix);
        let first = prefixes().min_by(|one, other| by_segments(one).cmp(by_segments(other)));
        let last = prefixes().max_by(|one, other| by_segments(one).cmp(by_segments(other)));
        Self {
            range: first.zip(last),
            is_root,
            is_refused,
            routes,
        }
    }

    fn outside(&self, given: &str) -> Option<usize> {
        let (first, last) = self.range?;
        if lies_within(first, given) && lies_within(last, given) {
            return None;
        }
        let outside = |route: &&Edge<'_>| !lies_within(route.prefix, given);
        self.routes.iter().find(outside).map(|route| route.index)
    }
}

/// Ends a prefix with one slash, so that the prefixes within another one are neighbours.
fn by_segments(prefix: &str) -> impl Iterator<Item = u8> + '_ {
    let slash = (!prefix.ends_with('/')).then_some(b'/');
    prefix.bytes().chain(slash)
}

/// Whether `prefix` is `given` or lies below it, by whole segments.
pub(super) fn lies_within(prefix: &str, given: &str) -> bool {
    let given = given.strip_suffix('/').unwrap_or(given);
    let rest = prefix.strip_prefix(given);
    rest.is_some_and(|rest| rest.starts_with('/') || rest.is_empty() && !prefix.ends_with('/'))
}

/// A fault of one delegation, which costs only that delegation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DelegationFault {
    /// A route of this object does not lie within what was delegated.
    Outside {
        /// What was delegated to the object.
        given: String,
    },
    /// Its delegate has a host.
    ToRoot,
    /// Its delegate is on the way from the root: the names from the root to the delegate.
    Cycle(String),
}

/// Where in an object a mistake was found, in the order in which Contour looks for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ErrorPosition {
    pub(super) route: usize,
    pub(super) step: CheckStep,
}

/// The order of the checks of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CheckStep {
    /// The object itself, and the kind of route.
    Shape,
    /// Whether it lies within what was delegated.
    Prefix,
    Target,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DelegatedRoute<'a> {
    pub(super) object: &'a ObjectName,
    pub(super) route: usize,
    /// What was delegated to the object; `None` for a root.
    pub(super) delegated_prefix: Option<&'a str>,
}

#[derive(Debug, Default)]
pub(super) struct DelegationTree<'a> {
    /// The routes of each root, in the order of the tree.
    pub(super) served: BTreeMap<&'a ObjectName, Vec<DelegatedRoute<'a>>>,
    pub(super) reached: BTreeMap<&'a ObjectName, &'a ObjectName>,
    /// The first fault of each object, in the order of the tree.
    pub(super) faults: BTreeMap<&'a ObjectName, (ErrorPosition, DelegationFault)>,
    pub(super) too_large: BTreeSet<&'a ObjectName>,
    /// Routes whose delegate does not exist.
    pub(super) dangling: BTreeSet<(&'a ObjectName, usize)>,
}

/// The most bytes of names in a message: a status has no room for thousands.
const MOST_BYTES: usize = 2048;

pub(super) fn joined<'a>(names: impl Iterator<Item = &'a ObjectName>, between: &str) -> String {
    let mut text = String::new();
    for name in names {
        if !text.is_empty() {
            text.push_str(between);
        }
        if text.len() > MOST_BYTES {
            text.push('\u{2026}');
            break;
        }
        text.push_str(&name.to_string());
    }
    text
}

/// A route counts once more for each so many bytes of its prefix.
const BYTES_OF_PREFIX: usize = 256;
/// Routes of a host, delegated ones included: delegations could otherwise ask for any number of them.
pub(super) const MOST_ROUTES: usize = 10_000;
/// Routes of all hosts. Each takes some kilobytes of the controller's memory.
pub(super) const MOST_IN_ALL: usize = 50_000;

struct WalkPosition<'a> {
    name: &'a ObjectName,
    vertex: &'a Vertex<'a>,
    given: Option<&'a str>,
    next: usize,
}

impl<'a> DelegationTree<'a> {
    /// Builds the tree. Where not all roots have room, each namespace has a fair share, for its first roots of `names`.
    pub(super) fn build(
        vertices: &'a BTreeMap<&'a ObjectName, Vertex<'a>>,
        names: impl IntoIterator<Item = &'a ObjectName>,
    ) -> Self {
        let mut tree = Self::default();
        let mut walked: Vec<(&'a ObjectName, WalkResult<'a>, TreeWalk<'a>)> = Vec::new();
        // By namespace: the need of its roots, and what too large ones may still cost.
        let mut needed: BTreeMap<&str, usize> = BTreeMap::new();
        let mut wasted: BTreeMap<&str, usize> = BTreeMap::new();
        for name in names {
            let Some(vertex) = vertices.get(name).filter(|vertex| vertex.is_root) else {
                continue;
            };
            let mut walk = TreeWalk::new(vertices, name);
            if vertex.is_refused {
                walk.look_at(name, vertex, &BTreeSet::from([name]), &[]);
                tree.note(walk);
                continue;
            }
            let needed = needed.entry(&name.namespace).or_default();
            let wasted = wasted.entry(&name.namespace).or_default();
            let room = MOST_IN_ALL
                .saturating_sub(*needed)
                .min(MOST_IN_ALL.saturating_sub(*wasted));
            let most = MOST_ROUTES.min(room);
            if let Some(of_root) = walk.run(vertex, most) {
                *needed += of_root.steps;
                walked.push((name, of_root, walk));
            } else {
                *wasted += most;
                tree.too_large.insert(name);
            }
        }
        let share = fair_share(needed.values().copied(), MOST_IN_ALL);
        let mut left: BTreeMap<&str, usize> = needed.into_keys().map(|namespace| (namespace, share)).collect();
        for (name, of_root, walk) in walked {
            let left = left.entry(&name.namespace).or_default();
            let Some(rest) = left.checked_sub(of_root.steps) else {
                tree.too_large.insert(name);
                continue;
            };
            *left = rest;
            tree.served.insert(name, of_root.served);
            tree.reach(name, &walk);
            tree.note(walk);
        }
        tree
    }

    fn reach(&mut self, root: &'a ObjectName, walk: &TreeWalk<'a>) {
        for (name, _) in walk.visited.iter().chain([&(root, "")]) {
            self.reached.entry(name).or_insert(root);
        }
    }

    fn note(&mut self, walk: TreeWalk<'a>) {
        for (name, found) in walk.faults {
            self.faults.entry(name).or_insert(found);
        }
        self.dangling.extend(walk.dangling);
    }
}

struct WalkResult<'a> {
    served: Vec<DelegatedRoute<'a>>,
    /// The routes that were looked at, also those whose delegate does not exist.
    steps: usize,
}

struct TreeWalk<'a> {
    vertices: &'a BTreeMap<&'a ObjectName, Vertex<'a>>,
    root: &'a ObjectName,
    visited: BTreeSet<(&'a ObjectName, &'a str)>,
    faults: BTreeMap<&'a ObjectName, (ErrorPosition, DelegationFault)>,
    dangling: BTreeSet<(&'a ObjectName, usize)>,
}

impl<'a> TreeWalk<'a> {
    fn new(vertices: &'a BTreeMap<&'a ObjectName, Vertex<'a>>, root: &'a ObjectName) -> Self {
        Self {
            vertices,
            root,
            visited: BTreeSet::new(),
            faults: BTreeMap::new(),
            dangling: BTreeSet::new(),
        }
    }

    /// The routes that the root reaches; `None` if it looks at more than `most`.
    ///
    /// Visits each object once for each prefix that it is given. So the time depends on the number of delegations, not
    /// of ways through them, and no stack overflows.
    fn run(&mut self, vertex: &'a Vertex<'a>, most: usize) -> Option<WalkResult<'a>> {
        let mut served = Vec::new();
        let mut on_the_way = BTreeSet::from([self.root]);
        let mut way = vec![WalkPosition {
            name: self.root,
            vertex,
            given: None,
            next: 0,
        }];
        let mut steps = 0;
        while let Some(at) = way.last_mut() {
            let Some(edge) = at.vertex.routes.get(at.next) else {
                on_the_way.remove(at.name);
                way.pop();
                continue;
            };
            let (name, given, route) = (at.name, at.given, at.next);
            at.next += 1;
            steps += edge.routes();
            if steps > most {
                return None;
            }
            if edge.to.is_none() {
                served.push(DelegatedRoute {
                    object: name,
                    route,
                    delegated_prefix: given,
                });
                continue;
            }
            let Some((target, vertex)) = self.target(name, edge, &on_the_way, || joined_way(&way)) else {
                continue;
            };
            if !self.visited.insert((target, edge.prefix)) || self.is_outside(target, vertex, edge.prefix) {
                continue;
            }
            on_the_way.insert(target);
            if vertex.is_refused {
                self.look_at(target, vertex, &on_the_way, &way);
                on_the_way.remove(target);
                continue;
            }
            way.push(WalkPosition {
                name: target,
                vertex,
                given: Some(edge.prefix),
                next: 0,
            });
        }
        Some(WalkResult { served, steps })
    }

    /// `way`: the names from the root to the object of the route.
    fn target(
        &mut self,
        name: &'a ObjectName,
        edge: &'a Edge<'a>,
        on_the_way: &BTreeSet<&'a ObjectName>,
        way: impl FnOnce() -> String,
    ) -> Option<(&'a ObjectName, &'a Vertex<'a>)> {
        let Some((target, vertex)) = self.vertices.get_key_value(edge.to.as_ref()?) else {
            self.dangling.insert((name, edge.index));
            return None;
        };
        let place = ErrorPosition {
            route: edge.index,
            step: CheckStep::Target,
        };
        if vertex.is_root {
            self.fault(name, place, || DelegationFault::ToRoot);
            return None;
        }
        if on_the_way.contains(target) {
            self.fault(name, place, || DelegationFault::Cycle(format!("{} -> {target}", way())));
            return None;
        }
        Some((target, vertex))
    }

    /// Looks for faults of an object with a mistake, which Contour may see first.
    fn look_at(
        &mut self,
        name: &'a ObjectName,
        vertex: &'a Vertex<'a>,
        on_the_way: &BTreeSet<&'a ObjectName>,
        way: &[WalkPosition<'a>],
    ) {
        for edge in vertex.routes.iter().filter(|edge| edge.to.is_some()) {
            let names = || joined(way.iter().map(|at| at.name).chain([name]), " -> ");
            self.target(name, edge, on_the_way, names);
        }
    }

    fn is_outside(&mut self, name: &'a ObjectName, vertex: &Vertex<'_>, given: &str) -> bool {
        let Some(route) = vertex.outside(given) else {
            return false;
        };
        let place = ErrorPosition {
            route,
            step: CheckStep::Prefix,
        };
        self.fault(name, place, || DelegationFault::Outside {
            given: given.to_owned(),
        });
        true
    }

    fn fault(&mut self, name: &'a ObjectName, place: ErrorPosition, fault: impl FnOnce() -> DelegationFault) {
        let fault = || (place, fault());
        match self.faults.entry(name) {
            Entry::Vacant(entry) => drop(entry.insert(fault())),
            // An object may be looked at before its prefixes are: the first fault in the object's own order counts.
            Entry::Occupied(mut entry) if entry.get().0 > place => drop(entry.insert(fault())),
            Entry::Occupied(_) => {}
        }
    }
}

fn joined_way(way: &[WalkPosition<'_>]) -> String {
    joined(way.iter().map(|at| at.name), " -> ")
}

#[cfg(test)]
mod tests;
