//! A ConfigMap, Envoys that acknowledge it, and pods whose addresses are used again.

mod properties;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::changes::PublishedFences;
use super::list::AddressFence;
use super::{FenceList, FenceTracker, RoutedPort};
use crate::cluster::looked;
use limpet_api::ObjectName;
use limpet_core::time::Timestamp;
use limpet_model::endpoints::{Endpoint, EndpointState};

const LIFE: Duration = Duration::from_secs(3600);
const A: &str = "10.0.0.1:8080";
const B: &str = "10.0.0.2:8080";

/// Milliseconds after a whole second.
fn at(millis: u64) -> Timestamp {
    Timestamp::from_unix_millis(1_700_000_000_000 + millis)
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn endpoints(owners: &[(&str, &str)]) -> Vec<Endpoint> {
    let endpoint = |(at, owner): &(&str, &str)| Endpoint {
        address: address(at),
        state: EndpointState::Ready,
        owner: Some(Arc::<str>::from(*owner)).filter(|owner| !owner.is_empty()),
        pod: None,
    };
    owners.iter().map(endpoint).collect()
}

fn service(name: &str) -> ObjectName {
    ObjectName::new("web", name)
}

fn port(routes: &str, service: ObjectName) -> RoutedPort {
    RoutedPort {
        service,
        port: "http".to_owned(),
        namespace: routes.into(),
    }
}

/// The Service and its routes are in one namespace.
fn observe(fences: &mut FenceTracker, name: &str, owners: &[(&str, &str)], millis: u64) -> bool {
    fences.observe(&port("web", service(name)), &endpoints(owners), at(millis))
}

/// For the routes of any namespace and a Service of any other.
fn observe_from(fences: &mut FenceTracker, routes: &str, of: &str, owners: &[(&str, &str)], millis: u64) -> bool {
    fences.observe(
        &port(routes, ObjectName::new(of, "shop")),
        &endpoints(owners),
        at(millis),
    )
}

fn is_held(fences: &FenceTracker, of: &str, text: &str) -> bool {
    fences.holds(&ObjectName::new(of, "shop"), address(text))
}

fn held(fences: &FenceTracker, text: &str) -> bool {
    is_held(fences, "web", text)
}

fn keep(fences: &mut FenceTracker, millis: u64) -> FenceList {
    let (list, dropped) = fences.desired_list(LIFE, at(millis)).unwrap();
    assert_eq!(dropped, 0);
    fences.set_list(list.clone(), at(millis));
    list
}

fn release(fences: &mut FenceTracker, everywhere: bool, millis: u64) -> bool {
    let config = fences.list().config();
    let fences_of = PublishedFences {
        fences: &config,
        everywhere,
    };
    !fences.release(Some(fences_of), at(millis)).is_empty()
}

#[test]
fn an_address_with_a_new_owner_waits_for_its_fence() {
    let mut fences = FenceTracker::default();
    assert!(!observe(&mut fences, "shop", &[(A, "a"), (B, "b")], 0));
    assert!(fences.desired_list(LIFE, at(0)).is_none());
    assert!(!observe(&mut fences, "shop", &[(B, "b")], 1000));
    assert!(observe(&mut fences, "shop", &[(A, "heir"), (B, "b")], 2300));
    assert!(held(&fences, A) && !held(&fences, B));
    assert!(!release(&mut fences, true, 4300), "its fence is not kept yet");

    let list = keep(&mut fences, 2400);
    assert_eq!(
        list.text(),
        r#"[{"namespace":"web","address":"10.0.0.1:8080","notBefore":1700000004,"owner":"heir"}]"#
    );
    assert_eq!(FenceList::read(&list.text()).unwrap(), list);
    assert!(fences.desired_list(LIFE, at(2400)).is_none(), "it is kept");
    assert!(!release(&mut fences, true, 3999), "its time has not come");
    assert!(!release(&mut fences, false, 4000), "not every Envoy has it");
    assert!(fences.release(None, at(4000)).is_empty(), "nothing is published");
    assert!(release(&mut fences, true, 4000));
    assert!(!held(&fences, A));
    assert_eq!((fences.held_back(), fences.unacknowledged()), (0, 0));
    assert!(fences.desired_list(LIFE, at(4000)).is_none());
}

#[test]
fn no_address_waits_for_ever_and_its_fence_is_still_to_be_kept() {
    let mut fences = FenceTracker::default();
    observe(&mut fences, "shop", &[(A, "a")], 0);
    observe(&mut fences, "shop", &[(A, "heir")], 0);
    assert!(!release(&mut fences, false, 4999));
    assert!(release(&mut fences, false, 5000));
    assert_eq!(fences.unacknowledged(), 1);
    assert!(!held(&fences, A));
    assert_eq!(keep(&mut fences, 6000).len(), 1);
    assert!(!held(&fences, A) && fences.desired_list(LIFE, at(6000)).is_none());
}

#[test]
fn who_restarts_in_place_or_comes_back_is_no_new_owner() {
    let mut fences = FenceTracker::default();
    for owners in [&[(A, "a")][..], &[], &[(A, "a")], &[(A, "")], &[(A, "a")]] {
        assert!(!observe(&mut fences, "shop", owners, 0));
    }
    assert!(!observe(&mut fences, "other", &[(A, "a")], 0));
}

#[test]
fn slices_that_lag_behind_change_nothing_twice() {
    let mut fences = FenceTracker::default();
    observe(&mut fences, "shop", &[(A, "a")], 0);
    observe(&mut fences, "other", &[(A, "a")], 0);
    assert!(observe(&mut fences, "other", &[(A, "heir")], 0));
    assert!(!observe(&mut fences, "shop", &[(A, "a"), (B, "b")], 10));
    assert!(!observe(&mut fences, "shop", &[(A, "heir")], 20));
    assert!(!observe(&mut fences, "other", &[], 30));
    assert!(!observe(&mut fences, "shop", &[(A, "heir"), (B, "b")], 40));
    assert!(observe(&mut fences, "other", &[(A, "third")], 50));
}

#[test]
fn ports_are_apart() {
    let mut fences = FenceTracker::default();
    observe(&mut fences, "shop", &[("10.0.0.1:8080", "a")], 0);
    assert!(!observe(
        &mut fences,
        "shop",
        &[("10.0.0.1:8080", "a"), ("10.0.0.1:9090", "b")],
        0
    ));
}

#[test]
fn another_replicas_fence_is_as_good() {
    let mut fences = FenceTracker::default();
    observe(&mut fences, "shop", &[(A, "a")], 0);
    let fence = AddressFence {
        namespace: "web".to_owned(),
        address: address(A),
        not_before: at(2000).unix_seconds(),
        owner: "heir".into(),
    };
    fences.set_list([fence].into_iter().collect(), at(500));
    assert!(observe(&mut fences, "shop", &[(A, "heir")], 900));
    assert!(fences.desired_list(LIFE, at(900)).is_none(), "it is kept already");
    assert!(held(&fences, A));
    assert!(release(&mut fences, true, 2000));
}

#[test]
fn a_new_process_knows_the_owners_in_the_list() {
    let mut first = FenceTracker::default();
    observe(&mut first, "shop", &[(A, "a")], 0);
    observe(&mut first, "shop", &[(A, "heir")], 0);
    let list = keep(&mut first, 0);
    let mut second = FenceTracker::default();
    second.set_list(list.clone(), at(60_000));
    assert!(!observe(&mut second, "shop", &[(A, "heir"), (B, "b")], 60_000));
    assert_eq!((second.desired_list(LIFE, at(60_000)), second.list()), (None, &list));
    let mut third = FenceTracker::default();
    third.set_list(list, at(60_000));
    assert!(
        observe(&mut third, "shop", &[(A, "third")], 60_000),
        "it changed hands meanwhile"
    );
}

#[test]
fn services_that_are_not_watched_are_remembered() {
    let mut fences = FenceTracker::default();
    observe(&mut fences, "shop", &[(A, "a")], 0);
    let services = [service("shop")].into();
    fences.watch(&services, |_| false, at(0));
    assert!(observe(&mut fences, "shop", &[(A, "heir")], 0));
    observe(&mut fences, "shop", &[], 0);
    fences.forget(LIFE, at(3_599_999));
    assert!(observe(&mut fences, "shop", &[(A, "third")], 3_599_999));
    observe(&mut fences, "shop", &[], 3_600_000);
    fences.forget(LIFE, at(7_200_000));
    assert!(
        !observe(&mut fences, "shop", &[(A, "fourth")], 7_200_000),
        "no session is so old"
    );
}

fn fence(namespace: &str, n: u32, seconds: u64) -> AddressFence {
    AddressFence {
        namespace: namespace.to_owned(),
        address: SocketAddr::new(std::net::Ipv4Addr::from(n).into(), 80),
        not_before: at(0).unix_seconds() + seconds,
        owner: "x".into(),
    }
}

#[test]
fn expired_fences_go_together_and_the_oldest_of_too_many() {
    let fence = |n, seconds| fence("web", n, seconds);
    let list: FenceList = (0..8).map(|n| fence(n, u64::from(n))).collect();
    let after = |seconds: u64| at(seconds * 1000 + 3_600_000);
    assert_eq!(list.with(&[], LIFE, after(0)), None, "one of eight");
    let (rest, _) = list.with(&[], LIFE, after(1)).unwrap();
    assert_eq!(rest.len(), 6);
    let (rest, _) = list.with(&[fence(9, 9)], LIFE, after(0)).unwrap();
    assert_eq!(rest.len(), 8);

    let many: Vec<AddressFence> = (0..5003).map(|n| fence(n, u64::from(n))).collect();
    let (kept, dropped) = FenceList::default().with(&many, LIFE, at(0)).unwrap();
    assert_eq!((kept.len(), dropped), (5000, 3));
    assert!(kept.get(&many[2].at()).is_none() && kept.get(&many[3].at()).is_some());
}

#[test]
fn a_namespace_with_many_fences_evicts_its_own() {
    let victims: Vec<AddressFence> = (0..100).map(|n| fence("victim", n, 0)).collect();
    let (list, _) = FenceList::default().with(&victims, LIFE, at(0)).unwrap();
    let many: Vec<AddressFence> = (0..6000).map(|n| fence("many", n, 1 + u64::from(n / 1000))).collect();
    let (list, dropped) = list.with(&many, LIFE, at(0)).unwrap();
    assert_eq!((list.len(), dropped), (5000, 1100));
    assert!(victims.iter().all(|fence| list.get(&fence.at()).is_some()));
    assert!(list.get(&many[1099].at()).is_none() && list.get(&many[1100].at()).is_some());

    let more: Vec<AddressFence> = (0..6000).map(|n| fence("more", n, 9)).collect();
    let (list, _) = list.with(&more, LIFE, at(0)).unwrap();
    let count = |namespace: &str| list.iter().filter(|fence| fence.namespace == namespace).count();
    assert_eq!(["victim", "many", "more"].map(count), [100, 2450, 2450]);
}

/// An author of EndpointSlices may change more addresses than there is room for.
#[test]
fn a_change_without_room_is_forgotten_with_its_release() {
    let mut fences = FenceTracker::default();
    let addresses: Vec<String> = (0..=5000).map(|n| format!("10.0.{}.{}:80", n / 256, n % 256)).collect();
    let owned_by = |owner: &'static str| addresses.iter().map(move |at| (at.as_str(), owner)).collect::<Vec<_>>();
    observe(&mut fences, "shop", &owned_by("a"), 0);
    observe(&mut fences, "shop", &owned_by("heir"), 0);
    let (list, dropped) = fences.desired_list(LIFE, at(0)).unwrap();
    assert_eq!((list.len(), dropped), (5000, 1));
    fences.set_list(list, at(0));
    assert!(fences.desired_list(LIFE, at(0)).is_none(), "there is no room for more");
    assert_eq!(fences.held_back(), 5001);
    release(&mut fences, false, 5000);
    assert!(!fences.holds_any());
    looked::take_count();
    assert!(fences.desired_list(LIFE, at(5000)).is_none());
    assert_eq!(looked::take_count(), 0, "it is forgotten");
}

#[test]
fn a_change_that_could_not_be_written_is_forgotten_with_its_tokens() {
    let mut fences = FenceTracker::default();
    observe(&mut fences, "shop", &[(A, "a")], 0);
    observe(&mut fences, "shop", &[(A, "heir")], 0);
    release(&mut fences, false, 5000);
    let over = 2000 + 3_600_000;
    fences.forget(LIFE, at(over - 1));
    assert!(fences.desired_list(LIFE, at(over - 1)).is_some());
    fences.forget(LIFE, at(over));
    assert!(fences.desired_list(LIFE, at(over)).is_none(), "no session is so old");
}

fn publish(fences: &mut FenceTracker, millis: u64) -> bool {
    let list = fences.desired_list(LIFE, at(millis));
    let is_any = list.is_some();
    if let Some((list, _)) = list {
        fences.set_list(list, at(millis));
    }
    release(fences, true, millis);
    is_any
}

#[test]
fn an_owner_that_changed_each_second_had_a_publication_each_second() {
    let mut fences = FenceTracker::default();
    let mut publications = 0;
    for second in 0..=600 {
        observe(&mut fences, "shop", &[(A, &format!("{second}"))], second * 1000);
        publications += u64::from(publish(&mut fences, second * 1000));
        // Another namespace waits for nothing.
        if second % 100 == 0 {
            observe_from(
                &mut fences,
                "other",
                "other",
                &[(A, &format!("{second}"))],
                second * 1000 + 500,
            );
            assert_eq!(publish(&mut fences, second * 1000 + 500), second > 0);
            assert!(!publish(&mut fences, second * 1000 + 500));
            assert!(!fences.is_due(at(second * 1000 + 500)), "nothing has changed");
        }
    }
    assert_eq!(publications, 10 + 9, "ten in a row, then one a minute");
}

#[test]
fn an_owner_that_changed_while_its_fence_was_written_took_no_turn() {
    let mut fences = FenceTracker::default();
    let mut publications = 0;
    for second in 0..30 {
        observe(&mut fences, "shop", &[(A, &format!("{second}"))], second * 1000);
        if let Some((list, _)) = fences.desired_list(LIFE, at(second * 1000)) {
            observe(
                &mut fences,
                "shop",
                &[(A, &format!("{second}, at once"))],
                second * 1000 + 1,
            );
            fences.set_list(list, at(second * 1000 + 2));
            publications += 1;
        }
    }
    assert_eq!(publications, 10);
}

#[test]
fn many_pods_at_once_take_one_turn() {
    let mut fences = FenceTracker::default();
    let port = port("web", service("shop"));
    fences.observe(&port, &many(0, "0"), at(0));
    for (turn, owner) in ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]
        .into_iter()
        .enumerate()
    {
        let millis = 3000 * u64::try_from(turn).unwrap();
        fences.observe(&port, &many(0, owner), at(millis));
        assert!(publish(&mut fences, millis));
        assert_eq!(fences.held_back(), 1000);
        release(&mut fences, true, millis + 2500);
        assert_eq!((fences.held_back(), fences.unacknowledged()), (0, 0));
    }
    // The first turn was taken at 0.
    fences.observe(&port, &many(0, "11"), at(30_000));
    assert!(!publish(&mut fences, 30_000));
    assert_eq!(fences.late().values().collect::<Vec<_>>(), [&at(60_000)]);
    assert!(
        !release(&mut fences, true, 34_999),
        "addresses wait as long as for an Envoy"
    );
    assert!(release(&mut fences, true, 35_000));
    assert_eq!((fences.held_back(), fences.unacknowledged()), (0, 1000));
    assert!(!fences.is_due(at(59_999)) && fences.is_due(at(60_000)));
    assert!(
        publish(&mut fences, 60_000),
        "all of its fences are written with the next turn"
    );
    assert!(fences.list().iter().all(|fence| &*fence.owner == "11"));
    assert!(fences.late().is_empty());
}

