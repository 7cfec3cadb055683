use super::*;
use crate::cluster::reconcile::replicas::ReplicaReport;

use limpet_model::{Settings, gateways_of};
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
        objects.http_routes.insert(route.meta.object_name(), route.into());
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
    Resource::new(ResourceType::VirtualHost, a().key(), content.into())
}

fn refusal(content: &str) -> RefusedUnit {
    RefusedUnit {
        group: "shop/web".into(),
        unit: a().key().into(),
        version: unit(content).version(),
        node: "one".into(),
        message: "no ".repeat(1000).into(),
        refusing: 1,
    }
}

fn gateway() -> ObjectName {
    ObjectName::new("shop", "web")
}

fn resources(content: &str) -> BTreeMap<ObjectName, Resources> {
    let mut resources = Resources::new();
    resources.insert_unit(unit(content));
    [(gateway(), resources)].into()
}

fn one(_: &str) -> usize {
    1
}

/// A route that Envoys of others refuse.
fn no(object: ObjectRef) -> BTreeMap<ObjectRef, RouteRefusal> {
    let (words, is_own) = ("no".into(), false);
    [(object, RouteRefusal { message: words, is_own })].into()
}

/// The refused routes of `content`, where these Gateways have Envoys.
fn found(
    quarantine: &Quarantine,
    content: &str,
    hits: &mut BTreeSet<(Name, ResourceVersion)>,
) -> BTreeMap<ObjectRef, RouteRefusal> {
    quarantine.of(&resources(content), |_| [gateway()].into(), &[gateway()].into(), hits)
}

#[test]
fn a_refused_route_gets_the_next_best_until_taken() {
    let (before, now) = (objects(1, 1), objects(2, 1));
    let mut quarantine = Quarantine::default();
    quarantine.remember(&before, &now, |_| RouteStanding::Accepted);
    let mut tried = now.clone();
    let mut refused = || {
        let is_changed = quarantine.replace(&mut tried, &now, no(a()));
        let quarantined = &tried.quarantined[&a()];
        assert_eq!((quarantined.generation, quarantined.words.as_str()), (2, "no"));
        let served = tried.http_routes[&a().name].meta.generation;
        (is_changed, quarantined.serves, served)
    };
    assert_eq!(refused(), (true, RouteReplacement::Former, 1));
    assert_eq!(refused(), (true, RouteReplacement::Status500, 2));
    assert_eq!(refused(), (true, RouteReplacement::Nothing, 2));
    assert_eq!(refused(), (false, RouteReplacement::Nothing, 2));
    let b = ObjectName::new("shop", "b");
    assert_eq!(tried.http_routes[&b], now.http_routes[&b]);
}

#[test]
fn without_a_former_version_a_route_answers_500() {
    let now = objects(1, 1);
    let mut tried = now.clone();
    assert!(Quarantine::default().replace(&mut tried, &now, no(a())));
    assert_eq!(tried.quarantined[&a()].serves, RouteReplacement::Status500);
}

#[test]
fn only_what_envoys_took_is_remembered() {
    let former = |quarantine: &Quarantine| quarantine.former.get(&a()).map(RouteObject::generation);
    let mut quarantine = Quarantine::default();
    quarantine.remember(&objects(1, 1), &objects(2, 1), |_| RouteStanding::Unknown);
    assert_eq!(former(&quarantine), Some(1), "better than nothing");
    quarantine.remember(&objects(2, 1), &objects(3, 1), |_| RouteStanding::Refused);
    quarantine.remember(&objects(3, 1), &objects(4, 1), |_| RouteStanding::Unknown);
    assert_eq!(former(&quarantine), Some(1));
    quarantine.remember(&objects(4, 1), &objects(5, 1), |_| RouteStanding::Accepted);
    assert_eq!(former(&quarantine), Some(4));
    assert_eq!(quarantine.former.len(), 1, "b has not changed");
    quarantine.remember(&objects(5, 1), &Objects::default(), |_| RouteStanding::Accepted);
    assert_eq!(former(&quarantine), None);
}

