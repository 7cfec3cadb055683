//! After each of many random changes, the build of what changed is compared with a build of everything.

mod parameters;
mod world;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::build::build_within;
use crate::looked;
use crate::memory::MOST_BYTES;
use crate::session_fields::ScopeName;
use crate::{GatewayOwner, ManagedEnvoys, SessionPolicyKind, SessionPolicyName};
use limpet_api::ObjectRef;
use links::LinkKind;
use world::{Random, World};

const CHANGES: usize = 500;

/// Ours, with Envoys that the controller keeps or not; with Contour; and another control plane's.
fn settings(seed: u64) -> Settings {
    let contour = json!({"gateway": "a/contour"});
    let contour = serde_json::from_value(contour).unwrap();
    let controllers = BTreeSet::from(["limpet.dev/controller".to_owned()]);
    match seed % 4 {
        0 => Settings::default(),
        1 => Settings {
            managed: Some(ManagedEnvoys::default()),
            ..Settings::default()
        },
        2 => Settings {
            contour: Some(contour),
            ..Settings::default()
        },
        _ => Settings {
            gateways: GatewayOwner::Of(controllers),
            ..Settings::default()
        },
    }
}

/// Sometimes so little room that something is forgotten.
fn context(seed: u64) -> BuildContext<'static> {
    BuildContext {
        limits: BuildLimits {
            most_bytes: if seed.is_multiple_of(3) { 1_000 } else { MOST_BYTES },
            most_cookies: 2,
        },
        ..BuildContext::default()
    }
}

fn run(seed: u64, changes: usize) {
    let mut random = Random::new(seed);
    let mut world = World::default();
    let (settings, context) = (settings(seed), context(seed));
    let mut incremental = Incremental::with_limits(context.limits);
    let mut memory = Memory::default();
    for change in 0..changes {
        for _ in 0..[1, 1, 1, 3][random.below(4)] {
            world.change(&mut random, &memory);
        }
        let (graph, reports) = incremental.build(&world.objects, &settings);
        let expected = build_within(&world.objects, &settings, context);
        let at = || format!("seed {seed}, change {change}");
        assert_eq!(graph, expected.graph, "{}", at());
        assert_eq!(graph.memory, expected.graph.memory, "{}", at());
        assert_eq!(reports, expected.reports, "{}", at());
        memory = graph.memory;
    }
}

/// Each kind of [`settings`] has a test, so that they run side by side; together they make ten thousand changes.
fn worlds(kind: u64) {
    for seed in (100..120).filter(|seed| seed % 4 == kind) {
        run(seed, CHANGES);
    }
}

#[test]
fn a_build_of_what_changed_is_a_build_of_everything() {
    worlds(0);
}

#[test]
fn a_build_of_what_changed_is_one_of_everything_with_managed_envoys() {
    worlds(1);
}

#[test]
fn a_build_of_what_changed_is_one_of_everything_with_contour() {
    worlds(2);
}

#[test]
fn a_build_of_what_changed_is_one_of_everything_for_another_control_plane() {
    worlds(3);
}

const ROUTES: usize = 10;

fn object(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec})
}

fn add_gateway(objects: &mut Objects, allowed: &str) {
    let listener = json!({
        "name": "l", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": allowed}},
    });
    let gateway = object(
        "a",
        "web",
        &json!({"gatewayClassName": "limpet", "listeners": [listener]}),
    );
    let gateway = limpet_api::readable(&gateway);
    objects.gateways.insert(ObjectName::new("a", "web"), gateway.into());
}

fn add_route(objects: &mut Objects, namespace: &str, name: &str, hosts: &[String], backends: &[String]) {
    let backend = |backend: &String| json!({"namespace": "a", "name": backend, "port": 80});
    let spec = json!({
        "parentRefs": [{"namespace": "a", "name": "web"}],
        "hostnames": hosts,
        "rules": [{"backendRefs": backends.iter().map(backend).collect::<Vec<_>>()}],
    });
    let route = limpet_api::readable(&object(namespace, name, &spec));
    objects
        .http_routes
        .insert(ObjectName::new(namespace, name), route.into());
}

