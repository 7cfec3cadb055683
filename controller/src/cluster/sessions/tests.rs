use std::collections::HashSet;

use limpet_core::census::report::{Report, RestartReport};
use limpet_core::census::{Backend, Census, ObservedSession, SessionDeparture, SessionIdentity};
use limpet_core::token::DestinationId;
use limpet_model::endpoints::EndpointState;
use limpet_xds::RequestLoad;

use super::*;

mod complete;
mod hostile;
mod replicas;

const GROUP: &str = "shop/web";

/// A Service with two pods, for one Gateway.
struct Shop {
    registry: SessionRegistry,
    cluster: ClusterName,
}

impl Shop {
    fn new() -> Self {
        let shop = Self {
            registry: SessionRegistry::new(),
            cluster: ClusterName("service/shop/cart/80".into()),
        };
        shop.publish();
        shop.observe(&[(1, EndpointState::Ready), (2, EndpointState::Ready)]);
        shop
    }

    fn publish(&self) {
        self.publish_for(&["web"], &[600]);
    }

    /// For these Gateways, with these idle bounds.
    fn publish_for(&self, gateways: &[&str], bounds: &[u32]) {
        let service = name("shop", "cart");
        let gateways: Vec<_> = gateways.iter().map(|gateway| name("shop", gateway)).collect();
        self.registry.publish(
            [published(&self.cluster, &service, &gateways, bounds)].into_iter(),
            std::iter::empty(),
        );
    }

    fn observe(&self, pods: &[(u8, EndpointState)]) {
        let endpoints: Vec<_> = pods.iter().map(|(number, state)| endpoint(*number, *state)).collect();
        self.registry.observe(&self.cluster, &endpoints);
    }

    fn backend(&self, number: u8) -> Backend {
        let destination = DestinationId::of_cluster(self.cluster.0.as_bytes());
        Backend::new(destination, address(number), std::time::Duration::from_secs(600))
    }

    fn hear(&self, envoy: &Census) -> u64 {
        let report = envoy.report(now()).unwrap();
        self.registry
            .receive(GROUP, NodeReport::Sessions(report))
            .unwrap()
            .memory
    }

    fn hear_as(&self, envoy: &Census, reporter: u64) {
        see(envoy, self.backend(1), 1);
        let report = Report {
            reporter,
            ..envoy.report(now()).unwrap()
        };
        self.registry.receive(GROUP, NodeReport::Sessions(report)).unwrap();
    }

    fn pod(&self, number: u8) -> Option<PodSessions> {
        let pods = self.registry.sessions().pods;
        pods.into_iter().find(|pod| pod.pod == format!("pod-{number}"))
    }
}

fn name(namespace: &str, name: &str) -> ObjectName {
    ObjectName {
        namespace: namespace.into(),
        name: name.into(),
    }
}

fn published<'a>(
    cluster: &'a ClusterName,
    service: &'a ObjectName,
    gateways: &'a [ObjectName],
    bounds: &[u32],
) -> PublishedCluster<'a> {
    let bounds: std::collections::BTreeSet<_> = bounds.iter().copied().collect();
    PublishedCluster {
        cluster,
        service,
        gateways: gateways.iter().map(|gateway| (gateway, bounds.clone())).collect(),
    }
}

fn later(seconds: u64) -> Timestamp {
    now().after(Duration::from_secs(seconds))
}

fn address(number: u8) -> std::net::SocketAddr {
    ([10, 0, 0, number], 80).into()
}

fn endpoint(number: u8, state: EndpointState) -> Endpoint {
    Endpoint {
        address: address(number),
        state,
        owner: None,
        pod: Some(format!("pod-{number}").into()),
    }
}

fn envoy() -> Census {
    Census::new([1; 16], 100)
}

fn see(envoy: &Census, backend: Backend, session: u32) {
    let at = now();
    envoy.record(&ObservedSession {
        backend,
        session: SessionIdentity::Token(session.to_be_bytes()),
        began: at,
        at,
    });
}

/// Whether sessions at the pod are reported but not counted.
fn misses(pod: &PodSessions) -> bool {
    pod.gaps.words().iter().any(|why| why.contains("cannot be counted"))
}

