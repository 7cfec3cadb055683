//! Who delegates to whom: the objects that each root reaches, cycles, and orphans. It knows nothing of an object but
//! its routes' prefixes and delegates.

use std::collections::{BTreeMap, BTreeSet};

use limpet_api::ObjectName;

/// An object of the tree.
#[derive(Debug, Clone)]
pub(super) struct Vertex<'a> {
    /// Whether it has a host of its own, so that nobody can delegate to it.
    pub(super) is_root: bool,
    /// Whether it has a mistake of its own, so that nothing of it counts.
    pub(super) is_refused: bool,
    /// Its routes, in their order.
    pub(super) routes: Vec<Edge<'a>>,
    /// Its first and last prefix in the order of paths: if both lie within what was delegated, all do.
    range: Option<(&'a str, &'a str)>,
}

/// A route of an object.
#[derive(Debug, Clone)]
pub(super) struct Edge<'a> {
    /// The prefix of its paths.
    pub(super) prefix: &'a str,
    /// Whom it delegates to, if it does.
    pub(super) to: Option<ObjectName>,
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

    /// The first of its routes that does not lie within what was delegated.
    fn outside(&self, given: &str) -> Option<usize> {
        let (first, last) = self.range?;
        if lies_within(first, given) && lies_within(last, given) {
            return None;
        }
        self.routes.iter().position(|route| !lies_within(route.prefix, given))
    }
}

/// The bytes of a prefix with one slash at its end, so that the prefixes within another one are neighbours.
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

/// What is wrong with a delegation. It costs that delegation alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// This object has a route that does not lie within what it was given.
    Outside {
        /// What it was given.
        given: String,
    },
    /// Its delegate has a host of its own.
    ToRoot,
    /// Its delegate is on the way from the root: the names from the root to the delegate.
    Cycle(String),
}

/// Where in an object a mistake was found, in the order in which Contour looks for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The index of the route.
    pub(super) route: usize,
    pub(super) step: Step,
}

/// The order of the checks of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Of the object itself, and of what the route is.
    Shape,
    /// Whether it lies within what was delegated.
    Prefix,
    /// Its services or its delegate.
    Target,
}

/// A route that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Served<'a> {
    pub(super) object: &'a ObjectName,
    /// The index of its route.
    pub(super) route: usize,
    /// What was delegated to the object; `None` for a root.
    pub(super) given: Option<&'a str>,
}

/// What the roots reach.
#[derive(Debug, Default)]
pub(super) struct Tree<'a> {
    /// The routes of each root, in the order of the tree.
    pub(super) served: BTreeMap<&'a ObjectName, Vec<Served<'a>>>,
    /// The first root that reaches each object.
    pub(super) reached: BTreeMap<&'a ObjectName, &'a ObjectName>,
    /// What is wrong with delegations, by object: the first in the order of the tree.
    pub(super) faults: BTreeMap<&'a ObjectName, (Place, Fault)>,
    /// The routes whose delegate is not there.
    pub(super) dangling: BTreeSet<(&'a ObjectName, usize)>,
}

/// The most bytes of names in a message. A status has no room for thousands of them.
const MOST_BYTES: usize = 2048;

/// The names in one text, as many of them as a message has room for.
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

/// The place in the tree that the walk is at.
struct At<'a> {
    name: &'a ObjectName,
    vertex: &'a Vertex<'a>,
    given: Option<&'a str>,
    next: usize,
}

impl<'a> Tree<'a> {
    /// The tree of these objects. Their order does not matter.
    pub(super) fn of(vertices: &'a BTreeMap<&'a ObjectName, Vertex<'a>>) -> Self {
        let mut tree = Self::default();
        let roots = vertices
            .iter()
            .filter(|(_, vertex)| vertex.is_root && !vertex.is_refused);
        for (name, vertex) in roots {
            tree.walk(vertices, name, vertex);
        }
        tree
    }

    /// Visits each object once for each prefix that it is given: what is below is the same, however it was reached. So
    /// the time is that of the delegations there are, and not of the ways through them, and no stack overflows.
    fn walk(
        &mut self,
        vertices: &'a BTreeMap<&'a ObjectName, Vertex<'a>>,
        root: &'a ObjectName,
        vertex: &'a Vertex<'a>,
    ) {
        let mut served = Vec::new();
        let mut visited = BTreeSet::new();
        let mut on_the_way = BTreeSet::from([root]);
        let mut way = vec![At {
            name: root,
            vertex,
            given: None,
            next: 0,
        }];
        self.reached.entry(root).or_insert(root);
        while let Some(at) = way.last_mut() {
            let route = at.next;
            let Some(edge) = at.vertex.routes.get(route) else {
                on_the_way.remove(at.name);
                way.pop();
                continue;
            };
            at.next += 1;
            let (name, given) = (at.name, at.given);
            let Some(to) = &edge.to else {
                served.push(Served {
                    object: name,
                    route,
                    given,
                });
                continue;
            };
            let Some((target, vertex)) = vertices.get_key_value(to) else {
                self.dangling.insert((name, route));
                continue;
            };
            let target = *target;
            let place = Place {
                route,
                step: Step::Target,
            };
            if vertex.is_root {
                self.fault(name, place, || Fault::ToRoot);
                continue;
            }
            if on_the_way.contains(target) {
                let names = || joined(way.iter().map(|at| at.name).chain([target]), " -> ");
                self.fault(name, place, || Fault::Cycle(names()));
                continue;
            }
            if !visited.insert((target, edge.prefix)) {
                continue;
            }
            self.reached.entry(target).or_insert(root);
            if self.is_outside(target, vertex, edge.prefix) || vertex.is_refused {
                continue;
            }
            on_the_way.insert(target);
            way.push(At {
                name: target,
                vertex,
                given: Some(edge.prefix),
                next: 0,
            });
        }
        self.served.insert(root, served);
    }

