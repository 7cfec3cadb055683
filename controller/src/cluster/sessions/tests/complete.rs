//! Completeness of counts, by pod and Gateway.

use std::net::SocketAddr;

use super::*;

fn of_pod(name: &str, uid: &str, address: SocketAddr) -> Endpoint {
    Endpoint {
        address,
        state: EndpointState::Ready,
        owner: Some(uid.into()),
        pod: Some(name.into()),
    }
}

/// The replica has published long ago.
fn settle(shop: &Shop) {
    shop.registry.content().attendance = ReporterAttendance::default();
    shop.registry.content().attendance.publish(Timestamp::UNIX_EPOCH);
}

#[test]
fn a_pod_that_is_made_anew_does_not_inherit_sessions() {
    let (shop, envoy) = (Shop::new(), envoy());
    shop.registry
        .observe(&shop.cluster, &[of_pod("shop-0", "u1", address(1))]);
    for session in 0..5 {
        see(&envoy, shop.backend(1), session);
    }
    shop.hear(&envoy);
    assert_eq!(shop.registry.at(address(1).ip(), None).sessions, 5);
    shop.registry
        .observe(&shop.cluster, &[of_pod("shop-0", "u2", address(9))]);
    see(&envoy, shop.backend(9), 77);
    shop.hear(&envoy);
    let rows = shop.registry.sessions().pods;
    let rows: Vec<_> = rows
        .iter()
        .map(|row| (row.uid.as_deref().unwrap(), row.address, row.state, row.sessions))
        .collect();
    let expected = [
        ("u1", address(1), PodState::Gone, 5),
        ("u2", address(9), PodState::Ready, 1),
    ];
    assert_eq!(rows, expected);
    for (number, sessions) in [(1, 5), (9, 1)] {
        let own = shop.registry.at(address(number).ip(), None);
        assert_eq!((own.known, own.sessions), (true, sessions));
    }
    // The next pod has the former one's address.
    shop.registry
        .observe(&shop.cluster, &[of_pod("shop-0", "u3", address(1))]);
    let own = shop.registry.at(address(1).ip(), None);
    assert_eq!((own.known, own.sessions), (true, 5), "it may still get their requests");
}

#[test]
fn a_pod_is_known_by_each_of_its_addresses() {
    let (shop, envoy) = (Shop::new(), envoy());
    let other: SocketAddr = "[fd00::9]:80".parse().unwrap();
    let both = [of_pod("pod-1", "u1", address(1)), of_pod("pod-1", "u1", other)];
    shop.registry.observe(&shop.cluster, &both);
    see(&envoy, shop.backend(1), 1);
    see(&envoy, shop.backend(1), 2);
    see(
        &envoy,
        Backend {
            host: other,
            ..shop.backend(1)
        },
        3,
    );
    shop.hear(&envoy);
    assert_eq!(shop.registry.sessions().pods.len(), 1);
    for address in [address(1), other] {
        let own = shop.registry.at(address.ip(), None);
        assert_eq!((own.known, own.sessions), (true, 3), "{address}");
    }
    let unknown = shop.registry.at(address(3).ip(), None);
    assert!(!unknown.known && unknown.sessions == 0);
}

#[test]
fn rows_say_why_there_may_be_more() {
    let (shop, envoy) = (Shop::new(), envoy());
    see(&envoy, shop.backend(1), 1);
    shop.hear(&envoy);
    let gaps = |shop: &Shop| {
        let sessions = shop.registry.sessions();
        let own = shop.registry.at(address(1).ip(), None).gaps;
        assert_eq!(own, shop.pod(1).unwrap().gaps);
        assert_eq!(own, sessions.gaps);
        own
    };
    assert!(gaps(&shop).words()[0].contains("has just started"));
    settle(&shop);
    assert!(gaps(&shop).is_complete());
    let two = [1, 2].into();
    shop.registry
        .content()
        .attendance
        .connect([(GROUP.to_owned(), two)].into());
    shop.hear_as(&envoy, 5);
    let found = gaps(&shop);
    assert_eq!(
        found.words(),
        ["2 Envoys of the Gateway shop/web are connected, and 1 tell of sessions"]
    );
    let json = serde_json::to_value(shop.registry.sessions()).unwrap();
    assert_eq!(
        (&json["complete"], &json["why"][0]),
        (&false.into(), &found.words()[0].into())
    );
    assert_eq!(json["pods"][0]["complete"], false);
    shop.hear_as(&envoy, 6);
    assert!(gaps(&shop).is_complete());
    let json = serde_json::to_value(shop.registry.sessions()).unwrap();
    assert!(json["complete"] == true && json.get("why").is_none(), "{json}");
}