#[test]
fn a_session_that_uses_two_envoys_counts_once() {
    let (shop, envoys) = (Shop::new(), [envoy(), envoy()]);
    for envoy in &envoys {
        see(envoy, shop.backend(1), 1);
        see(envoy, shop.backend(1), 2);
    }
    see(&envoys[1], shop.backend(1), 3);
    let memories = envoys.each_ref().map(|envoy| shop.hear(envoy));
    assert_eq!(memories[0], memories[1]);
    let pod = shop.pod(1).unwrap();
    assert_eq!((pod.sessions, pod.requests), (3, 5));
    assert_eq!((pod.namespace.as_str(), pod.service.as_str()), ("shop", "cart"));
    assert_eq!(shop.pod(2).unwrap().sessions, 0);
}

#[test]
fn a_session_counted_twice_after_a_change_of_the_idle_timeout() {
    let shop = Shop::new();
    shop.observe(&[(1, EndpointState::Ready)]);
    let envoy = envoy();
    let backend = shop.backend(1);
    see(&envoy, backend, 1);
    shop.hear(&envoy);
    for live_for in [60, 6000] {
        shop.publish_for(&["web"], &[live_for]);
        see(&envoy, Backend { live_for, ..backend }, 1);
        see(&envoy, Backend { live_for, ..backend }, 2);
        shop.hear(&envoy);
        assert_eq!(shop.pod(1).unwrap().sessions, 2, "{live_for}");
    }
}

#[test]
fn a_pod_that_is_gone_is_shown_while_it_has_sessions() {
    let (shop, envoy) = (Shop::new(), envoy());
    see(&envoy, shop.backend(1), 1);
    shop.hear(&envoy);
    shop.observe(&[(1, EndpointState::Draining), (2, EndpointState::Ready)]);
    assert_eq!(serde_json::to_value(shop.pod(1).unwrap()).unwrap()["state"], "draining");
    shop.observe(&[]);
    assert_eq!(serde_json::to_value(shop.pod(1).unwrap()).unwrap()["state"], "gone");
    assert_eq!(shop.pod(2), None);
}

#[test]
fn pods_of_a_service_that_no_route_leads_to_are_not_gone() {
    let (shop, envoy) = (Shop::new(), envoy());
    (1..4).for_each(|pod| see(&envoy, shop.backend(pod), 1));
    shop.observe(&[1, 2, 3].map(|pod| (pod, EndpointState::Ready)));
    shop.hear(&envoy);
    shop.observe(&[1, 2].map(|pod| (pod, EndpointState::Ready)));
    assert_eq!(shop.registry.services(), [name("shop", "cart")].into());
    shop.publish_for(&[], &[]);
    let pod = shop.pod(1).unwrap();
    assert_eq!(
        (pod.state, pod.sessions),
        (PodState::Unrouted, 1),
        "its sessions may come back"
    );
    assert_eq!(serde_json::to_value(pod.state).unwrap(), "unrouted");
    assert_eq!(shop.pod(3).unwrap().state, PodState::Gone, "it was before");
    assert_eq!(shop.registry.services(), [].into());
}

#[test]
fn nobody_tells_of_what_its_gateway_does_not_have() {
    let (shop, envoy) = (Shop::new(), envoy());
    let unknown = shop
        .registry
        .receive("shop/other", NodeReport::Sessions(Report::default()));
    assert!(
        unknown.is_err(),
        "an Envoy of a Gateway of which nothing is published is to tell it again"
    );
    // Published for another Gateway, too.
    let cluster = ClusterName("service/shop/list/80".into());
    let (cart, list) = (name("shop", "cart"), name("shop", "list"));
    let (web, other) = ([name("shop", "web")], [name("shop", "other")]);
    let clusters = [
        published(&shop.cluster, &cart, &web, &[600]),
        published(&cluster, &list, &other, &[600]),
    ];
    shop.registry.publish(clusters.into_iter(), std::iter::empty());
    see(&envoy, shop.backend(1), 1);
    // No endpoint of the Service.
    see(&envoy, shop.backend(9), 1);
    let report = envoy.report(now()).unwrap();
    shop.registry
        .receive("shop/other", NodeReport::Sessions(report.clone()))
        .unwrap();
    assert_eq!(shop.pod(1).unwrap().sessions, 0);
    shop.registry.receive(GROUP, NodeReport::Sessions(report)).unwrap();
    assert_eq!(shop.pod(1).unwrap().sessions, 1);
    assert_eq!(shop.pod(9), None);
}

