use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Event {
    /// A new pod gets one of two addresses.
    Pod(usize),
    /// One of two Services shows the owner of one of two addresses, true or not, or removes the address.
    Show(usize, usize, bool),
    Keep,
    Acknowledge,
    Wait(u64),
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (0..2usize).prop_map(Event::Pod),
        4 => (0..2usize, 0..2usize, any::<bool>())
            .prop_map(|(service, address, shows)| Event::Show(service, address, shows)),
        2 => Just(Event::Keep),
        2 => Just(Event::Acknowledge),
        2 => (0..2500u64).prop_map(Event::Wait),
        1 => Just(Event::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// A published address with a new owner has waited for the maximum time, or all Envoys have a fence that ends every
    /// session of the former owner.
    #[test]
    fn no_address_is_given_before_its_fence(events in prop::collection::vec(event(), 1..120)) {
        const ADDRESSES: [&str; 2] = [A, B];
        const SERVICES: [&str; 2] = ["shop", "other"];
        let mut fences = FenceTracker::default();
        let mut now = 0;
        let mut pods = [0; 2];
        let mut first: BTreeMap<String, u64> = BTreeMap::new();
        let mut shown: [BTreeMap<&str, String>; 2] = [BTreeMap::new(), BTreeMap::new()];
        let mut everywhere = FenceList::default();
        // When an address last changed its owner, and the new one.
        let mut changed: BTreeMap<&str, (u64, String)> = BTreeMap::new();
        for event in events {
            match event {
                Event::Pod(index) => pods[index] += 1,
                Event::Show(service, index, visible) => {
                    let text = ADDRESSES[index];
                    let shows = &mut shown[service];
                    if visible {
                        shows.insert(text, format!("{text} {}", pods[index]));
                    } else {
                        shows.remove(text);
                    }
                    let list: Vec<(&str, &str)> = shows.iter().map(|(at, owner)| (*at, &**owner)).collect();
                    if observe(&mut fences, SERVICES[service], &list, now) {
                        let owner = shown[service][text].clone();
                        first.entry(owner.clone()).or_insert(now);
                        changed.insert(text, (now, owner));
                    }
                }
                Event::Keep => {
                    if let Some((list, _)) = fences.desired_list(LIFE, at(now)) {
                        fences.set_list(list, at(now));
                    }
                    prop_assert!(fences.desired_list(LIFE, at(now)).is_none(), "all of it is kept at once");
                }
                Event::Acknowledge => everywhere = fences.list().clone(),
                Event::Wait(millis) => now += millis,
                Event::Restart => {
                    let list = fences.list().clone();
                    fences = FenceTracker::default();
                    fences.set_list(list.clone(), at(now));
                    let desired = fences.desired_list(LIFE, at(now));
                    prop_assert!(desired.is_none(), "nothing is written because of a restart");
                    changed.clear();
                    for (text, owner) in shown.iter_mut().flatten() {
                        *owner = format!("{text} {}", pods[usize::from(*text == B)]);
                    }
                    for (service, shows) in shown.iter().enumerate() {
                        let list: Vec<(&str, &str)> = shows.iter().map(|(at, owner)| (*at, &**owner)).collect();
                        if observe(&mut fences, SERVICES[service], &list, now) {
                            for (text, owner) in shows.iter().filter(|(text, _)| held(&fences, text)) {
                                first.entry(owner.clone()).or_insert(now);
                                changed.insert(text, (now, owner.clone()));
                            }
                        }
                    }
                }
            }
            let config = fences.list().config();
            let all = everywhere == *fences.list();
            fences.release(Some(PublishedFences { fences: &config, everywhere: all }), at(now));
            for (text, (since, owner)) in &changed {
                let since = *since;
                if held(&fences, text) {
                    prop_assert!(now < since + 5000);
                } else if now < since + 5000 {
                    let fence = everywhere.iter().find(|fence| fence.address == address(text));
                    prop_assert!(fence.is_some_and(|fence| {
                        *fence.owner == **owner && fence.not_before * 1000 > at(first[owner]).unix_millis()
                            && fence.not_before <= at(now).unix_seconds()
                    }), "{text} {owner} {since} {now} {fence:?}");
                }
            }
        }
    }

    /// Another namespace's EndpointSlices change neither fences nor waits.
    #[test]
    fn another_namespace_changes_nothing_here(
        events in prop::collection::vec((any::<bool>(), 0..2usize, 0..2usize, 0..4u8, 0..3000u64), 1..60),
    ) {
        let (mut apart, mut together) = (FenceTracker::default(), FenceTracker::default());
        let mut now = 0;
        for (is_ours, service, index, owner, pause) in events {
            let text = [A, B][index];
            let owner = format!("{owner}");
            let shown = if owner == "0" { vec![] } else { vec![(text, owner.as_str())] };
            let name = ObjectName::new(if is_ours { "web" } else { "other" }, ["shop", "more"][service]);
            let port = port(&name.namespace, name.clone());
            let changed = together.observe(&port, &endpoints(&shown), at(now));
            if is_ours {
                prop_assert_eq!(apart.observe(&port, &endpoints(&shown), at(now)), changed);
            }
            for fences in [&mut apart, &mut together] {
                if let Some((list, _)) = fences.desired_list(LIFE, at(now)) {
                    fences.set_list(list, at(now));
                }
                release(fences, true, now);
            }
            let ours = |fences: &FenceTracker| -> Vec<AddressFence> {
                fences.list().iter().filter(|fence| fence.namespace == "web").cloned().collect()
            };
            prop_assert_eq!(ours(&apart), ours(&together));
            for text in [A, B] {
                prop_assert_eq!(held(&apart, text), held(&together, text));
            }
            now += pause;
        }
    }
}