#[test]
fn counting_begins_with_the_first_publication_of_any_replica() {
    let empty = SessionRegistry::new();
    assert_eq!(empty.sessions().since, None);
    assert!(!empty.at(address(1).ip(), None).gaps.is_complete());
    let (shop, told) = (Shop::new(), empty.replica(ChangesAfter::default()));
    let since = shop.registry.sessions().since;
    shop.registry.receive_replica("empty", told).unwrap();
    assert_eq!((shop.registry.sessions().since, since.is_some()), (since, true));
    empty
        .receive_replica("shop", shop.registry.replica(ChangesAfter::default()))
        .unwrap();
    assert_eq!(empty.sessions().since, since);
    let gaps = empty.sessions().gaps;
    assert_eq!(gaps.words(), ["the controller has published nothing yet"], "itself");
}

#[test]
fn what_is_told_of_a_pod_before_it_is_known_is_asked_for_again() {
    let (shop, envoy) = (Shop::new(), envoy());
    settle(&shop);
    let hear = || {
        let report = envoy.report(now())?;
        let answer = shop.registry.receive(GROUP, NodeReport::Sessions(report)).unwrap();
        envoy.receive(&answer, now());
        Some(answer.memory)
    };
    see(&envoy, shop.backend(1), 1);
    see(&envoy, shop.backend(3), 2);
    let memory = hear().unwrap();
    shop.observe(&[(1, EndpointState::Ready), (2, EndpointState::Ready)]);
    assert!(shop.registry.sessions().gaps.is_complete());
    shop.observe(&[(1, EndpointState::Ready), (3, EndpointState::Ready)]);
    assert_eq!(shop.pod(3).unwrap().sessions, 0);
    let gaps = shop.pod(3).unwrap().gaps;
    assert!(gaps.words()[0].contains("tell everything again"), "{gaps:?}");
    see(&envoy, shop.backend(1), 1);
    assert_ne!(hear().unwrap(), memory);
    hear();
    assert_eq!(shop.pod(3).unwrap().sessions, 1);
    assert_eq!(shop.pod(1).unwrap().sessions, 1);
}

#[test]
fn streams_outlive_the_report_of_them_for_a_while() {
    let shop = Shop::new();
    let load = RequestLoad {
        destination: shop.backend(1).destination,
        host: address(1),
        in_flight: 2,
    };
    shop.registry.receive(GROUP, NodeReport::Load(7, vec![load])).unwrap();
    shop.registry.receive(GROUP, NodeReport::LoadEnds(7)).unwrap();
    assert_eq!(shop.pod(1).unwrap().streams, 2, "the Envoy opens another one");
    let later = |seconds| now().after(std::time::Duration::from_secs(seconds));
    shop.registry.content().ledger.forget_loads(later(13));
    assert_eq!(shop.pod(1).unwrap().streams, 2);
    shop.registry.content().ledger.forget_loads(later(16));
    assert_eq!(shop.pod(1).unwrap().streams, 0);
}

#[test]
fn a_pod_is_told_what_lives_there_and_nothing_else() {
    let (shop, envoy) = (Shop::new(), envoy());
    see(&envoy, shop.backend(1), 1);
    see(&envoy, shop.backend(2), 2);
    see(&envoy, shop.backend(2), 3);
    shop.hear(&envoy);
    let load = RequestLoad {
        destination: shop.backend(2).destination,
        host: address(2),
        in_flight: 5,
    };
    shop.registry.receive(GROUP, NodeReport::Load(1, vec![load])).unwrap();
    for number in [1, 2] {
        let (own, row) = (shop.registry.at(address(number).ip(), None), shop.pod(number).unwrap());
        assert_eq!(
            (own.known, own.sessions, own.streams),
            (true, row.sessions, row.streams)
        );
    }
    assert!(!shop.registry.at(address(3).ip(), None).known);
    // A gone pod is known as long as it has sessions.
    shop.registry.receive(GROUP, NodeReport::Load(1, Vec::new())).unwrap();
    shop.observe(&[(3, EndpointState::Ready)]);
    assert_eq!(shop.registry.at(address(2).ip(), None).sessions, 2);
    shop.observe(&[(1, EndpointState::Ready)]);
    assert!(!shop.registry.at(address(3).ip(), None).known);
}