#[test]
fn a_namespace_that_routes_lead_to_takes_no_turn_of_theirs() {
    let mut fences = FenceTracker::default();
    observe_from(&mut fences, "routes", "routes", &[(A, "a")], 0);
    for n in 0..20_u64 {
        observe_from(&mut fences, "routes", "other", &[(B, &format!("{n}"))], n);
        publish(&mut fences, n);
    }
    assert!(fences.late().contains_key("other"));
    observe_from(&mut fences, "routes", "routes", &[(A, "heir")], 20);
    assert!(publish(&mut fences, 20));
    assert!(!fences.late().contains_key("routes"));
}

#[test]
fn a_clock_that_goes_back_makes_no_namespace_wait_for_its_turn() {
    let mut fences = FenceTracker::default();
    for n in 0..20_u64 {
        observe(&mut fences, "shop", &[(A, &format!("{n}"))], 3_600_000);
        publish(&mut fences, 3_600_000);
    }
    assert!(fences.late().contains_key("web"));
    assert!(publish(&mut fences, 0));
    for n in 20..40_u64 {
        observe(&mut fences, "shop", &[(A, &format!("{n}"))], 0);
        publish(&mut fences, 0);
    }
    assert_eq!(fences.late().values().collect::<Vec<_>>(), [&at(60_000)]);
}

