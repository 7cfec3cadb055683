//! Envoys that lie, clocks that are wrong, and names that collide.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use limpet_core::census::report::{BackendReport, RebalancedReport, WindowReport};

use super::*;
use crate::cluster::looked;
use crate::cluster::sessions::ledger::SessionLedger;
use limpet_model::endpoints::Endpoint;

const OTHER: &str = "shop/other";

/// The Service is another Gateway's, too.
fn of_two_gateways() -> Shop {
    let shop = Shop::new();
    shop.publish_for(&["web", "other"], &[600]);
    shop
}

fn with_sessions(sessions: u32) -> (Shop, Census) {
    let (shop, envoy) = (of_two_gateways(), envoy());
    for session in 0..sessions {
        see(&envoy, shop.backend(1), session);
    }
    shop.hear(&envoy);
    (shop, envoy)
}

fn nothing_of(backend: Backend) -> Report {
    let of_backend = BackendReport {
        last_use: now().unix_millis(),
        ..BackendReport::new(backend)
    };
    Report {
        backends: vec![of_backend],
        ..Report::default()
    }
}

/// Publishes a Service in another namespace, for a Gateway there, with these pods and their uids.
fn show(shop: &Shop, namespace: &str, pods: &[(u8, &str)]) -> ClusterName {
    let cluster = ClusterName(format!("service/{namespace}/evil/80").into());
    let (service, gateways) = (name(namespace, "evil"), [name(namespace, "evil")]);
    let all = [published(&cluster, &service, &gateways, &[600])];
    shop.registry.publish(all.into_iter(), std::iter::empty());
    let endpoints = pods.iter().map(|(number, uid)| Endpoint {
        owner: Some((*uid).into()),
        ..endpoint(*number, EndpointState::Ready)
    });
    shop.registry.observe(&cluster, &endpoints.collect::<Vec<_>>());
    cluster
}

#[test]
fn an_invented_uid_keeps_no_pod_of_another_namespace() {
    let (shop, envoy) = (Shop::new(), envoy());
    let owned = Endpoint {
        owner: Some("one".into()),
        ..endpoint(1, EndpointState::Ready)
    };
    shop.registry.observe(&shop.cluster, std::slice::from_ref(&owned));
    see(&envoy, shop.backend(1), 1);
    shop.hear(&envoy);
    // Its own pod, with the uids of the victim and of no pod.
    let evil = show(&shop, "evil", &[(1, "invented"), (9, "invented"), (8, "one")]);
    let destination = DestinationId::of_cluster(evil.0.as_bytes());
    let busy = |number| Backend::new(destination, address(number), Duration::from_secs(600));
    let evil_envoy = Census::new([2; 16], 100);
    for number in [1, 8, 9] {
        (0..50).for_each(|session| see(&evil_envoy, busy(number), session));
    }
    shop.registry
        .receive("evil/evil", NodeReport::Sessions(evil_envoy.report(now()).unwrap()))
        .unwrap();
    let own = |namespace| shop.registry.at(address(1).ip(), namespace);
    assert_eq!(own(Some("shop")).sessions, 1);
    assert_eq!(own(Some("shop")).gaps, shop.pod(1).unwrap().gaps);
    assert!(own(Some("shop")).known && !own(Some("other")).known);
    // A pod without a namespace waits for what is shown of its address, not for what else has the uid.
    assert_eq!(own(None).sessions, 1 + 50 + 50);
    // The victim is no endpoint any more, but has sessions.
    shop.observe(&[(2, EndpointState::Ready)]);
    for namespace in [Some("shop"), None] {
        assert!(own(namespace).sessions >= 1, "{namespace:?}");
    }
    assert_eq!(own(Some("shop")).sessions, 1);
}

#[test]
fn a_pod_that_asks_for_itself_made_the_controller_look_at_all_pods() {
    let shop = Shop::new();
    let pods: Vec<_> = (10..200).map(|number| (number, "pod")).collect();
    show(&shop, "other", &pods);
    let owned = |number| Endpoint {
        owner: Some("one".into()),
        ..endpoint(number, EndpointState::Ready)
    };
    shop.registry.observe(&shop.cluster, &[owned(1), owned(2)]);
    looked::take_count();
    for number in [1, 10, 250] {
        shop.registry.at(address(number).ip(), Some("shop"));
    }
    shop.registry.at(address(1).ip(), None);
    assert_eq!(looked::take_count(), 2 + 2, "the pods of its own namespace");
}

