//! Many builds publish the same as a single one would.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::publisher;
use super::*;
use crate::cluster::controller::retained_policies::{MOST, RetainedByGateway, UsedByGateway, YOUNG, retained_policies};
use limpet_core::config::schema::FenceConfig;
use limpet_core::time::Timestamp;
use limpet_model::Settings;
use limpet_model::endpoints::EndpointState;
use limpet_outputs::{FilterKeys, GatewayReferences};

const NAMES: usize = 4;

#[derive(Debug, Clone)]
enum Step {
    /// A route with a host, to these Services, with sessions or without, of one of the Gateways or of both.
    Route(usize, usize, Vec<usize>, bool, [bool; 2]),
    NoRoute(usize),
    Service(usize, u16),
    NoService(usize),
    Endpoints(usize, Vec<u8>),
    NoGateway(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let services = || proptest::collection::vec(0..NAMES, 0..3);
    let route = (0..NAMES, 0..NAMES, services(), any::<bool>(), any::<[bool; 2]>());
    prop_oneof![
        6 => route.prop_map(|(name, host, services, has_session, parents)| {
            Step::Route(name, host, services, has_session, parents)
        }),
        1 => (0..NAMES).prop_map(Step::NoRoute),
        2 => (0..NAMES, 80..83_u16).prop_map(|(name, port)| Step::Service(name, port)),
        1 => (0..NAMES).prop_map(Step::NoService),
        3 => (0..NAMES, proptest::collection::vec(1..9_u8, 0..4)).prop_map(|(name, hosts)| Step::Endpoints(name, hosts)),
        1 => any::<bool>().prop_map(Step::NoGateway),
    ]
}

fn name(name: &impl ToString) -> ObjectName {
    ObjectName::new("shop", &name.to_string())
}

fn object(kind: &str, name: &ObjectName, spec: &Value) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": kind,
        "metadata": {"namespace": name.namespace, "name": name.name, "generation": 1},
        "spec": spec,
    })
}

#[derive(Debug, Default)]
struct World {
    objects: Objects,
    endpoints: BTreeMap<ObjectName, Vec<Endpoint>>,
    fences: Vec<FenceConfig>,
}

const GATEWAYS: [&str; 2] = ["web", "inside"];

impl World {
    fn new() -> Self {
        let mut world = Self::default();
        let class = json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "GatewayClass",
            "metadata": {"name": "limpet"},
            "spec": {"controllerName": limpet_model::CONTROLLER_NAME},
        });
        let class = Arc::new(limpet_api::object(&class).unwrap());
        world.objects.gateway_classes.insert("limpet".into(), class);
        world.gateway(true);
        world
    }

    fn gateway(&mut self, second: bool) {
        for gateway in GATEWAYS.into_iter().take(1 + usize::from(second)) {
            let allowed = json!({"namespaces": {"from": "All"}});
            let listeners = json!([{"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": allowed}]);
            let spec = json!({"gatewayClassName": "limpet", "listeners": listeners});
            let made = Arc::new(limpet_api::object(&object("Gateway", &name(&gateway), &spec)).unwrap());
            self.objects.gateways.insert(name(&gateway), made);
        }
        if !second {
            self.objects.gateways.remove(&name(&GATEWAYS[1]));
        }
    }

    fn change(&mut self, step: &Step) {
        match step {
            Step::Route(route, host, services, has_session, parents) => {
                let parents = GATEWAYS.iter().zip(parents).filter(|(_, has)| **has);
                let parents: Vec<_> = parents.map(|(name, _)| json!({"name": name})).collect();
                let backends = services
                    .iter()
                    .map(|service| json!({"name": format!("v{service}"), "port": 80}));
                let mut rule = json!({"backendRefs": backends.collect::<Vec<_>>(), "name": "all"});
                if *has_session {
                    rule["sessionPersistence"] = json!({"sessionName": format!("s{route}")});
                }
                let hosts = [format!("host-{host}.example")];
                let spec = json!({"parentRefs": parents, "hostnames": hosts, "rules": [rule]});
                let made = Arc::new(limpet_api::object(&object("HTTPRoute", &name(route), &spec)).unwrap());
                self.objects.http_routes.insert(name(route), made);
            }
            Step::NoRoute(route) => drop(self.objects.http_routes.remove(&name(route))),
            Step::Service(service, port) => {
                let service = name(&format!("v{service}"));
                let spec = json!({"ports": [{"name": format!("p{port}"), "port": 80}]});
                let made = Arc::new(limpet_api::object(&object("Service", &service, &spec)).unwrap());
                self.objects.services.insert(service, made);
            }
            Step::NoService(service) => drop(self.objects.services.remove(&name(&format!("v{service}")))),
            Step::Endpoints(service, hosts) => {
                let endpoint = |host: &u8| Endpoint {
                    address: ([10, 0, 0, *host], 80).into(),
                    state: EndpointState::Ready,
                    owner: None,
                    pod: None,
                };
                let endpoints = hosts.iter().map(endpoint).collect();
                self.endpoints.insert(name(&format!("v{service}")), endpoints);
            }
            Step::NoGateway(is_gone) => self.gateway(!is_gone),
        }
    }

    fn endpoints(&self, service: &ObjectName) -> Vec<Endpoint> {
        self.endpoints.get(service).cloned().unwrap_or_default()
    }

    fn publish(&self, publisher: &mut Publisher) -> Reports {
        self.publish_at(publisher, true, Moment::now())
    }

    fn publish_keeping(&self, publisher: &mut Publisher) -> Reports {
        self.publish_at(publisher, false, Moment::now())
    }

    fn publish_at(&self, publisher: &mut Publisher, drops_retained: bool, now: Moment) -> Reports {
        let inputs = FilterInputs {
            fences: self.fences.clone(),
            ..FilterInputs::with_keys(FilterKeys::Listed(Vec::new()))
        };
        let builder = Builder {
            now,
            ..publisher.builder(Arc::new(inputs), drops_retained)
        };
        let built = builder.build(Arc::new(self.objects.clone()), &Settings::default());
        publisher.publish(built, |service, _, _| self.endpoints(service)).0
    }
}