#[test]
fn a_list_that_cannot_be_read_is_told_by_its_field() {
    let fences = r#"[
        {"namespace": "web", "address": "10.0.0.1", "notBefore": 1, "owner": "a"},
        {"namespace": "web", "address": "10.0.0.1:80", "nowAndThen": 1, "owner": "a"},
        {"namespace": "web", "address": "10.0.0.1:80", "notBefore": "1", "owner": "a"}
    ]"#;
    let error = FenceList::read(fences).unwrap_err();
    let problems: Vec<&str> = error.split("; ").collect();
    let begins = ["[0].address: ", "[1].nowAndThen: ", "[2].notBefore: "];
    for begin in begins {
        assert!(
            problems.iter().any(|problem| problem.starts_with(begin)),
            "{begin} {error}"
        );
    }
    assert_eq!(problems.len(), begins.len(), "{error}");
    assert!(FenceList::read("[]x").is_err());
}

/// An author of EndpointSlices names the address of another namespace's pod, again and again.
#[test]
fn an_invented_owner_harms_no_other_namespace() {
    let mut fences = FenceTracker::default();
    assert!(!observe_from(&mut fences, "victim", "victim", &[(A, "a")], 0));
    for n in 0..10_u64 {
        let invented = format!("invented {n}");
        assert_eq!(observe_from(&mut fences, "other", "other", &[(A, &invented)], n), n > 0);
        assert!(!is_held(&fences, "victim", A));
        assert_eq!(is_held(&fences, "other", A), n > 0, "it has its own address back");
        assert!(!observe_from(&mut fences, "victim", "victim", &[(A, "a"), (B, "b")], n));
    }
    let list = keep(&mut fences, 20);
    assert!(list.iter().all(|fence| fence.namespace == "other"), "{list:?}");
    assert!(observe_from(&mut fences, "victim", "victim", &[(A, "heir")], 30));
    assert!(is_held(&fences, "victim", A));
    assert_eq!(keep(&mut fences, 30).len(), 2);
}

