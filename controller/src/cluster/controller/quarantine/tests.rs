use super::*;

use limpet_resources::{Resource, ResourceType};
use serde_json::json;

/// The routes `shop/a` and `shop/b`, with these generations.
fn objects(a: i64, b: i64) -> Objects {
    let mut objects = Objects::default();
    for (name, generation) in [("a", a), ("b", b)] {
        let route = json!({
            "metadata": {"namespace": "shop", "name": name, "generation": generation},
            "spec": {"hostnames": [format!("{generation}.example")]},
        });
        let route: Object<HttpRouteSpec> = limpet_api::readable(&route);
        objects.http_routes.insert(route.meta.object_name(), route);
    }
    objects
}

fn a() -> ObjectRef {
    ObjectRef {
        kind: Kind::HttpRoute,
        name: ObjectName::new("shop", "a"),
    }
}

fn unit(content: &str) -> Resource {
    Resource::new(ResourceType::VirtualHost, unit_of(&a()), content.into())
}

fn refusal(content: &str) -> Refusal {
    Refusal {
        resource_type: ResourceType::VirtualHost,
        name: unit_of(&a()).into(),
        version: unit(content).version(),
        node: "one".into(),
        message: "no ".repeat(1000).into(),
    }
}

fn resources(content: &str) -> Resources {
    let mut resources = Resources::new();
    resources.insert_unit(unit(content));
    resources
}

#[test]
fn a_refused_route_gets_the_next_best_until_taken() {
    let (before, now) = (objects(1, 1), objects(2, 1));
    let mut quarantine = Quarantine::default();
    quarantine.remember(&before, &now, |_| Standing::Accepted);
    let mut tried = now.clone();
    let mut refused = || {
        let is_changed = quarantine.replace(&mut tried, &now, [(a(), "no".into())].into());
        let quarantined = &tried.quarantined[&a()];
        assert_eq!((quarantined.generation, quarantined.words.as_str()), (2, "no"));
        let served = tried.http_routes[&a().name].meta.generation;
        (is_changed, quarantined.serves, served)
    };
    assert_eq!(refused(), (true, InPlace::Former, 1));
    assert_eq!(refused(), (true, InPlace::Status500, 2));
    assert_eq!(refused(), (true, InPlace::Nothing, 2));
    assert_eq!(refused(), (false, InPlace::Nothing, 2));
    let b = ObjectName::new("shop", "b");
    assert_eq!(tried.http_routes[&b], now.http_routes[&b]);
}

#[test]
fn without_a_former_version_a_route_answers_500() {
    let now = objects(1, 1);
    let mut tried = now.clone();
    assert!(Quarantine::default().replace(&mut tried, &now, [(a(), "no".into())].into()));
    assert_eq!(tried.quarantined[&a()].serves, InPlace::Status500);
}

#[test]
fn only_what_envoys_took_is_remembered() {
    let former = |quarantine: &Quarantine| quarantine.former.get(&a()).map(Route::generation);
    let mut quarantine = Quarantine::default();
    quarantine.remember(&objects(1, 1), &objects(2, 1), |_| Standing::Unknown);
    assert_eq!(former(&quarantine), Some(1), "better than nothing");
    quarantine.remember(&objects(2, 1), &objects(3, 1), |_| Standing::Refused);
    quarantine.remember(&objects(3, 1), &objects(4, 1), |_| Standing::Unknown);
    assert_eq!(former(&quarantine), Some(1));
    quarantine.remember(&objects(4, 1), &objects(5, 1), |_| Standing::Accepted);
    assert_eq!(former(&quarantine), Some(4));
    assert_eq!(quarantine.former.len(), 1, "b has not changed");
    quarantine.remember(&objects(5, 1), &Objects::default(), |_| Standing::Accepted);
    assert_eq!(former(&quarantine), None);
}

#[test]
fn a_refusal_counts_as_long_as_it_is_in_the_way() {
    let mut quarantine = Quarantine::default();
    assert!(quarantine.note(vec![refusal("bad"), refusal("worse")]));
    assert!(!quarantine.note(vec![refusal("bad")]), "it is known");
    let mut hits = BTreeSet::new();
    let found = quarantine.of([&resources("bad")], &mut hits);
    assert_eq!(found.keys().collect::<Vec<_>>(), [&a()]);
    assert!(found[&a()].len() <= WORDS, "the words are bounded");
    assert!(quarantine.of([&resources("good")], &mut hits).is_empty());

    let known = quarantine.clone();
    quarantine.note(vec![refusal("new")]);
    quarantine.forget(&known, &hits);
    let mut is_refused = |content| !quarantine.of([&resources(content)], &mut BTreeSet::new()).is_empty();
    assert_eq!(["bad", "worse", "new"].map(&mut is_refused), [true, false, true]);
}