#[test]
fn a_refusal_counts_as_long_as_it_is_in_the_way() {
    let mut quarantine = Quarantine::default();
    assert!(quarantine.record_refusals(vec![refusal("bad"), refusal("worse")], one));
    assert!(!quarantine.record_refusals(vec![refusal("bad")], one), "it is known");
    let mut hits = BTreeSet::new();
    let refused = found(&quarantine, "bad", &mut hits);
    assert_eq!(refused.keys().collect::<Vec<_>>(), [&a()]);
    assert!(refused[&a()].message.len() <= WORDS, "the words are bounded");
    assert!(found(&quarantine, "good", &mut hits).is_empty());

    let known = quarantine.clone();
    quarantine.record_refusals(vec![refusal("new")], one);
    quarantine.forget(&known, &hits);
    let mut is_refused = |content| !found(&quarantine, content, &mut BTreeSet::new()).is_empty();
    assert_eq!(["bad", "worse", "new"].map(&mut is_refused), [true, false, true]);
}

#[test]
fn all_are_asked_again_when_most_have_had_no_say() {
    let mut quarantine = Quarantine::default();
    assert!(quarantine.record_refusals(vec![refusal("bad")], one));
    assert!(!quarantine.record_refusals(vec![], one));
    assert!(
        !quarantine.record_refusals(vec![], |_| 0),
        "no Envoy of its own contradicts it"
    );
    assert!(quarantine.record_refusals(vec![], |_| 2));
    assert!(found(&quarantine, "bad", &mut BTreeSet::new()).is_empty());
    assert!(!quarantine.record_refusals(vec![], |_| 2));
    let all = RefusedUnit {
        refusing: 2,
        ..refusal("bad")
    };
    assert!(quarantine.record_refusals(vec![all], |_| 2));
    assert!(!quarantine.record_refusals(vec![], |_| 3));
}

#[test]
fn other_replicas_count_where_no_envoy_is_connected() {
    let mut quarantine = Quarantine::default();
    let mut there = Quarantine::default();
    there.record_refusals(vec![refusal("bad")], one);
    let said = ReplicaReport {
        refused_routes: there.local_refusals(),
        ..ReplicaReport::default()
    };
    assert!(quarantine.record_remote_refusals(&[("other".to_owned(), said)].into()));
    let gateways_of = |_: &ObjectRef| [gateway()].into();
    let refused = quarantine.of(&resources("bad"), gateways_of, &BTreeSet::new(), &mut BTreeSet::new());
    assert_eq!(refused.keys().collect::<Vec<_>>(), [&a()]);
    assert!(found(&quarantine, "bad", &mut BTreeSet::new()).is_empty());
}

#[test]
fn a_refused_ingress_route_gets_its_former_version() {
    let objects = |host: &str| {
        let route = json!({
            "metadata": {"namespace": "shop", "name": "a"},
            "spec": {"virtualhost": {"fqdn": host}},
        });
        let route: Object<IngressRouteSpec> = limpet_api::readable(&route);
        let mut objects = Objects::default();
        objects.ingress_routes.insert(route.meta.object_name(), route.into());
        objects
    };
    let (before, now) = (objects("one.example"), objects("two.example"));
    let object = object_of("ingressroute/shop/a").expect("a unit");
    assert_eq!(object.key(), "ingressroute/shop/a");
    let mut quarantine = Quarantine::default();
    quarantine.remember(&before, &now, |_| RouteStanding::Accepted);
    let mut tried = now.clone();
    let mut refused = || {
        let is_changed = quarantine.replace(&mut tried, &now, no(object.clone()));
        let host = tried.ingress_routes[&object.name].spec.virtualhost.clone();
        (
            is_changed,
            tried.quarantined[&object].serves,
            host.expect("a root").fqdn,
        )
    };
    assert_eq!(refused(), (true, RouteReplacement::Former, "one.example".to_owned()));
    assert_eq!(refused(), (true, RouteReplacement::Status500, "two.example".to_owned()));
    assert_eq!(refused(), (true, RouteReplacement::Nothing, "two.example".to_owned()));
    assert_eq!(refused(), (false, RouteReplacement::Nothing, "two.example".to_owned()));
    quarantine.remember(&now, &Objects::default(), |_| RouteStanding::Accepted);
    assert!(quarantine.former.is_empty());
}