fn published(publisher: &Publisher) -> (BTreeMap<String, Vec<String>>, BTreeSet<ObjectName>, BTreeSet<String>) {
    let text = |resources: &Resources| {
        let units = resources.units().map(|unit| format!("unit {unit:?}"));
        let all = resources.iter().map(|resource| format!("{resource:?}"));
        all.chain(units).collect::<Vec<_>>()
    };
    let sent = publisher
        .sent
        .iter()
        .map(|(gateway, sent)| (gateway.to_string(), text(sent)));
    let served = publisher.ports.iter().map(|served| format!("{served:?}"));
    (sent.collect(), publisher.session_registry.services(), served.collect())
}

fn with_session(world: &mut World, session: usize) {
    let parents = GATEWAYS.map(|name| json!({"name": name}));
    let persistence = json!({"sessionName": format!("s{session}")});
    let rule = json!({"backendRefs": [{"name": "v0", "port": 80}], "sessionPersistence": persistence});
    let spec = json!({"parentRefs": parents, "rules": [rule]});
    let made = Arc::new(limpet_api::object(&object("HTTPRoute", &name(&"shop"), &spec)).unwrap());
    world.objects.http_routes.insert(name(&"shop"), made);
}

fn retained(publisher: &Publisher) -> BTreeMap<ObjectName, usize> {
    let retained = &publisher.published.as_ref().unwrap().retained;
    retained
        .iter()
        .map(|(gateway, retained)| (gateway.clone(), retained.policies.len()))
        .collect()
}

#[test]
fn an_envoy_without_the_routes_made_other_gateways_retain_policies() {
    let (mut world, (mut publisher, snapshots)) = (World::new(), publisher());
    world.change(&Step::Service(0, 80));
    for session in 0..3 {
        with_session(&mut world, session);
        world.publish_keeping(&mut publisher);
    }
    let [web, inside] = GATEWAYS.map(|gateway| name(&gateway));
    assert_eq!(retained(&publisher), [(web.clone(), 2), (inside.clone(), 2)].into());
    // As if an Envoy lacked what is published.
    snapshots.forget(&inside.to_string());
    assert_eq!(publisher.needless_retained(), [web].into());
    world.publish(&mut publisher);
    assert_eq!(retained(&publisher), [(inside, 2)].into());
}

#[test]
fn policies_went_by_what_envoys_had_before_the_last_routes() {
    let (mut world, (mut publisher, snapshots)) = (World::new(), publisher());
    world.change(&Step::Service(0, 80));
    for session in 0..2 {
        with_session(&mut world, session);
        world.publish_keeping(&mut publisher);
    }
    let [web, inside] = GATEWAYS.map(|gateway| name(&gateway));
    assert_eq!(publisher.needless_retained(), [web, inside.clone()].into());
    // Meanwhile, a build ends. An Envoy does not have its routes.
    with_session(&mut world, 2);
    world.publish_keeping(&mut publisher);
    snapshots.forget(&inside.to_string());
    world.publish(&mut publisher);
    assert_eq!(retained(&publisher), [(inside, 2)].into());
}