/// One token may reach both namespaces.
#[test]
fn an_address_that_moves_between_reached_namespaces_is_fenced() {
    let mut fences = FenceTracker::default();
    observe_from(&mut fences, "routes", "first", &[(A, "a")], 0);
    assert!(
        !observe_from(&mut fences, "routes", "second", &[(A, "heir")], 10),
        "the first still has it"
    );
    assert!(observe_from(&mut fences, "routes", "first", &[], 20));
    let fence = keep(&mut fences, 20);
    assert_eq!(
        fence
            .iter()
            .map(|fence| (&*fence.namespace, &*fence.owner))
            .collect::<Vec<_>>(),
        [("routes", "heir")]
    );
    assert!(
        !is_held(&fences, "second", A),
        "the first namespace could keep the second from its pods"
    );

    // Routes of one namespace have no token of the other.
    let mut fences = FenceTracker::default();
    observe_from(&mut fences, "one", "first", &[(A, "a")], 0);
    observe_from(&mut fences, "one", "first", &[], 0);
    assert!(!observe_from(&mut fences, "two", "second", &[(A, "heir")], 10));
}

#[test]
fn what_the_routes_own_namespace_shows_counts_first() {
    let mut fences = FenceTracker::default();
    observe_from(&mut fences, "victim", "victim", &[(A, "a")], 0);
    for n in 0..5_u64 {
        let invented = format!("invented {n}");
        assert!(!observe_from(&mut fences, "victim", "other", &[(A, &invented), (B, &invented)], n) || n > 0);
        assert!(
            fences
                .desired_list(LIFE, at(n))
                .is_none_or(|(list, _)| list.iter().all(|fence| fence.address == address(B)))
        );
    }
    // The pod does not wait, although another namespace named its address before.
    observe_from(&mut fences, "victim", "victim", &[(A, "a"), (B, "b")], 10);
    assert!(!is_held(&fences, "victim", A) && !is_held(&fences, "victim", B));
}