    fn is_outside(&mut self, name: &'a ObjectName, vertex: &Vertex<'_>, given: &str) -> bool {
        let Some(route) = vertex.outside(given) else {
            return false;
        };
        let place = Place {
            route,
            step: Step::Prefix,
        };
        self.fault(name, place, || Fault::Outside {
            given: given.to_owned(),
        });
        true
    }

    fn fault(&mut self, name: &'a ObjectName, place: Place, fault: impl FnOnce() -> Fault) {
        self.faults.entry(name).or_insert_with(|| (place, fault()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Routes = &'static [(&'static str, Option<&'static str>)];

    fn name(name: &str) -> ObjectName {
        ObjectName::new("shop", name)
    }

    /// What is served, in order, and the faults; `objects`: their names, whether they are roots, and their routes.
    fn tree(objects: &[(&str, bool, Routes)]) -> (Vec<String>, Vec<String>) {
        let names: Vec<ObjectName> = objects.iter().map(|(of, ..)| name(of)).collect();
        let vertices = objects.iter().zip(&names).map(|((_, is_root, routes), name_of)| {
            let edges = routes.iter().map(|(prefix, to)| Edge {
                prefix,
                to: to.map(name),
            });
            (name_of, Vertex::new(*is_root, false, edges.collect()))
        });
        let vertices = vertices.collect();
        let tree = Tree::of(&vertices);
        let served = tree.served.iter().flat_map(|(root, served)| {
            let of = |one: &Served<'_>| {
                let given = one.given.map(|given| format!(" of {given}")).unwrap_or_default();
                format!("{}: {} {}{given}", root.name, one.object.name, one.route)
            };
            served.iter().map(of).collect::<Vec<_>>()
        });
        let faults = tree.faults.iter();
        let faults = faults.map(|(name, (place, fault))| format!("{} {}: {fault:?}", name.name, place.route));
        (served.collect(), faults.collect())
    }

    #[test]
    fn prefixes_lie_within_others_by_segments() {
        for (prefix, given, expected) in [
            ("/blog", "/blog", true),
            ("/blog/", "/blog", true),
            ("/blog", "/blog/", true),
            ("/blog/a", "/blog", true),
            ("/blogger", "/blog", false),
            ("/blog", "/blog/a", false),
            ("/anything", "/", true),
            ("/", "/", true),
            ("/", "/blog", false),
            ("/blog/", "/blog//", false),
            ("/blog//", "/blog/", true),
        ] {
            assert_eq!(lies_within(prefix, given), expected, "{prefix} in {given}");
        }
    }

    #[test]
    fn the_first_and_the_last_prefix_decide_as_all_do() {
        let prefixes = ["/", "/a", "/a/", "/a!", "/a!/b", "/a/b", "/a//", "/aa", "/b", "/a/b/c"];
        for one in prefixes {
            for two in prefixes {
                for given in prefixes {
                    let edges = [one, two].map(|prefix| Edge { prefix, to: None });
                    let vertex = Vertex::new(false, false, edges.to_vec());
                    let expected = [one, two].iter().position(|prefix| !lies_within(prefix, given));
                    assert_eq!(vertex.outside(given), expected, "{one} and {two} in {given}");
                }
            }
        }
    }

    #[test]
    fn a_cycle_ends_where_it_closes_and_what_is_on_it_is_served() {
        let (served, faults) = tree(&[
            ("root", true, &[("/a", Some("a"))]),
            ("a", false, &[("/a", Some("b")), ("/a/x", None)]),
            ("b", false, &[("/a/y", None), ("/a", Some("a"))]),
        ]);
        assert_eq!(served, ["root: b 0 of /a", "root: a 1 of /a"]);
        assert_eq!(faults, [r#"b 1: Cycle("shop/root -> shop/a -> shop/b -> shop/a")"#]);
    }

    #[test]
    fn a_faulty_delegation_costs_that_delegation_alone() {
        let (served, faults) = tree(&[
            (
                "one",
                true,
                &[("/a", Some("v")), ("/b", Some("v")), ("/c", Some("two"))],
            ),
            ("two", true, &[("/", None)]),
            ("v", false, &[("/a/1", None)]),
        ]);
        assert_eq!(served, ["one: v 0 of /a", "two: two 0"]);
        assert_eq!(faults, ["one 2: ToRoot", r#"v 0: Outside { given: "/b" }"#]);
    }

    #[test]
    fn a_delegate_must_delegate_within_what_it_was_given() {
        let (served, faults) = tree(&[
            ("root", true, &[("/a", Some("v"))]),
            ("v", false, &[("/a", None), ("/b", Some("w"))]),
            ("w", false, &[("/b", None)]),
        ]);
        assert_eq!(served, [""; 0]);
        assert_eq!(faults, [r#"v 1: Outside { given: "/a" }"#]);
    }

    /// Twice as many ways with each level, and a chain that is deeper than a stack.
    #[test]
    fn the_time_does_not_grow_with_the_ways() {
        let depth = 100_000;
        let names: Vec<ObjectName> = (0..depth).map(|level| name(&level.to_string())).collect();
        let ends = names.iter().skip(1).map(Some).chain([None]);
        let vertices = names.iter().zip(ends).enumerate().map(|(level, (of, to))| {
            let edge = Edge {
                prefix: "/",
                to: to.cloned(),
            };
            (of, Vertex::new(level == 0, false, vec![edge.clone(), edge]))
        });
        let vertices = vertices.collect();
        let tree = Tree::of(&vertices);
        assert_eq!(tree.served[&names[0]].len(), 2);
        assert_eq!(tree.reached.len(), depth);
    }
}