#[test]
fn idle_bounds_that_no_policy_has_are_not_taken_in() {
    let (shop, honest) = (of_two_gateways(), envoy());
    for less in 0..16 {
        let backend = Backend {
            live_for: u32::MAX - less,
            ..shop.backend(1)
        };
        shop.registry
            .receive(OTHER, NodeReport::Sessions(nothing_of(backend)))
            .unwrap();
    }
    (0..50).for_each(|session| see(&honest, shop.backend(1), session));
    shop.hear(&honest);
    let pod = shop.pod(1).unwrap();
    assert_eq!((pod.sessions, misses(&pod)), (50, true));
    // At most for the longest idle bound of the policies.
    let ledger = &mut shop.registry.content().ledger;
    ledger.forget(later(605));
    assert!(ledger.hosts().is_empty());
}

#[test]
fn a_report_of_others_that_live_for_ever_made_counts_incomplete_for_ever() {
    let (shop, envoy) = with_sessions(1);
    let others = Backend {
        live_for: u32::MAX,
        ..Backend::OTHERS
    };
    shop.registry
        .receive(OTHER, NodeReport::Sessions(nothing_of(others)))
        .unwrap();
    drop(envoy);
    let has_gap = |now| {
        let content = shop.registry.content();
        let gaps = content.attendance.gaps_of(OTHER, now);
        gaps.words().iter().any(|words| words.contains("at more backends"))
    };
    assert!(has_gap(now()));
    // The longest idle timeout of the Gateway is 600 s.
    assert!(!has_gap(later(605)));
}

#[test]
fn all_idle_bounds_that_policies_have_count() {
    let (shop, envoy) = (Shop::new(), envoy());
    let bounds: Vec<u32> = (600..640).collect();
    shop.publish_for(&["web"], &bounds);
    for live_for in &bounds {
        let backend = Backend {
            live_for: *live_for,
            ..shop.backend(1)
        };
        see(&envoy, backend, *live_for);
    }
    shop.hear(&envoy);
    let pod = shop.pod(1).unwrap();
    assert_eq!((pod.sessions, misses(&pod)), (40, false));
}

#[test]
fn a_former_idle_bound_counts_while_an_envoy_may_have_it() {
    let (shop, envoy) = (Shop::new(), envoy());
    shop.publish_for(&["web"], &[60]);
    let found = |seconds| {
        let found = shop
            .registry
            .content()
            .places
            .resolve(GROUP, shop.backend(1), later(seconds));
        found[0].has_bound
    };
    assert!(found(0) && found(590) && !found(610));
    see(&envoy, shop.backend(1), 1);
    shop.hear(&envoy);
    assert_eq!(shop.pod(1).unwrap().sessions, 1);
    shop.publish_for(&["web"], &[600]);
    assert!(found(10_000));
}

#[test]
fn nobody_keeps_a_pod_that_is_gone() {
    let (shop, envoy) = with_sessions(3);
    shop.observe(&[(2, EndpointState::Ready)]);
    see(&envoy, shop.backend(1), 1);
    shop.hear(&envoy);
    assert_eq!(shop.pod(1).unwrap().sessions, 3);
    // Reports that it was used, again and again.
    let content = &mut *shop.registry.content();
    for minutes in 1..30 {
        let mut report = nothing_of(shop.backend(1));
        report.backends[0].last_use = u64::MAX;
        content.receive_report(OTHER, report, later(minutes * 60));
    }
    content.ledger.forget(later(605));
    assert!(content.ledger.hosts().is_empty());
}

#[test]
fn what_there_is_no_room_for_is_not_nothing() {
    let (shop, envoy) = (Shop::new(), envoy());
    shop.registry.content().ledger = SessionLedger::with_room(2_000);
    for number in 1..=2 {
        (0..100).for_each(|session| see(&envoy, shop.backend(number), session));
    }
    shop.hear(&envoy);
    let pods = [shop.pod(1).unwrap(), shop.pod(2).unwrap()];
    let mut known = pods.each_ref().map(|pod| (pod.sessions, misses(pod)));
    known.sort_unstable();
    assert_eq!(known, [(0, true), (100, false)]);
}