#[test]
fn a_clock_that_goes_back_holds_no_address_back() {
    let mut fences = FenceTracker::default();
    observe(&mut fences, "shop", &[(A, "a")], 3_600_000);
    observe(&mut fences, "shop", &[(A, "heir")], 3_600_000);
    assert!(release(&mut fences, false, 0), "it would wait for an hour");
    assert!(!held(&fences, A));
}

fn many(first: u32, owner: &str) -> Vec<Endpoint> {
    let endpoint = |n: u32| Endpoint {
        address: SocketAddr::new(std::net::Ipv4Addr::from(n).into(), 80),
        state: EndpointState::Ready,
        owner: Some(owner.into()),
        pod: None,
    };
    (first..first + 1000).map(endpoint).collect()
}

/// 1,000 at a time.
fn show_many(fences: &mut FenceTracker, port: &RoutedPort) {
    for turn in 0..64_u32 {
        fences.observe(port, &many(turn * 1000, "a"), at(u64::from(turn)));
    }
    fences.observe(port, &[], at(64));
}

#[test]
fn addresses_that_no_service_shows_were_remembered_without_number() {
    let mut fences = FenceTracker::default();
    observe_from(&mut fences, "victim", "victim", &[(A, "a"), (B, "b")], 0);
    observe_from(&mut fences, "victim", "victim", &[(B, "b")], 0);
    let port = port("many", ObjectName::new("many", "shop"));
    show_many(&mut fences, &port);
    assert!(
        !fences.observe(&port, &many(0, "heir"), at(90)),
        "its oldest are forgotten"
    );
    assert!(
        fences.observe(&port, &many(63_000, "heir"), at(90)),
        "its newest are not"
    );
    assert!(observe_from(
        &mut fences,
        "victim",
        "victim",
        &[(A, "heir"), (B, "b")],
        90
    ));
    assert!(observe_from(
        &mut fences,
        "victim",
        "victim",
        &[(A, "heir"), (B, "heir")],
        90
    ));
}