#[test]
fn policies_were_retained_whatever_room_they_took() {
    let mut world = World::new();
    world.change(&Step::Service(0, 80));
    let mut with = |session: usize| {
        with_session(&mut world, session);
        let graph = limpet_model::build(&world.objects, &Settings::default()).0;
        let gateways = graph.gateways.keys();
        let used = gateways.map(|gateway| (gateway.clone(), GatewayReferences::by(&graph, gateway)));
        let used: UsedByGateway = used.collect();
        (graph, used)
    };
    let mut before = with(0);
    let policy = before.0.policies.values().next().unwrap();
    let bytes = serde_json::to_string(&**policy).unwrap().len();
    let mut retained = RetainedByGateway::new();
    let mut change = |session: usize, most_bytes: usize| {
        let after = with(session);
        let graphs = [(&before.0, &before.1), (&after.0, &after.1)];
        let limits = (
            FilterInputs::with_keys(FilterKeys::Listed(Vec::new())).max_idle,
            most_bytes,
        );
        retained = retained_policies(&retained, graphs, limits, Moment::now());
        before = after;
        let of_gateways = retained.values().map(|retained| retained.policies.len());
        of_gateways.max().unwrap_or_default()
    };
    assert_eq!(change(1, 5 * bytes), 1);
    assert_eq!(change(2, 5 * bytes), 2);
    assert_eq!(change(3, 5 * bytes / 2), 1, "with the one that is used, two have room");
    assert_eq!(change(4, bytes / 2), 0, "the one before was in no filter");
}

#[test]
fn many_changes_left_policies_without_end() {
    let (mut world, (mut publisher, _)) = (World::new(), publisher());
    world.change(&Step::Service(0, 80));
    let mut change = |session: usize, after: Duration| {
        with_session(&mut world, session);
        world.publish_at(&mut publisher, false, later(Moment::now(), after));
        retained(&publisher).into_values().max().unwrap_or_default()
    };
    for session in 0..=2 * MOST {
        let count = change(session, Duration::ZERO);
        assert_eq!(
            count, session,
            "what is younger than a minute stays: Envoys may not have the routes yet"
        );
    }
    assert_eq!(change(2 * MOST + 1, YOUNG * 2), MOST + 1);
}

fn later(than: Moment, by: Duration) -> Moment {
    Moment {
        instant: than.instant + by,
        unix: than.unix.after(by),
    }
}

fn routed(world: &mut World, namespace: &str, gateway: &str) {
    routed_with(world, namespace, gateway, &json!({"sessionName": namespace}));
}

fn routed_with(world: &mut World, namespace: &str, gateway: &str, persistence: &Value) {
    let named = |name: &str| ObjectName::new(namespace, name);
    let service = json!({"ports": [{"name": "http", "port": 80}]});
    let service = object("Service", &named("own"), &service);
    let service = Arc::new(limpet_api::object(&service).unwrap());
    world.objects.services.insert(named("own"), service);
    let rule = json!({"backendRefs": [{"name": "own", "port": 80}], "sessionPersistence": persistence});
    let parents = json!([{"namespace": "shop", "name": gateway}]);
    let host = format!("{namespace}.example");
    let route = object(
        "HTTPRoute",
        &named("own"),
        &json!({"parentRefs": parents, "hostnames": [host], "rules": [rule]}),
    );
    let route = Arc::new(limpet_api::object(&route).unwrap());
    world.objects.http_routes.insert(named("own"), route);
}