/// Others refuse the same of a shared Gateway.
#[test]
fn a_namespace_with_many_refused_routes_of_its_own_had_all_replaced() {
    let mut objects = Objects::default();
    let (mut own, mut of_others) = (Vec::new(), Vec::new());
    for number in 0..MOST_OF_OWN + 2 {
        let route = json!({"metadata": {"namespace": "shop", "name": format!("r{number}")}, "spec": {}});
        let route: Object<HttpRouteSpec> = limpet_api::readable(&route);
        let name = route.meta.object_name();
        objects.http_routes.insert(name.clone(), route.into());
        let object = ObjectRef {
            kind: Kind::HttpRoute,
            name,
        };
        let group = |group: &str| RefusedUnit {
            group: group.into(),
            unit: object.key().into(),
            ..refusal("bad")
        };
        own.push(group("shop/web"));
        of_others.push(group("infra/shared"));
    }
    let units = |gateway: &ObjectName| {
        let mut resources = Resources::new();
        for refusal in &own {
            resources.insert_unit(Resource::new(
                ResourceType::VirtualHost,
                refusal.unit.clone(),
                "bad".into(),
            ));
        }
        [(gateway.clone(), resources)].into()
    };
    let replaced = |refusals: &[RefusedUnit], gateway: &ObjectName| {
        let mut quarantine = Quarantine::default();
        quarantine.record_refusals(refusals.to_vec(), one);
        let mut hits = BTreeSet::new();
        let refused = quarantine.of(
            &units(gateway),
            |_| [gateway.clone()].into(),
            &BTreeSet::new(),
            &mut hits,
        );
        let mut tried = objects.clone();
        quarantine.replace(&mut tried, &objects, refused.clone());
        // The next turn finds those that were not replaced again.
        let quarantined = tried.quarantined.len();
        let mut left = refused;
        left.retain(|object, _| !tried.quarantined.contains_key(object));
        assert!(!quarantine.replace(&mut tried, &objects, left));
        assert_eq!(tried.quarantined.len(), quarantined);
        // All of them stay known.
        assert_eq!(hits.len(), refusals.len());
        tried.quarantined.len()
    };
    assert_eq!(replaced(&own, &gateway()), MOST_OF_OWN);
    assert_eq!(
        replaced(&of_others, &ObjectName::new("infra", "shared")),
        MOST_OF_OWN + 2
    );
}

#[test]
fn a_refused_route_was_looked_for_at_all_gateways() {
    let mut quarantine = Quarantine::default();
    quarantine.record_refusals(vec![refusal("bad")], one);
    let at = |gateways: &[ObjectName]| {
        let gateways_of = |_: &ObjectRef| gateways.iter().cloned().collect();
        let refused = quarantine.of(&resources("bad"), gateways_of, &BTreeSet::new(), &mut BTreeSet::new());
        refused.len()
    };
    let elsewhere = ObjectName::new("infra", "web");
    assert_eq!([at(&[gateway(), elsewhere.clone()]), at(&[elsewhere])], [1, 0]);
}

#[test]
fn a_route_may_be_at_the_gateways_that_it_names() {
    let parents = json!([
        {"name": "web", "sectionName": "one"},
        {"name": "web", "sectionName": "two"},
        {"name": "web", "namespace": "infra"},
        {"name": "mesh", "group": "", "kind": "Service"},
    ]);
    let route = json!({"metadata": {"namespace": "shop", "name": "a"}, "spec": {"parentRefs": parents}});
    let route: Object<HttpRouteSpec> = limpet_api::readable(&route);
    let mut objects = Objects::default();
    objects.http_routes.insert(route.meta.object_name(), route.into());
    let contour = json!({"gateway": "limpet/contour"});
    let settings = Settings {
        contour: Some(serde_json::from_value(contour).unwrap()),
        ..Settings::default()
    };
    let named = |object: &str| gateways_of(&objects, &settings, &object_of(object).unwrap());
    assert_eq!(
        named("httproute/shop/a"),
        [gateway(), ObjectName::new("infra", "web")].into()
    );
    assert_eq!(named("httproute/shop/gone"), BTreeSet::new());
    assert_eq!(
        named("ingressroute/shop/a"),
        [ObjectName::new("limpet", "contour")].into()
    );
}