fn with_routes() -> (Objects, Vec<String>, Vec<String>) {
    let mut objects = Objects::default();
    let class = object("", "limpet", &json!({"controllerName": "limpet.dev/controller"}));
    let class = limpet_api::readable(&class);
    objects.gateway_classes.insert("limpet".into(), class.into());
    add_gateway(&mut objects, "Same");
    let backends: Vec<String> = (0..ROUTES).map(|index| format!("r{index}")).collect();
    let hosts: Vec<String> = backends.iter().map(|own| format!("{own}.x.com")).collect();
    for (own, host) in backends.iter().zip(&hosts) {
        let (own, host) = (std::slice::from_ref(own), std::slice::from_ref(host));
        add_route(&mut objects, "a", &own[0], host, own);
    }
    (objects, hosts, backends)
}

fn largest_island(incremental: &mut Incremental, objects: &Objects) -> usize {
    let settings = Settings::default();
    let (graph, reports) = incremental.build(objects, &settings);
    let expected = build_within(objects, &settings, BuildContext::default());
    assert_eq!((graph, reports), (expected.graph, expected.reports));
    let members = |island: &Island| incremental.partition.members(*island).len();
    incremental.parts.keys().map(members).max().unwrap()
}

#[test]
fn a_policy_for_a_gateway_joins_no_routes() {
    let (mut objects, ..) = with_routes();
    let target = json!([{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web"}]);
    let spec = json!({"targetRefs": target, "sessionPersistence": {}});
    let policy = limpet_api::readable(&object("a", "p", &spec));
    let key = SessionPolicyName {
        kind: SessionPolicyKind::BackendLbPolicy,
        name: ObjectName::new("a", "p"),
    };
    objects.session_policies.insert(key, policy.into());
    assert_eq!(largest_island(&mut Incremental::default(), &objects), 1);
}

#[test]
fn a_route_that_named_backends_without_a_grant_joined_all_that_lead_to_them() {
    let (mut objects, _, backends) = with_routes();
    add_gateway(&mut objects, "All");
    add_route(&mut objects, "b", "foreign", &["b.x.com".to_owned()], &backends);
    let mut incremental = Incremental::default();
    assert_eq!(largest_island(&mut incremental, &objects), 1);
    let spec = json!({
        "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "b"}],
        "to": [{"group": "", "kind": "Service"}],
    });
    let grant = limpet_api::readable(&object("a", "g", &spec));
    objects.reference_grants.insert(ObjectName::new("a", "g"), grant.into());
    assert_eq!(largest_island(&mut incremental, &objects), ROUTES + 1);
    objects.reference_grants.clear();
    assert_eq!(largest_island(&mut incremental, &objects), 1);
}

#[test]
fn a_route_that_may_not_attach_joined_all_whose_hosts_it_named() {
    let (mut objects, hosts, _) = with_routes();
    add_route(&mut objects, "b", "foreign", &hosts, &[]);
    let mut incremental = Incremental::default();
    assert_eq!(largest_island(&mut incremental, &objects), 1);
    add_gateway(&mut objects, "All");
    assert_eq!(largest_island(&mut incremental, &objects), ROUTES + 1);
    add_gateway(&mut objects, "Same");
    assert_eq!(largest_island(&mut incremental, &objects), 1);
}

#[test]
fn a_route_that_changed_had_all_ingress_routes_of_its_services_built() {
    const INGRESS_ROUTES: usize = 100;
    let (mut objects, hosts, backends) = with_routes();
    let add_service = |objects: &mut Objects, name: &str, port: u16| {
        let service = limpet_api::readable(&object("a", name, &json!({"ports": [{"port": port}]})));
        objects.services.insert(ObjectName::new("a", name), service.into());
    };
    for backend in &backends {
        add_service(&mut objects, backend, 80);
    }
    let services: Vec<Value> = backends.iter().map(|name| json!({"name": name, "port": 80})).collect();
    for index in 0..INGRESS_ROUTES {
        let name = format!("root-{index}");
        let spec = json!({
            "virtualhost": {"fqdn": format!("{name}.x.com")},
            "routes": [{"match": "/", "services": services}],
        });
        let root = limpet_api::readable(&object("a", &name, &spec));
        objects.ingress_routes.insert(ObjectName::new("a", &name), root.into());
    }
    let settings = settings(2);
    let mut incremental = Incremental::default();
    let mut looks_at = |objects: &Objects| {
        looked::take();
        let built = incremental.build(objects, &settings);
        let looked = looked::take();
        let expected = build_within(objects, &settings, BuildContext::default());
        assert_eq!(built, (expected.graph, expected.reports));
        looked
    };
    assert!(looks_at(&objects) >= INGRESS_ROUTES);
    add_route(&mut objects, "a", "r0", &hosts[1..2], &backends[2..3]);
    assert!(looks_at(&objects) < INGRESS_ROUTES, "a route changed");
    add_service(&mut objects, "r2", 81);
    assert!(looks_at(&objects) >= INGRESS_ROUTES, "a Service changed");
}

#[test]
fn each_route_looked_at_all_grants_of_a_namespace_when_one_of_them_changed() {
    const GRANTS: usize = 300;
    let (mut objects, _, backends) = with_routes();
    add_gateway(&mut objects, "All");
    let hosts = |route: usize| [format!("b{route}.x.com")];
    for (route, backend) in backends.iter().enumerate() {
        let backend = std::slice::from_ref(backend);
        add_route(&mut objects, "b", &route.to_string(), &hosts(route), backend);
    }
    let grant = |index: usize, kind: &str| {
        let spec = json!({
            "from": [{"group": "gateway.networking.k8s.io", "kind": kind, "namespace": "b"}],
            "to": [{"group": "", "kind": "Service", "name": format!("r{index}")}],
        });
        let name = format!("g{index}");
        let grant = limpet_api::readable(&object("a", &name, &spec));
        (ObjectName::new("a", &name), Arc::new(grant))
    };
    objects
        .reference_grants
        .extend((0..GRANTS).map(|index| grant(index, "HTTPRoute")));
    let mut incremental = Incremental::default();
    assert_eq!(largest_island(&mut incremental, &objects), 2);
    let (name, changed) = grant(GRANTS - 1, "GRPCRoute");
    objects.reference_grants.insert(name, changed);
    looked::take();
    let _ = incremental.build(&objects, &Settings::default());
    let seen = looked::take();
    assert!((GRANTS..2 * GRANTS).contains(&seen), "{seen}");
    assert_eq!(largest_island(&mut incremental, &objects), 2);
}

#[test]
fn each_route_that_shares_a_scope_looked_at_all_others() {
    const MANY: usize = 200;
    let member = |index: usize| {
        let name = ObjectName::new("a", &index.to_string());
        let kind = Kind::HttpRoute;
        IslandMember::Object(ObjectRef { kind, name })
    };
    let scope = IslandLink::Scope(ScopeName::try_from("shop".to_owned()).unwrap());
    let (joins, reads) = ((scope.clone(), LinkKind::Joins), (IslandLink::Nodes, LinkKind::Reads));
    let mut partition = Partition::default();
    looked::take();
    for index in 0..MANY {
        partition.set(member(index), Some(vec![joins.clone()]));
    }
    assert_eq!(partition.settle().dirty.len(), 1);
    for index in 0..MANY {
        partition.set(member(index), Some(vec![joins.clone()]));
    }
    partition.settle();
    for index in 0..MANY {
        partition.set(member(index), Some(vec![joins.clone(), reads.clone()]));
    }
    assert_eq!(partition.settle().dirty.len(), 1);
    for index in 0..MANY {
        partition.set(member(index), None);
    }
    assert!(partition.settle().dirty.is_empty());
    assert!((1..=10 * MANY).contains(&looked::take()));
}