/// The fenced namespaces in the filter of each Gateway.
fn fenced(publisher: &Publisher, namespaces: [&str; 2]) -> [Vec<String>; 2] {
    GATEWAYS.map(|gateway| {
        let mut filters = publisher.sent[&name(&gateway)].of_type(ResourceType::ExtensionConfig);
        let filter = String::from_utf8_lossy(filters.next().unwrap().body()).into_owned();
        let has = |namespace: &&str| filter.contains(&format!(r#""namespace":"{namespace}""#));
        namespaces.into_iter().filter(has).map(str::to_owned).collect()
    })
}

#[test]
fn a_fence_of_one_namespace_made_the_envoys_of_all_gateways_read_their_filters_again() {
    let (mut world, (mut publisher, _)) = (World::new(), publisher());
    let of = |namespace: &str, not_before: u64| FenceConfig {
        address: "10.0.0.7:80".to_owned(),
        namespace: Some(namespace.to_owned()),
        not_before,
    };
    routed(&mut world, "one", GATEWAYS[0]);
    routed(&mut world, "two", GATEWAYS[1]);
    let versions = |publisher: &Publisher| publisher.published_filter().unwrap().versions.clone();
    world.fences = vec![of("one", 1), of("two", 1)];
    world.publish(&mut publisher);
    let before = versions(&publisher);
    assert_eq!(fenced(&publisher, ["one", "two"]), [["one"], ["two"]]);
    world.fences = vec![of("one", 1), of("two", 2)];
    world.publish(&mut publisher);
    let after = versions(&publisher);
    let changed = GATEWAYS.map(|gateway| before[&*name(&gateway).to_string()] != after[&*name(&gateway).to_string()]);
    assert_eq!(changed, [false, true]);

    // Envoys may have the former routes of a namespace for a moment.
    world.objects.http_routes.remove(&ObjectName::new("two", "own"));
    world.publish_keeping(&mut publisher);
    world.publish_keeping(&mut publisher);
    assert_eq!(fenced(&publisher, ["one", "two"]), [vec!["one"], vec!["two"]]);
    world.publish(&mut publisher);
    assert_eq!(fenced(&publisher, ["one", "two"]), [vec!["one"], vec![]]);
}

/// The routes of two namespaces at one Gateway. Times are seconds after the first publication.
struct Timed {
    world: World,
    publisher: Publisher,
    begin: Moment,
}

impl Timed {
    /// Both namespaces have sessions with these timeouts.
    fn new(timeouts: &Value) -> Self {
        let mut timed = Self {
            world: World::new(),
            publisher: publisher().0,
            begin: Moment {
                unix: Timestamp::from_unix_seconds(1_790_000_040),
                ..Moment::now()
            },
        };
        timed.set("two", timeouts);
        timed.change("one", timeouts, 0);
        timed
    }

    fn set(&mut self, namespace: &str, timeouts: &Value) {
        let mut persistence = timeouts.clone();
        persistence["sessionName"] = json!("s");
        routed_with(&mut self.world, namespace, GATEWAYS[0], &persistence);
    }

    fn change(&mut self, namespace: &str, timeouts: &Value, at: u64) -> Vec<String> {
        self.set(namespace, timeouts);
        self.publish(at)
    }

    /// How old tokens may be, as the filter reads it: `<namespace> <lag> <until>`.
    fn publish(&mut self, at: u64) -> Vec<String> {
        let now = later(self.begin, Duration::from_secs(at));
        self.world.publish_at(&mut self.publisher, false, now);
        self.former()
    }

    fn former(&self) -> Vec<String> {
        let mut filters = self.publisher.sent[&name(&GATEWAYS[0])].of_type(ResourceType::ExtensionConfig);
        let filter = String::from_utf8_lossy(filters.next().unwrap().body()).into_owned();
        let mut all = Vec::new();
        for text in filter.split(r#""formerLags":"#).skip(1) {
            let (list, _) = text.split_once(']').unwrap();
            let list: Vec<Value> = serde_json::from_str(&format!("{list}]")).unwrap();
            all.extend(list.iter().map(|former| {
                let until = former["until"].as_u64().unwrap() - self.begin.unix.unix_seconds();
                let text = |field: &str| former[field].as_str().unwrap();
                format!("{} {} {until}", text("namespace"), text("lag"))
            }));
        }
        all.sort();
        all
    }
}

fn idle(timeout: &str) -> Value {
    json!({"idleTimeout": timeout})
}

const NONE: [&str; 0] = [];

#[test]
fn a_shorter_idle_timeout_ended_sessions_in_use() {
    let absolute = json!({"absoluteTimeout": "1h"});
    let both = json!({"absoluteTimeout": "1h", "idleTimeout": "20s"});
    for (before, after, expected) in [
        (idle("1h"), idle("20s"), vec!["one 6m 120"]),
        (idle("20s"), idle("1h"), vec![]),
        // The filter refuses zero.
        (idle("5ms"), idle("1ms"), vec!["one 1s 120"]),
        // Tokens could stay unused for seven days.
        (json!({}), idle("20s"), vec!["one 16h48m 120"]),
        (idle("20s"), json!({}), vec![]),
        // These were not renewed.
        (absolute.clone(), idle("20s"), vec!["one 1h 120"]),
        (absolute.clone(), both, vec!["one 1h 120"]),
        // It counts from the first token.
        (idle("2h"), absolute, vec![]),
    ] {
        let mut timed = Timed::new(&before);
        assert_eq!(timed.change("one", &after, 10), expected, "{before} {after}");
    }
}

#[test]
fn other_namespaces_with_the_same_policy_keep_their_idle_timeout() {
    let mut timed = Timed::new(&idle("20s"));
    timed.change("one", &idle("1h"), 0);
    // It has the policy of `two` now.
    assert_eq!(timed.change("one", &idle("20s"), 10), ["one 6m 120"]);
    assert_eq!(timed.publisher.published.as_ref().unwrap().graph.policies.len(), 1);
    timed.change("two", &idle("1h"), 20);
    assert_eq!(timed.change("two", &idle("20s"), 30), ["one 6m 120", "two 6m 120"]);
}

#[test]
fn an_idle_timeout_that_became_shorter_twice_counts_from_the_longest() {
    let mut timed = Timed::new(&idle("1h"));
    assert_eq!(timed.change("one", &idle("20s"), 10), ["one 6m 120"]);
    // Envoys may have the former routes for a moment.
    assert_eq!(timed.change("one", &idle("10s"), 15), ["one 6m 120", "one 6m 120"]);
    // This is longer than the last one.
    assert!(timed.change("one", &idle("1m"), 20).contains(&"one 6m 180".to_owned()));
    // All sessions have tokens of a minute now.
    assert_eq!(timed.change("one", &idle("30s"), 200), ["one 6s 300"]);
}

#[test]
fn a_former_lag_goes_when_no_session_depends_on_it() {
    let mut timed = Timed::new(&idle("1h"));
    let life = |timed: &Timed| timed.publisher.published_filter().unwrap().life;
    let of = |idle: u64| Duration::from_secs(idle + idle / 10 + 60);
    timed.change("two", &idle("20s"), 10);
    assert_eq!(timed.change("one", &idle("20s"), 10), ["one 6m 120", "two 6m 120"]);
    // Keys and fences have to stay for as long as tokens may be honoured.
    assert_eq!(life(&timed), of(20) + Duration::from_secs(360));
    // Envoys have the routes, and need no policies of earlier ones.
    assert!(timed.publisher.has_retained());
    let now = later(timed.begin, Duration::from_secs(11));
    timed.world.publish_at(&mut timed.publisher, true, now);
    assert_eq!(timed.former().len(), 2);
    assert!(!timed.publisher.has_retained(), "no build is needed for these");
    assert_eq!(timed.publisher.needless_retained(), BTreeSet::new());
    assert_eq!(timed.publish(120).len(), 2);
    assert_eq!(timed.publish(121), NONE);
    assert_eq!(life(&timed), of(20));
}

#[test]
fn former_lags_go_with_their_policies_and_namespaces() {
    let mut timed = Timed::new(&idle("1h"));
    for (at, timeout) in [(10, "20m"), (11, "20s")] {
        timed.change("two", &idle(timeout), at);
        timed.change("one", &idle(timeout), at);
    }
    assert_eq!(timed.former().len(), 4);
    let now = later(timed.begin, Duration::from_secs(12));
    timed.world.publish_at(&mut timed.publisher, true, now);
    assert_eq!(timed.former(), ["one 6m 120", "two 6m 120"]);
    timed.world.objects.http_routes.remove(&ObjectName::new("two", "own"));
    timed.world.publish_at(&mut timed.publisher, true, now);
    timed.world.publish_at(&mut timed.publisher, true, now);
    assert_eq!(timed.former(), ["one 6m 120"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]

    #[test]
    fn many_builds_publish_what_one_would(turns in proptest::collection::vec(proptest::collection::vec(step(), 1..3), 1..12)) {
        let (mut world, (mut kept, _)) = (World::new(), publisher());
        for steps in turns {
            let mut services = BTreeSet::new();
            for step in &steps {
                world.change(step);
                if let Step::Endpoints(service, _) = step {
                    services.insert(name(&format!("v{service}")));
                }
            }
            kept.publish_endpoints(&services, |service, _, _| world.endpoints(service));
            world.publish(&mut kept);
            // Unused policies are retained until now.
            let reports = world.publish(&mut kept);
            let (mut anew, _) = publisher();
            prop_assert_eq!(reports, world.publish(&mut anew));
            prop_assert_eq!(published(&kept), published(&anew));
        }
    }
}
