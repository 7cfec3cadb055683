use super::*;

type Routes = &'static [(&'static str, Option<&'static str>)];

fn name(name: &str) -> ObjectName {
    ObjectName::new("shop", name)
}

/// What is served, in order, and the faults; `objects`: their names, whether they are roots, and their routes.
fn tree(objects: &[(&str, bool, Routes)]) -> (Vec<String>, Vec<String>) {
    let names: Vec<ObjectName> = objects.iter().map(|(of, ..)| name(of)).collect();
    let vertices = objects.iter().zip(&names).map(|((_, is_root, routes), name_of)| {
        let edges = routes.iter().enumerate().map(|(index, (prefix, to))| Edge {
            index,
            prefix,
            to: to.map(name),
            services: 1,
        });
        (name_of, Vertex::new(*is_root, false, edges.collect()))
    });
    let vertices = vertices.collect();
    let tree = DelegationTree::build(&vertices, vertices.keys().copied());
    let served = tree.served.iter().flat_map(|(root, served)| {
        let of = |one: &DelegatedRoute<'_>| {
            let given = one
                .delegated_prefix
                .map(|given| format!(" of {given}"))
                .unwrap_or_default();
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
                let edges = [one, two].into_iter().enumerate();
                let edges = edges.map(|(index, prefix)| Edge {
                    index,
                    prefix,
                    to: None,
                    services: 1,
                });
                let vertex = Vertex::new(false, false, edges.collect());
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
    let depth = MOST_ROUTES / 2;
    let names: Vec<ObjectName> = (0..depth).map(|level| name(&level.to_string())).collect();
    let ends = names.iter().skip(1).map(Some).chain([None]);
    let vertices = names.iter().zip(ends).enumerate().map(|(level, (of, to))| {
        let edge = |index| Edge {
            index,
            prefix: "/",
            to: to.cloned(),
            services: 1,
        };
        (of, Vertex::new(level == 0, false, vec![edge(0), edge(1)]))
    });
    let vertices = vertices.collect();
    let tree = DelegationTree::build(&vertices, vertices.keys().copied());
    assert_eq!(tree.served[&names[0]].len(), 2);
    assert_eq!(tree.reached.len(), depth);
    assert!(tree.too_large.is_empty());
}

#[test]
fn the_first_roots_have_room() {
    let names: Vec<ObjectName> = (0..7).map(|number| name(&number.to_string())).collect();
    let routes = |_| Edge {
        index: 0,
        prefix: "/",
        to: None,
        services: 1,
    };
    let vertices = names.iter().map(|name| {
        (
            name,
            Vertex::new(true, false, (0..MOST_ROUTES - 1).map(routes).collect()),
        )
    });
    let vertices = vertices.collect();
    let tree = DelegationTree::build(&vertices, names.iter().rev());
    assert_eq!(tree.too_large, names.iter().take(2).collect());
}

#[test]
fn delegates_that_are_not_there_cost_their_own_namespace() {
    let names: Vec<ObjectName> = (0..500).map(|number| name(&format!("root-{number}"))).collect();
    let (many, other) = (name("many"), ObjectName::new("other", "root"));
    let nobody = name("nobody");
    let dangling = |index| Edge {
        index,
        prefix: "/",
        to: Some(nobody.clone()),
        services: 1,
    };
    let to_many = || Edge {
        index: 0,
        prefix: "/",
        to: Some(many.clone()),
        services: 1,
    };
    let plain = |index| Edge {
        index,
        prefix: "/",
        to: None,
        services: 1,
    };
    let mut vertices: BTreeMap<&ObjectName, Vertex<'_>> = BTreeMap::new();
    vertices.insert(
        &many,
        Vertex::new(false, false, (0..MOST_ROUTES - 1).map(dangling).collect()),
    );
    vertices.extend(
        names
            .iter()
            .map(|name| (name, Vertex::new(true, false, vec![to_many()]))),
    );
    vertices.insert(&other, Vertex::new(true, false, (0..MOST_ROUTES).map(plain).collect()));
    let tree = DelegationTree::build(&vertices, names.iter().chain([&other]));
    assert_eq!(
        tree.too_large.len(),
        500 - 4,
        "the first ones have room beside the other namespace"
    );
    assert!(tree.served.contains_key(&other) && tree.served.contains_key(&names[0]));
}

#[test]
fn a_root_reaches_no_more_routes_than_there_may_be() {
    let (root, vertex) = (name("root"), name("vertex"));
    let prefixes: Vec<String> = (0..200).map(|depth| "/".repeat(depth + 1)).collect();
    let given = prefixes.iter().enumerate().map(|(index, prefix)| Edge {
        index,
        prefix,
        to: Some(vertex.clone()),
        services: 1,
    });
    let deepest = "/".repeat(201);
    let routes = (0..200).map(|index| Edge {
        index,
        prefix: &deepest,
        to: None,
        services: 1,
    });
    let vertices = [
        (&root, Vertex::new(true, false, given.collect())),
        (&vertex, Vertex::new(false, false, routes.collect())),
    ];
    let vertices = vertices.into_iter().collect();
    let tree = DelegationTree::build(&vertices, vertices.keys().copied());
    assert_eq!(tree.too_large, [&root].into());
    assert!(tree.served.is_empty() && tree.reached.is_empty());
}

#[test]
fn a_root_has_more_routes_with_many_services_and_long_prefixes() {
    fn edges(count: usize, prefix: &str, services: usize) -> Vertex<'_> {
        let edge = |index| Edge {
            index,
            prefix,
            to: None,
            services,
        };
        Vertex::new(true, false, (0..count).map(edge).collect())
    }
    let (few, many, long) = (name("few"), name("many"), name("long"));
    let prefix = "/".repeat(4 * BYTES_OF_PREFIX);
    let vertices = [
        (&few, edges(MOST_ROUTES / 10, "/", 10)),
        (&many, edges(MOST_ROUTES / 10, "/", 11)),
        (&long, edges(MOST_ROUTES / 4, &prefix, 1)),
    ];
    let vertices = vertices.into_iter().collect();
    let tree = DelegationTree::build(&vertices, vertices.keys().copied());
    assert_eq!(tree.too_large, [&many, &long].into());
}

/// The last object of a chain delegates many prefixes to an object that is refused.
#[test]
fn each_delegation_to_a_refused_object_went_through_the_way_to_it() {
    let names: Vec<ObjectName> = (0..2000).map(|number| name(&format!("o{number:04}"))).collect();
    let prefixes: Vec<String> = (0..4000).map(|number| format!("/{number}")).collect();
    let refused = name("refused");
    let edge = |(index, prefix), to: &ObjectName| Edge {
        index,
        prefix,
        to: Some(to.clone()),
        services: 1,
    };
    let time = |length: usize| {
        let chain = names.iter().zip(0..length);
        let mut vertices: BTreeMap<&ObjectName, Vertex<'_>> = chain
            .map(|(object, number)| {
                let next = names.get(number + 1).filter(|_| number + 1 < length);
                let edges = if let Some(next) = next {
                    vec![edge((0, "/"), next)]
                } else {
                    let each = prefixes.iter().map(String::as_str).enumerate();
                    each.map(|prefix| edge(prefix, &refused)).collect()
                };
                (object, Vertex::new(number == 0, false, edges))
            })
            .collect();
        vertices.insert(&refused, Vertex::new(false, true, Vec::new()));
        #[allow(clippy::disallowed_methods, reason = "a test may measure time")]
        let start = std::time::Instant::now();
        let tree = DelegationTree::build(&vertices, vertices.keys().copied());
        assert!(tree.faults.is_empty());
        start.elapsed()
    };
    let (short, long) = (time(2), time(2000));
    assert!(long < short * 20, "{long:?} instead of {short:?}");
}