#[test]
fn moves_are_counted_by_what_became_of_the_pod() {
    let (shop, envoy) = (Shop::new(), envoy());
    for state in [Some(EndpointState::Ready), Some(EndpointState::Draining), None] {
        see(&envoy, shop.backend(1), 1);
        shop.hear(&envoy);
        let pods: Vec<_> = state.map(|state| (1, state)).into_iter().collect();
        shop.observe(&pods);
        envoy.record_departure(SessionDeparture::Backend(shop.backend(1)));
        shop.hear(&envoy);
        shop.observe(&[(1, EndpointState::Ready)]);
    }
    envoy.record_departure(SessionDeparture::Moved);
    shop.hear(&envoy);
    // An invented word, and words of the filter for what is no move.
    for reason in ["invented", "steered", "no_token"] {
        let invented = Report {
            restarts: vec![RestartReport {
                reason: reason.to_owned(),
                sessions: 1,
            }],
            ..Report::default()
        };
        shop.registry.receive(GROUP, NodeReport::Sessions(invented)).unwrap();
    }
    let expected = ["drained", "gone", "moved", "unavailable"].map(|reason| (reason.to_owned(), 1));
    assert_eq!(shop.registry.sessions().moves, expected.into());
}

#[test]
fn no_report_makes_a_counter_useless() {
    let (shop, envoy) = (Shop::new(), envoy());
    see(&envoy, shop.backend(1), 1);
    envoy.record_departure(SessionDeparture::Moved);
    let mut report = envoy.report(now()).unwrap();
    report.restarts[0].sessions = u64::MAX;
    report.backends[0].departed = u64::MAX;
    shop.registry.receive(GROUP, NodeReport::Sessions(report)).unwrap();
    let moves: u64 = shop.registry.sessions().moves.values().sum();
    assert!((1..10_000).contains(&moves), "{moves}");
}

#[test]
fn who_asks_within_a_second_gets_what_is_known() {
    let shop = Shop::new();
    let first = shop.registry.recent();
    assert!(Arc::ptr_eq(&first, &shop.registry.clone().recent()));
}

#[test]
fn streams_are_those_of_all_envoys_that_are_there() {
    let shop = Shop::new();
    let load = |in_flight| {
        vec![RequestLoad {
            destination: shop.backend(1).destination,
            host: address(1),
            in_flight,
        }]
    };
    for (stream, in_flight) in [(1, 5), (2, 2), (1, 3)] {
        shop.registry
            .receive(GROUP, NodeReport::Load(stream, load(in_flight)))
            .unwrap();
    }
    assert_eq!(shop.pod(1).unwrap().streams, 5);
    // An Envoy of another Gateway keeps no pod of this one busy.
    shop.registry
        .receive("shop/other", NodeReport::Load(3, load(100)))
        .unwrap();
    assert_eq!(shop.pod(1).unwrap().streams, 5);
    shop.registry.receive(GROUP, NodeReport::Load(1, Vec::new())).unwrap();
    assert_eq!(shop.pod(1).unwrap().streams, 2);
}

#[test]
fn what_is_no_sketch_is_passed_over() {
    let (shop, envoy) = (Shop::new(), envoy());
    see(&envoy, shop.backend(1), 1);
    let good = envoy.report(now()).unwrap();
    for sketch in [vec![], vec![0], vec![1, 3], vec![2, 255], vec![9; 5000]] {
        let mut report = good.clone();
        report.backends[0].windows[0].sketch = sketch;
        shop.registry.receive(GROUP, NodeReport::Sessions(report)).unwrap();
    }
    assert!(shop.pod(1).unwrap().sessions <= 1);
    shop.registry.receive(GROUP, NodeReport::Sessions(good)).unwrap();
    assert_eq!(shop.pod(1).unwrap().sessions, 1);
}