#[test]
fn a_tenant_with_many_pods_leaves_others_their_share() {
    let shop = Shop::new();
    shop.registry.content().ledger = SessionLedger::with_room(100_000);
    let pods: Vec<(u8, &str)> = (1..=200).map(|number| (number, "pod")).collect();
    let many = show(&shop, "many", &pods);
    let destination = DestinationId::of_cluster(many.0.as_bytes());
    let hog = Census::new([2; 16], 1000);
    for (number, _) in &pods {
        let backend = Backend::new(destination, address(*number), Duration::from_secs(600));
        (0..500).for_each(|session| see(&hog, backend, session));
    }
    let of_hog = |shop: &Shop| {
        while let Some(report) = hog.report(now()) {
            shop.registry
                .receive("many/evil", NodeReport::Sessions(report))
                .unwrap();
        }
    };
    of_hog(&shop);
    let honest = envoy();
    (0..50).for_each(|session| see(&honest, shop.backend(1), session));
    shop.hear(&honest);
    let pod = shop.pod(1).unwrap();
    let rows = shop.registry.sessions().pods;
    let uncounted = rows.iter().filter(|row| row.namespace == "many" && misses(row)).count();
    assert!(
        (1..200).contains(&uncounted),
        "the other namespace has more than its share: {uncounted}"
    );
    let of_shop = rows.iter().find(|row| row.namespace == "shop" && row.sessions > 0);
    assert_eq!(
        of_shop.map(|row| (row.sessions, misses(row))),
        Some((50, false)),
        "{pod:?}"
    );
}

#[test]
fn numbers_do_not_overflow() {
    let shop = Shop::new();
    let two = [1, 9].map(|number| Endpoint {
        pod: Some("pod-1".into()),
        owner: Some("u".into()),
        ..endpoint(number, EndpointState::Ready)
    });
    shop.registry.observe(&shop.cluster, &two);
    for (stream, number, in_flight) in [(1, 1, 7), (2, 9, u64::MAX - 6)] {
        let load = RequestLoad {
            destination: shop.backend(1).destination,
            host: address(number),
            in_flight,
        };
        shop.registry
            .receive(GROUP, NodeReport::Load(stream, vec![load]))
            .unwrap();
        let mut report = nothing_of(shop.backend(number));
        report.backends[0].requests = u64::MAX - 1;
        report.backends[0].departed = u64::MAX - 1;
        report.backends[0].rebalanced = vec![
            RebalancedReport {
                number: u64::MAX,
                sessions: u64::MAX
            };
            2
        ];
        report.backends[0].windows = vec![WindowReport {
            number: u64::MAX,
            oldest: u64::MAX,
            sketch: vec![0, 0],
        }];
        shop.registry.receive(GROUP, NodeReport::Sessions(report)).unwrap();
    }
    shop.registry.rebalance([&shop.cluster].into_iter());
    shop.registry
        .receive(GROUP, NodeReport::Sessions(Report::default()))
        .unwrap();
    let pod = shop.pod(1).unwrap();
    assert_eq!((pod.streams, pod.requests), (u64::MAX, u64::MAX));
}

#[test]
fn an_envoy_whose_clock_is_ahead_sees_sessions_now() {
    let (shop, envoy) = (Shop::new(), envoy());
    let at = later(7200);
    envoy.record(&ObservedSession {
        backend: shop.backend(1),
        session: SessionIdentity::Token([7; 4]),
        began: at,
        at,
    });
    shop.hear(&envoy);
    let pod = shop.pod(1).unwrap();
    assert_eq!((pod.sessions, misses(&pod)), (1, false));
    assert!(pod.last_use <= Some(now()));
}

#[test]
fn sessions_that_an_envoy_sees_in_the_past_are_missing() {
    let (shop, envoy) = (Shop::new(), envoy());
    let at = Timestamp::from_unix_millis(now().unix_millis() - 7_200_000);
    envoy.record(&ObservedSession {
        backend: shop.backend(1),
        session: SessionIdentity::Token([7; 4]),
        began: at,
        at,
    });
    shop.hear(&envoy);
    assert!(misses(&shop.pod(1).unwrap()));
    assert!(!misses(&shop.pod(2).unwrap()));
}

