//! The tables of clients against a list.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use limpet_core::source::{EntryBucket, EntryKey, SharedTable, SourceRules, SourceTable};
use limpet_core::time::Timestamp;
use limpet_core::token::{Claims, DestinationId};
use limpet_core::view::ViewError;
use proptest::prelude::*;

const TIMEOUT: Duration = Duration::from_secs(60);

fn rules(entries: u32) -> SourceRules {
    SourceRules {
        timeout: TIMEOUT,
        entries,
        ..SourceRules::DEFAULT
    }
}

fn key(client: u8) -> EntryKey {
    EntryKey::of_client(u128::from(client).to_be_bytes(), 7)
}

fn claims(client: u8, host: u16, now: Timestamp) -> Claims {
    let ip = if host.is_multiple_of(2) {
        "10.0.0.7"
    } else {
        "2001:db8::7"
    };
    Claims {
        host: (ip.parse::<std::net::IpAddr>().unwrap(), host).into(),
        destination: DestinationId([client; 4]),
        issued_at: now,
        last_seen: now,
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Find { client: u8, is_use: bool },
    Put { client: u8, host: u16 },
    Remove { client: u8 },
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let client = 0..12_u8;
    let step = prop_oneof![
        3 => (client.clone(), any::<bool>()).prop_map(|(client, is_use)| Step::Find { client, is_use }),
        3 => (client.clone(), any::<u16>()).prop_map(|(client, host)| Step::Put { client, host }),
        1 => client.prop_map(|client| Step::Remove { client }),
    ];
    prop::collection::vec((0..30_u64, step), 0..120)
}

#[derive(Default)]
struct Model {
    entries: BTreeMap<u8, Claims>,
    /// Places that removed entries still take, with the time of their last use.
    removed: BTreeMap<u8, Timestamp>,
}

impl Model {
    fn find(&mut self, client: u8, is_use: bool, now: Timestamp) -> Option<Claims> {
        let entry = self.entries.get_mut(&client)?;
        let found = *entry;
        if is_use {
            entry.last_seen = now;
        }
        Some(found)
    }

    fn put(&mut self, client: u8, claims: Claims, most: usize) -> bool {
        self.removed.remove(&client);
        let mut evicted = false;
        if !self.entries.contains_key(&client) && self.entries.len() + self.removed.len() >= most {
            let entries = self
                .entries
                .iter()
                .map(|(client, entry)| (entry.last_seen, *client, false));
            let removed = self.removed.iter().map(|(client, seen)| (*seen, *client, true));
            let (seen, oldest, was_removed) = entries.chain(removed).min().unwrap();
            evicted = !was_removed && claims.last_seen.since(seen) < TIMEOUT;
            self.entries.remove(&oldest);
            self.removed.remove(&oldest);
        }
        self.entries.insert(client, claims);
        evicted
    }

    fn remove(&mut self, client: u8, keeps_place: bool) {
        let removed = self.entries.remove(&client);
        if keeps_place {
            self.removed.extend(removed.map(|entry| (client, entry.last_seen)));
        }
    }
}

/// The entries of one name, as a table.
#[derive(Debug)]
struct OneName(RefCell<Vec<u8>>, SourceRules);

impl OneName {
    fn change<T>(&self, change: impl FnOnce(&mut EntryBucket) -> T) -> T {
        let mut places = EntryBucket::read(self.0.borrow().clone());
        let result = change(&mut places);
        self.0.replace(places.bytes().to_vec());
        result
    }
}

/// Each time differs, so that one entry is the oldest.
fn check(
    steps: Vec<(u64, Step)>,
    most: usize,
    keeps_place: bool,
    find: impl Fn(&EntryKey, Timestamp, bool) -> Option<Claims>,
    put: impl Fn(&EntryKey, &Claims) -> bool,
    remove: impl Fn(&EntryKey),
) -> Result<(), TestCaseError> {
    let mut model = Model::default();
    let mut now = Timestamp::from_unix_seconds(1_763_718_000);
    for (seconds, step) in steps {
        now = now.after(Duration::from_millis(seconds * 1000 + 1));
        match step {
            Step::Find { client, is_use } => {
                prop_assert_eq!(
                    find(&key(client), now, is_use),
                    model.find(client, is_use, now),
                    "{:?}",
                    step
                );
            }
            Step::Put { client, host } => {
                let claims = claims(client, host, now);
                prop_assert_eq!(
                    put(&key(client), &claims),
                    model.put(client, claims, most),
                    "{:?}",
                    step
                );
            }
            Step::Remove { client } => {
                remove(&key(client));
                model.remove(client, keeps_place);
            }
        }
    }
    for client in 0..12 {
        prop_assert_eq!(
            find(&key(client), now, false),
            model.find(client, false, now),
            "client {}",
            client
        );
    }
    Ok(())
}

fn no_error<T>(result: Result<T, ViewError>) -> T {
    result.expect("memory answers")
}

proptest! {
    #[test]
    fn a_shared_table_does_what_a_list_does(steps in steps(), most in 1..14_u32) {
        let table = SharedTable::new(&rules(most));
        check(
            steps,
            most as usize,
            true,
            |key, now, is_use| no_error(table.find(key, now, &|_| is_use)),
            |key, claims| no_error(table.put(key, claims)),
            |key| no_error(table.remove(key)),
        )?;
        prop_assert!(table.len() <= most as usize);
    }

    #[test]
    fn the_places_of_a_name_do_what_a_list_does(steps in steps(), most in 1..14_u32) {
        let name = OneName(RefCell::default(), rules(most));
        let used = |places: &mut EntryBucket, key: &EntryKey, now, is_use: bool| {
            let found = places.find(key);
            if let (Some(claims), true) = (found, is_use) {
                places.insert(key, &Claims { last_seen: now, ..claims }, &name.1, 0);
            }
            found
        };
        check(
            steps,
            most as usize,
            false,
            |key, now, is_use| name.change(|places| used(places, key, now, is_use)),
            |key, claims| name.change(|places| places.insert(key, claims, &name.1, 0)),
            |key| { name.change(|places| places.remove(key)); },
        )?;
    }

    #[test]
    fn bytes_of_another_form_are_no_entries(bytes in prop::collection::vec(any::<u8>(), 0..300), host in any::<u16>()) {
        let mut places = EntryBucket::read(bytes);
        let claims = claims(1, host, Timestamp::MAX);
        places.insert(&key(1), &claims, &rules(2), 0);
        prop_assert_eq!(places.find(&key(1)), Some(claims));
        prop_assert!(places.bytes().len() <= 2 * 59);
    }
}