/// Routes lead to their own namespace and to another.
#[test]
fn another_namespace_made_routes_forget_who_had_addresses_of_their_own() {
    let mut fences = FenceTracker::default();
    observe_from(&mut fences, "routes", "routes", &[(A, "a")], 0);
    observe_from(&mut fences, "routes", "routes", &[], 0);
    let port = port("routes", ObjectName::new("other", "shop"));
    show_many(&mut fences, &port);
    assert!(!fences.observe(&port, &many(0, "heir"), at(90)));
    assert!(observe_from(&mut fences, "routes", "routes", &[(A, "heir")], 90));
}

#[test]
fn a_change_of_a_forgotten_address_is_forgotten_with_it() {
    let mut fences = FenceTracker::default();
    let port = port("many", ObjectName::new("many", "shop"));
    fences.observe(&port, &many(0, "former"), at(0));
    fences.observe(&port, &many(0, "a"), at(0));
    assert_eq!(fences.desired_list(LIFE, at(0)).map(|(list, _)| list.len()), Some(1000));
    release(&mut fences, false, 5000);
    show_many(&mut fences, &port);
    assert!(fences.desired_list(LIFE, at(5000)).is_none());
}

#[test]
fn each_address_that_was_held_back_looked_at_all_ports_and_fences() {
    const MANY: usize = 2000;
    let mut fences = FenceTracker::default();
    for owner in ["a", "heir"] {
        for n in 0..MANY {
            let at = format!("10.0.{}.{}:80", n / 256, n % 256);
            observe(&mut fences, &format!("shop-{n}"), &[(&at, owner)], 0);
        }
    }
    looked::take_count();
    assert_eq!(fences.newly_held().len(), MANY);
    assert!((1..=2 * MANY).contains(&looked::take_count()));
    assert!(fences.newly_held().is_empty(), "all Services are published again");
    let list = keep(&mut fences, 0).config();
    let published = PublishedFences {
        fences: &list,
        everywhere: true,
    };
    looked::take_count();
    assert!(
        fences.release(Some(published), at(0)).is_empty(),
        "their time has not come"
    );
    assert!(looked::take_count() <= 2 * MANY);
    assert_eq!(fences.release(Some(published), at(3000)).len(), MANY);
    assert!(looked::take_count() <= 4 * MANY);
}