#[test]
fn a_clock_that_was_set_lets_envoys_tell_everything_again() {
    let (shop, envoy) = with_sessions(50);
    let (content, start) = (&mut *shop.registry.content(), Instant::now());
    let memory = content.memory;
    let wants = content.forgot;
    let at = |seconds| start + Duration::from_secs(seconds);
    content.observe_clock(later(1), at(1));
    content.observe_clock(later(63), at(60));
    assert_eq!(content.memory, memory, "a clock that is slewed");
    // A day ahead for a moment, during which the registry is read.
    content.observe_clock(later(86_400), at(61));
    assert!(content.memory < memory);
    let ahead = content.memory;
    content.forget(later(86_400));
    assert_eq!(
        content
            .ledger
            .summary((ClusterId::of(&shop.cluster), address(1)), now())
            .sessions,
        50
    );
    content.observe_clock(later(63), at(63));
    assert!(content.memory < ahead);
    assert_eq!(content.forgot, wants + 2);
    assert!(envoy.report(now()).is_none());
    envoy.receive(&answer(memory), now());
    envoy.receive(&answer(content.memory), now());
    assert!(envoy.report(now()).is_some());
    // Nothing seems to have been used after now.
    content.observe_clock(later(70), at(70));
    content.forget(later(130));
    content.observe_clock(later(130), at(130));
    content.forget(later(670));
    assert!(content.ledger.hosts().is_empty());
}

fn answer(memory: u64) -> ReportResponse {
    ReportResponse {
        memory,
        ..ReportResponse::default()
    }
}

/// Four bytes are too few. Sixteen are not.
#[test]
fn a_cluster_whose_hash_is_that_of_another_takes_nobodys_place() {
    let mut names = HashMap::new();
    let (evil, victim) = (0..)
        .find_map(|number| {
            let [evil, victim] = ["evil", "shop"].map(|namespace| format!("service/{namespace}/s{number}/80"));
            names.insert(DestinationId::of_cluster(evil.as_bytes()), evil);
            let collides = names.get(&DestinationId::of_cluster(victim.as_bytes()))?;
            Some((ClusterName(collides.as_str().into()), ClusterName(victim.into())))
        })
        .unwrap();
    let (registry, honest) = (SessionRegistry::new(), envoy());
    let (cart, bad) = (name("shop", "cart"), name("evil", "bad"));
    let (web, other) = ([name("shop", "web")], [name("shop", "other")]);
    let clusters = [
        published(&evil, &bad, &other, &[600]),
        published(&victim, &cart, &web, &[600]),
    ];
    registry.publish(clusters.into_iter(), std::iter::empty());
    registry.observe(&victim, &[endpoint(1, EndpointState::Ready)]);
    // It has the victim's address, too.
    registry.observe(
        &evil,
        &[endpoint(1, EndpointState::Ready), endpoint(66, EndpointState::Ready)],
    );
    let destination = DestinationId::of_cluster(victim.0.as_bytes());
    let backend = Backend::new(destination, address(1), Duration::from_secs(600));
    see(&honest, backend, 1);
    let report = honest.report(now()).unwrap();
    registry.receive(GROUP, NodeReport::Sessions(report)).unwrap();
    (2..9).for_each(|session| see(&honest, backend, session));
    registry
        .receive(OTHER, NodeReport::Sessions(honest.report(now()).unwrap()))
        .unwrap();
    let rows = || {
        let pods = registry.sessions().pods.into_iter();
        pods.map(|pod| (pod.service, pod.pod, pod.sessions)).collect::<Vec<_>>()
    };
    let row = |service: &str, pod: &str, sessions| (service.to_owned(), pod.to_owned(), sessions);
    // The second report has all sessions of the window.
    let expected = [row("bad", "pod-1", 8), row("bad", "pod-66", 0), row("cart", "pod-1", 1)];
    assert_eq!(rows(), expected);
    let both = [
        published(&evil, &bad, &web, &[600]),
        published(&victim, &cart, &web, &[600]),
    ];
    registry.publish(both.into_iter(), std::iter::empty());
    registry.observe(&victim, &[endpoint(1, EndpointState::Ready)]);
    registry.observe(&evil, &[endpoint(66, EndpointState::Ready)]);
    see(&honest, backend, 10);
    registry
        .receive(GROUP, NodeReport::Sessions(honest.report(now()).unwrap()))
        .unwrap();
    assert_eq!(rows().last(), Some(&row("cart", "pod-1", 9)));
}

fn budget(shop: &Shop, group: &str, reporter: u64, seconds: u64) -> u32 {
    let report = Report {
        reporter,
        ..Report::default()
    };
    let sheds = shop.registry.content().receive_report(group, report, later(seconds));
    sheds.iter().map(|shed| shed.sessions).sum()
}

