use limpet_core::census::{SessionDeparture, sub_window};
use limpet_core::keyring::{KeyEntry, KeyId, KeyState, Seals, Secret};
use tokio::sync::watch;

use super::*;
use crate::cluster::reconcile::keyring::PublishedKeys;

/// Exchanges news between replicas until there are none. Returns how many answers that took.
fn exchange(one: &Shop, two: &Shop) -> usize {
    let mut known = [ChangesAfter::default(), ChangesAfter::default()];
    for rounds in 0..10 {
        let told = [one.registry.replica(known[0]), two.registry.replica(known[1])];
        if rounds > 0 && told.iter().all(|told| told.accounts.is_empty()) {
            return rounds;
        }
        known = told.each_ref().map(|told| ChangesAfter {
            process: told.process,
            changes: told.changes,
        });
        let [of_one, of_two] = told;
        assert_eq!(one.registry.receive_replica("two", of_two), Ok(true));
        assert_eq!(two.registry.receive_replica("one", of_one), Ok(true));
    }
    panic!("they never stop telling each other");
}

#[test]
fn replicas_know_together_what_envoys_told_each() {
    let (one, two, envoys) = (Shop::new(), Shop::new(), [envoy(), envoy()]);
    for session in 1..=3 {
        see(&envoys[0], one.backend(1), session);
    }
    for session in 3..=4 {
        see(&envoys[1], one.backend(1), session);
    }
    envoys[0].record_departure(SessionDeparture::Moved);
    one.hear(&envoys[0]);
    two.hear(&envoys[1]);
    let load = RequestLoad {
        destination: one.backend(1).destination,
        host: address(1),
        in_flight: 2,
    };
    two.registry.receive(GROUP, NodeReport::Load(7, vec![load])).unwrap();
    assert!(exchange(&one, &two) <= 3);
    for shop in [&one, &two] {
        let pod = shop.pod(1).unwrap();
        assert_eq!((pod.sessions, pod.requests, pod.streams), (4, 5, 2));
        assert_eq!(shop.registry.sessions().moves, [("moved".to_owned(), 1)].into());
    }
    assert_eq!(exchange(&one, &two), 1, "what is known is told again");
    // Envoys meet the same memory at either, so they need not report everything again.
    see(&envoys[0], one.backend(2), 9);
    let memory = one.hear(&envoys[0]);
    see(&envoys[0], one.backend(2), 9);
    assert_eq!(two.hear(&envoys[0]), memory);
    one.registry.forget_loads_of_others(|_| false);
    assert_eq!(one.pod(1).unwrap().streams, 0);
}

#[test]
fn a_replica_that_starts_again_tells_and_is_told_everything() {
    let (one, envoy) = (Shop::new(), envoy());
    see(&envoy, one.backend(1), 1);
    one.hear(&envoy);
    let known = one.registry.replica(ChangesAfter::default());
    let after = ChangesAfter {
        process: known.process,
        changes: known.changes,
    };
    assert_eq!(one.registry.replica(after).accounts, []);
    let two = Shop::new();
    assert_eq!(two.registry.replica(after).accounts, []);
    assert_eq!(two.registry.receive_replica("one", known), Ok(true));
    // Changes of another process do not count for this one.
    assert_eq!(two.registry.replica(after).accounts.len(), 1);
    assert_eq!(two.pod(1).unwrap().sessions, 1);
}

#[test]
fn a_query_is_read_as_it_was_written() {
    let after = ChangesAfter {
        process: u64::MAX,
        changes: 7,
    };
    assert_eq!(ChangesAfter::of_query(&after.query(8)), (after, 8));
    for query in ["", "process", "process=x&changes=-1", "changes=1&other=2"] {
        assert_eq!(ChangesAfter::of_query(query).0.process, 0, "{query}");
    }
}

#[test]
fn who_has_begun_anew_is_counted_once_by_all_replicas() {
    let (shop, other, envoy) = (Shop::new(), Shop::new(), envoy());
    let backend = shop.backend(1);
    for session in 0..3 {
        see(&envoy, backend, session);
    }
    envoy.record_departure(SessionDeparture::Rebalanced(backend, now()));
    shop.hear(&envoy);
    let twice = [(); 2].map(|()| {
        other
            .registry
            .receive_replica("one", shop.registry.replica(ChangesAfter::default()))
    });
    assert_eq!(twice, [Ok(true), Ok(true)]);
    for shop in [&shop, &other] {
        let staying =
            shop.registry
                .content()
                .ledger
                .staying((ClusterId::of(&shop.cluster), backend.host), GROUP, now());
        assert_eq!(staying.0, 2);
        assert_eq!(shop.registry.sessions().moves, [("rebalanced".to_owned(), 1)].into());
    }
}

#[test]
fn what_no_replica_says_is_refused() {
    let (shop, other) = (Shop::new(), Shop::new());
    let good = other.registry.replica(ChangesAfter::default());
    let in_an_hour = now().after(std::time::Duration::from_secs(3600)).unix_millis();
    let known = || {
        let content = shop.registry.content();
        (content.memory, content.since)
    };
    let before = known();
    for bad in [
        ReplicaKnowledge {
            memory: 0,
            ..good.clone()
        },
        ReplicaKnowledge {
            memory: 1,
            ..good.clone()
        },
        ReplicaKnowledge {
            process: 0,
            ..good.clone()
        },
        ReplicaKnowledge {
            since: in_an_hour,
            ..good.clone()
        },
    ] {
        assert!(shop.registry.receive_replica("other", bad).is_err());
        assert_eq!(known(), before);
    }
    assert_eq!(shop.registry.receive_replica("other", good), Ok(true));
}