#[test]
fn a_pod_with_too_many_sessions_may_let_some_go() {
    let (shop, envoy) = (Shop::new(), envoy());
    let start = now();
    let later = |seconds| start.after(std::time::Duration::from_secs(seconds));
    for session in 0..60_u32 {
        see(&envoy, shop.backend(1), session.wrapping_mul(0x9e37_79b9));
    }
    shop.hear(&envoy);
    let budgets = |group, seconds| {
        shop.registry
            .content()
            .receive_report(group, Report::default(), later(seconds))
    };
    shop.registry.content().since = Some(Timestamp::UNIX_EPOCH);
    assert_eq!(budgets(GROUP, 0), [], "nobody has asked for it");
    shop.registry.rebalance([&shop.cluster].into_iter());
    assert_eq!(budgets(GROUP, 0), [], "the bucket is empty");
    let sheds = budgets(GROUP, 60);
    let [shed] = &sheds[..] else { panic!("{sheds:?}") };
    let [hosts, targets] = [&shed.hosts, &shed.targets].map(|hosts| {
        let hosts = hosts.iter().map(|host| (host.host(), host.sessions));
        hosts.collect::<Vec<_>>()
    });
    assert_eq!((shed.sessions, hosts), (1, vec![(Some(address(1)), 1)]));
    assert_eq!(targets, [(Some(address(2)), 1)]);
    assert_eq!(budgets("shop/other", 60), [], "these Envoys do not have the Service");
    shop.registry.content().since = Some(start);
    assert_eq!(
        budgets(GROUP, 120),
        [],
        "who left before the controller started is not known yet"
    );
    shop.registry.content().since = Some(Timestamp::UNIX_EPOCH);
    shop.observe(&[(1, EndpointState::Ready), (2, EndpointState::Draining)]);
    assert_eq!(budgets(GROUP, 180), [], "there is no other pod");
    shop.observe(&[1, 2, 3].map(|number| (number, EndpointState::Ready)));
    assert_ne!(budgets(GROUP, 240), []);
    // Since the count, no pod is left that could take one.
    shop.observe(&[
        (1, EndpointState::Ready),
        (2, EndpointState::Draining),
        (4, EndpointState::Ready),
    ]);
    assert_eq!(budgets(GROUP, 240), []);
}

#[test]
fn what_is_former_is_looked_at_until_it_is_forgotten() {
    let (shop, none) = (Shop::new(), HashSet::new());
    let id = ClusterId::of(&shop.cluster);
    let ageing = || shop.registry.content().places.ageing.clone();
    let forget = |lived: &HashSet<_>, now| shop.registry.content().places.forget(lived, now);
    assert!(ageing().is_empty(), "nothing is former");
    shop.observe(&[(1, EndpointState::Ready)]);
    forget(&HashSet::from([(id, address(2))]), now());
    assert!(ageing().contains(&id), "a pod that is gone has sessions");
    assert!(shop.registry.content().places.has((id, address(2))));
    forget(&none, now());
    assert!(ageing().is_empty(), "it has none");
    assert!(!shop.registry.content().places.has((id, address(2))));
    shop.publish_for(&["web"], &[60]);
    forget(&none, now());
    assert_eq!(
        shop.registry.content().places.longest(id),
        600,
        "an Envoy may have the bound"
    );
    forget(&none, later(10_000));
    assert_eq!(shop.registry.content().places.longest(id), 60);
    assert!(ageing().is_empty(), "no Envoy has it");
    shop.publish_for(&[], &[]);
    forget(&none, later(20_000));
    assert_eq!(
        shop.registry.content().places.published().count(),
        0,
        "no cluster leads there"
    );
    assert!(ageing().is_empty());
}

#[test]
fn a_report_whose_answer_was_lost_counts_once() {
    let (shop, envoy) = (Shop::new(), envoy());
    see(&envoy, shop.backend(1), 1);
    envoy.record_departure(SessionDeparture::Backend(shop.backend(1)));
    envoy.record_departure(SessionDeparture::Moved);
    let report = |envoy: &Census| envoy.next_report(GROUP, &mut 0, now()).unwrap();
    let counted = || {
        let moves = shop.registry.sessions().moves.into_values().sum::<u64>();
        (shop.pod(1).unwrap().requests, moves)
    };
    let first = report(&envoy);
    for _ in 0..2 {
        shop.registry
            .receive(GROUP, NodeReport::Sessions((*first).clone()))
            .unwrap();
        assert_eq!(counted(), (1, 2));
    }
    envoy.report_failed();
    let answer = shop
        .registry
        .receive(GROUP, NodeReport::Sessions((*report(&envoy)).clone()))
        .unwrap();
    assert_eq!(counted(), (1, 2));
    envoy.receive(&answer, now());
    see(&envoy, shop.backend(1), 1);
    shop.registry
        .receive(GROUP, NodeReport::Sessions((*report(&envoy)).clone()))
        .unwrap();
    assert_eq!(counted(), (2, 2));
}