#[test]
fn a_gateway_evens_out_its_own_sessions_alone() {
    let (shop, _) = with_sessions(110);
    shop.registry.rebalance([&shop.cluster].into_iter());
    shop.registry.content().since = Some(Timestamp::UNIX_EPOCH);
    // Another Gateway's Envoy reports 20,000 on the same pod.
    let inflated = envoy();
    for session in 0..20_000_u32 {
        see(&inflated, shop.backend(1), session.wrapping_mul(0x9e37_79b9));
    }
    let report = inflated.report(now()).unwrap();
    shop.registry.receive(OTHER, NodeReport::Sessions(report)).unwrap();
    assert_eq!(budget(&shop, GROUP, 1, 0), 0, "the bucket is empty");
    assert_eq!(
        budget(&shop, GROUP, 1, 60),
        1,
        "eleven in a minute, and a seventh of these at once"
    );
    assert!(budget(&shop, OTHER, 2, 60) > 100);
}

/// Takes seconds: an Envoy pretends to be 5,000.
#[test]
fn reporters_of_another_gateway_leave_what_is_there() {
    let (shop, _) = with_sessions(110);
    shop.registry.rebalance([&shop.cluster].into_iter());
    shop.registry.content().since = Some(Timestamp::UNIX_EPOCH);
    budget(&shop, GROUP, 1, 0);
    for reporter in 2..5000 {
        budget(&shop, OTHER, reporter, 60);
    }
    assert_eq!(budget(&shop, GROUP, 1, 60), 1);
}

/// A report with so many unknown backends.
fn invented(shop: &Shop, count: u16) -> Report {
    let backend = |port| Backend {
        host: ([10, 0, 9, 9], port).into(),
        ..shop.backend(1)
    };
    let reports = (1..=count).map(|port| nothing_of(backend(port)).backends);
    Report {
        backends: reports.flatten().collect(),
        ..Report::default()
    }
}

/// With 1,000 places for all Gateways, one Gateway's certificate could take all, and keep all drains waiting.
#[test]
fn backends_that_one_gateway_invents_hide_no_sessions_of_another() {
    let (shop, envoy) = (Shop::new(), envoy());
    let list = ClusterName("service/shop/list/80".into());
    let (service, other) = (name("shop", "list"), [name("shop", "other")]);
    let of_other = published(&list, &service, &other, &[600]);
    shop.registry.publish([of_other].into_iter(), std::iter::empty());
    for _ in 0..2 {
        shop.registry
            .receive(OTHER, NodeReport::Sessions(invented(&shop, 2000)))
            .unwrap();
        shop.observe(&[(1, EndpointState::Ready), (2, EndpointState::Ready)]);
    }
    let gaps = |pod: u8| shop.pod(pod).unwrap().gaps.words().join(" ").replace("15 s", "");
    assert!(!gaps(1).contains("Gateway"), "{}", gaps(1));

    (0..50).for_each(|session| see(&envoy, shop.backend(3), session));
    let answer = shop
        .registry
        .receive(GROUP, NodeReport::Sessions(envoy.report(now()).unwrap()))
        .unwrap();
    envoy.receive(&answer, now());
    shop.observe(&[(1, EndpointState::Ready), (3, EndpointState::Ready)]);
    assert!(
        gaps(3).contains("the Gateway shop/web told of a pod before"),
        "{}",
        gaps(3)
    );
    see(&envoy, shop.backend(3), 1);
    let answer = shop
        .registry
        .receive(GROUP, NodeReport::Sessions(envoy.report(now()).unwrap()))
        .unwrap();
    envoy.receive(&answer, now());
    shop.hear(&envoy);
    assert_eq!(shop.pod(3).unwrap().sessions, 50);
}

#[test]
fn gateways_of_one_namespace_kept_any_number_of_unknown_backends() {
    let shop = Shop::new();
    let report = invented(&shop, 900);
    let content = &mut *shop.registry.content();
    let (places, strays, now) = (&content.places, &mut content.attendance.strays, now());
    for gateway in [
        "greedy/1",
        "greedy/2",
        "greedy/3",
        "greedy/4",
        "greedy/5",
        "greedy-too/1",
    ] {
        strays.record(gateway, &report, places, now);
    }
    let has_gap = |gateway: &&str| !strays.gaps(gateway, now).is_complete();
    let gaps: Vec<&str> = ["greedy/4", "greedy/5", "greedy-too/1"]
        .into_iter()
        .filter(has_gap)
        .collect();
    assert_eq!(gaps, ["greedy/5"]);
}