#[test]
fn a_replica_tells_only_of_what_is_published() {
    let (shop, other, envoy) = (Shop::new(), Shop::new(), envoy());
    other.publish_for(&["web", "other"], &[600, 700]);
    other.observe(&[(1, EndpointState::Ready), (9, EndpointState::Ready)]);
    let unknown = Backend {
        live_for: 700,
        ..shop.backend(1)
    };
    for (backend, session) in [(shop.backend(1), 1), (shop.backend(9), 1), (unknown, 2)] {
        see(&envoy, backend, session);
    }
    let report = envoy.report(now()).unwrap();
    for group in [GROUP, "shop/other"] {
        other
            .registry
            .receive(group, NodeReport::Sessions(report.clone()))
            .unwrap();
    }
    let wants = shop.registry.replica_wants();
    let told = || other.registry.replica(ChangesAfter::default());
    assert_eq!(shop.registry.receive_replica("other", told()), Ok(false));
    assert_eq!(shop.registry.content().ledger.hosts().len(), 1);
    assert_eq!(shop.pod(1).unwrap().sessions, 1);
    // Everything is requested again when more is known.
    assert_eq!(shop.registry.replica_wants(), wants);
    shop.publish_for(&["web", "other"], &[600, 700]);
    shop.observe(&[(1, EndpointState::Ready), (9, EndpointState::Ready)]);
    assert_ne!(shop.registry.replica_wants(), wants);
    assert_eq!(shop.registry.receive_replica("other", told()), Ok(true));
    assert_eq!((shop.pod(1).unwrap().sessions, shop.pod(9).unwrap().sessions), (2, 1));
}

/// Takes seconds: more than a message may hold is 1,800 sketches.
#[test]
fn a_replica_that_knows_much_tells_it_in_parts() {
    let (shop, other, envoy) = (Shop::new(), Shop::new(), envoy());
    let (numbers, bounds): (_, Vec<u32>) = (1..=60, (600..630).collect());
    let pods: Vec<_> = numbers.map(|number| (number, EndpointState::Ready)).collect();
    for shop in [&shop, &other] {
        shop.observe(&pods);
        shop.publish_for(&["web"], &bounds);
    }
    (0..200).for_each(|session| see(&envoy, shop.backend(1), session));
    let report = envoy.report(now()).unwrap();
    for (number, _) in &pods {
        for live_for in &bounds {
            let mut report = report.clone();
            report.backends[0].address = vec![10, 0, 0, *number];
            report.backends[0].live_for = *live_for;
            report.backends[0].windows[0].number = sub_window(*live_for, now());
            shop.registry.receive(GROUP, NodeReport::Sessions(report)).unwrap();
        }
    }
    let mut after = ChangesAfter::default();
    for (part, more) in [true, false].into_iter().enumerate() {
        let told = shop.registry.replica(after);
        assert_eq!(told.more, more, "part {part}");
        after = ChangesAfter {
            process: told.process,
            changes: told.changes,
        };
        assert_eq!(other.registry.receive_replica("shop", told), Ok(true));
    }
    assert_eq!(shop.registry.replica(after).accounts, []);
    // Without the gaps, because one of a start ends after seconds.
    let known = |shop: &Shop| PodSessions {
        gaps: CountGaps::default(),
        ..shop.pod(60).unwrap()
    };
    assert_eq!(known(&other), known(&shop));
}

fn sealing(replica: &str, key: u8) -> AnswerSealing {
    let entry = KeyEntry {
        id: KeyId(1),
        state: KeyState::Signing,
        secret: Some(Secret::new([key; Secret::LEN])),
    };
    let keys = PublishedKeys {
        seals: Some(Seals::new(&[entry], b"limpet test").into()),
        ..PublishedKeys::default()
    };
    AnswerSealing::new(replica.to_owned(), watch::channel(keys).1)
}

#[test]
fn an_answer_is_that_of_the_replica_that_was_asked() {
    let (shop, other) = (Shop::new(), Shop::new());
    assert_eq!(shop.registry.answer("question=7"), None, "it has no keyring");
    shop.registry.seal_by(sealing("one", 1));
    let answer = shop.registry.answer("question=7").unwrap();
    let two = sealing("two", 1);
    let told = two.open("one", 7, &answer).unwrap();
    assert_eq!(other.registry.receive_replica("one", told), Ok(true));
    assert!(two.open("one", 8, &answer).is_err(), "an answer to another question");
    assert!(two.open("three", 7, &answer).is_err(), "of another replica");
    assert!(sealing("two", 2).open("one", 7, &answer).is_err(), "by another keyring");
    for place in [3, answer.len() / 2, answer.len() - 1] {
        let mut changed = answer.clone();
        changed[place] ^= 1;
        assert!(two.open("one", 7, &changed).is_err());
    }
    let unsealed = prost::Message::encode_to_vec(&shop.registry.replica(ChangesAfter::default()));
    assert!(two.open("one", 7, &unsealed).is_err());
}