#[test]
fn more_unknown_backends_than_are_kept_are_a_gap_until_their_sessions_are_over() {
    let shop = Shop::new();
    shop.registry
        .receive(GROUP, NodeReport::Sessions(invented(&shop, 1001)))
        .unwrap();
    let is_told = || {
        shop.pod(1)
            .unwrap()
            .gaps
            .words()
            .iter()
            .any(|why| why.contains("more backends than"))
    };
    assert!(is_told());
    // None of them becomes known without news.
    shop.observe(&[(1, EndpointState::Ready), (2, EndpointState::Ready)]);
    assert!(is_told());
    let content = &mut *shop.registry.content();
    let strays = &mut content.attendance.strays;
    strays.forget(&content.places, later(599));
    assert!(!strays.gaps(GROUP, later(599)).is_complete());
    strays.forget(&content.places, later(601));
    assert!(strays.gaps(GROUP, later(601)).is_complete());
}

#[test]
fn a_new_pod_may_be_one_of_those_that_had_no_room() {
    let (shop, envoy) = (Shop::new(), envoy());
    shop.registry
        .receive(GROUP, NodeReport::Sessions(invented(&shop, 1000)))
        .unwrap();
    see(&envoy, shop.backend(3), 1);
    let memory = shop.hear(&envoy);
    shop.observe(&[(1, EndpointState::Ready), (3, EndpointState::Ready)]);
    see(&envoy, shop.backend(1), 1);
    assert_ne!(shop.hear(&envoy), memory);
    // A Gateway that always has too many is not asked all the time.
    let asked = || shop.registry.content().attendance.strays.resync_requests(GROUP);
    let before = asked();
    for pod in 4..40 {
        shop.registry
            .receive(GROUP, NodeReport::Sessions(invented(&shop, 1001)))
            .unwrap();
        shop.observe(&[(pod, EndpointState::Ready)]);
    }
    assert_eq!(asked(), before);
}

#[test]
fn another_replica_tells_that_a_pod_was_unknown() {
    let (shop, other, envoy) = (Shop::new(), Shop::new(), envoy());
    see(&envoy, shop.backend(3), 1);
    shop.hear(&envoy);
    shop.observe(&[(3, EndpointState::Ready)]);
    other
        .registry
        .receive_replica("shop", shop.registry.replica(ChangesAfter::default()))
        .unwrap();
    let gaps = other.pod(1).unwrap().gaps;
    assert!(
        gaps.words().iter().any(|why| why.contains("told another replica")),
        "{gaps:?}"
    );
    // Its Envoy, which was not asked yet, may go to the other replica.
    see(&envoy, other.backend(1), 2);
    let asked = shop.registry.content().attendance.resync_requests(GROUP);
    assert_eq!(
        (asked, other.registry.content().attendance.resync_requests(GROUP)),
        (1, 1)
    );
    let memory = other.registry.content().memory;
    assert_ne!(other.hear(&envoy), memory);
}

/// A Service of another tenant with the same hash ended sessions on a pod.
#[test]
fn what_budgets_cannot_tell_apart_has_none() {
    let twins = ["service/shop/s54211/80", "service/shop/s144659/80"].map(|base| ClusterName(base.into()));
    let registry = SessionRegistry::new();
    let (services, web) = (["a", "b"].map(|service| name("shop", service)), [name("shop", "web")]);
    let pods = [endpoint(1, EndpointState::Ready), endpoint(2, EndpointState::Ready)];
    let publish = |index: usize, gateways: &[ObjectName]| {
        let cluster = &twins[index];
        let given = published(cluster, &services[index], gateways, &[600]);
        registry.publish([given].into_iter(), [(cluster, &pods[..])].into_iter());
    };
    publish(0, &web);
    let (envoy, destination) = (envoy(), twins[0].destination());
    for session in 0..60_u32 {
        let backend = Backend::new(destination, address(1), Duration::from_secs(600));
        see(&envoy, backend, session.wrapping_mul(0x9e37_79b9));
    }
    registry
        .receive(GROUP, NodeReport::Sessions(envoy.report(now()).unwrap()))
        .unwrap();
    registry.content().since = Some(Timestamp::UNIX_EPOCH);
    registry.rebalance(twins.iter());
    let budgets = |seconds| {
        registry
            .content()
            .receive_report(GROUP, Report::default(), later(seconds))
            .len()
    };
    assert_eq!((budgets(0), budgets(60)), (0, 1));
    publish(1, &web);
    assert_eq!(budgets(120), 0);
    publish(1, &[]);
    assert_eq!(budgets(180), 1);
}
