//! Both Secrets in an API server, and replicas that see it late, lead, and die.

mod revocation;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret as SecretObject;
use proptest::prelude::*;

use super::KeyringConfig;
use super::content::REVOKE;
use super::schedule::KeyringRollout;
use super::state::{KeyringAction, KeyringSecret, KeyringState, KeyringWrite};
use crate::cluster::reconcile::own_secret::{ROTATE, ROTATED};
use crate::tools::keys::rotation::{MAX_RETIRING, MAX_REVOKED, RotationStep};
use limpet_core::config::KeyringDocument;
use limpet_core::config::schema::KeyStateConfig;
use limpet_core::keyring::Secret;
use limpet_core::time::Timestamp;

const LIFE: Duration = Duration::from_secs(3600);
const PHASE: Duration = Duration::from_secs(60);

fn config() -> KeyringConfig {
    KeyringConfig {
        phase_time: PHASE.into(),
        rotate_every: Duration::from_secs(86_400).into(),
        ..KeyringConfig::default()
    }
}

#[derive(Default)]
struct Store {
    secrets: BTreeMap<KeyringSecret, SecretObject>,
    versions: u64,
    secrets_made: u8,
}

impl Store {
    fn put(&mut self, which: KeyringSecret, mut secret: SecretObject) {
        self.versions += 1;
        secret.metadata.resource_version = Some(self.versions.to_string());
        self.secrets.insert(which, secret);
    }

    /// Whether it was accepted.
    fn write(&mut self, write: KeyringWrite) -> bool {
        let (which, secret) = match write {
            KeyringWrite::Create(which, _) if self.secrets.contains_key(&which) => return false,
            KeyringWrite::Create(which, secret) => (which, secret),
            KeyringWrite::Step(_, secret)
            | KeyringWrite::Revoke(_, secret)
            | KeyringWrite::RevocationDone(_, secret) => {
                let held = self.secrets.get(&KeyringSecret::Keyring);
                if held.map(|held| &held.metadata.resource_version) != Some(&secret.object().metadata.resource_version)
                {
                    return false;
                }
                (KeyringSecret::Keyring, secret)
            }
        };
        self.put(which, secret.object().clone());
        true
    }

    fn fresh(&mut self) -> Secret {
        self.secrets_made += 1;
        Secret::new([self.secrets_made; 32])
    }

    fn change(&mut self, which: KeyringSecret, change: impl FnOnce(&mut SecretObject)) {
        let mut secret = self.secrets[&which].clone();
        change(&mut secret);
        self.put(which, secret);
    }

    fn annotate(&mut self, wish: &str) {
        self.set_annotation(ROTATE, wish);
    }

    fn set_annotation(&mut self, name: &str, value: &str) {
        self.change(KeyringSecret::Keyring, |secret| {
            let annotations = secret.metadata.annotations.get_or_insert_default();
            annotations.insert(name.to_owned(), value.to_owned());
        });
    }

    fn annotation(&self, name: &str) -> Option<String> {
        let secret = &self.secrets[&KeyringSecret::Keyring];
        secret.metadata.annotations.as_ref()?.get(name).cloned()
    }

    fn document(&self) -> KeyringDocument {
        let data = self.secrets[&KeyringSecret::Keyring].data.as_ref().unwrap();
        KeyringDocument::parse(&data["keyring.json"].0).unwrap()
    }

    fn states(&self) -> Vec<(u8, KeyStateConfig)> {
        let document = self.document();
        document.keys.iter().map(|key| (key.id, key.state)).collect()
    }
}

fn look(state: &mut KeyringState, store: &Store) {
    for which in [KeyringSecret::Keyring, KeyringSecret::KeyEncryptionKey] {
        state.saw(which, store.secrets.get(&which).cloned());
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_seconds(1_700_000_000 + seconds)
}

fn served(everywhere: bool) -> KeyringRollout {
    KeyringRollout {
        since: 2 * PHASE,
        everywhere,
        life: LIFE,
    }
}

/// Returns whether a replica has written something.
fn turn(state: &mut KeyringState, store: &mut Store, seconds: u64, everywhere: bool) -> bool {
    look(state, store);
    let fresh = store.fresh();
    match state.next(at(seconds), Some(served(everywhere)), fresh) {
        KeyringAction::Write(write) => store.write(write),
        KeyringAction::Wait(_) => false,
    }
}

/// With a leader that has seen both Secrets.
fn established() -> (KeyringState, Store) {
    let (mut state, mut store) = (KeyringState::new(config()), Store::default());
    while turn(&mut state, &mut store, 0, true) {}
    (state, store)
}

#[test]
fn both_secrets_are_made_once_and_all_replicas_read_the_same() {
    let mut store = Store::default();
    let mut first = KeyringState::new(config());
    let mut second = KeyringState::new(config());
    assert!(
        matches!(first.next(at(0), None, store.fresh()), KeyringAction::Wait(None)),
        "nobody has looked yet"
    );
    assert_eq!(first.missing().unwrap(), "the Secret limpet-keyring was not read yet");
    look(&mut second, &store);
    assert!(turn(&mut first, &mut store, 0, true) && turn(&mut first, &mut store, 0, true));
    assert!(!turn(&mut first, &mut store, 0, true));
    let fresh = store.fresh();
    match second.next(at(0), None, fresh) {
        KeyringAction::Write(write) => assert!(!store.write(write), "what it takes for missing is there"),
        KeyringAction::Wait(_) => panic!("it has seen neither"),
    }
    look(&mut second, &store);
    let keys = first.served().unwrap();
    assert_eq!(second.served().unwrap(), keys);
    assert_eq!(keys.key_encryption_keys[0].env, "LIMPET_KEK_1");
    assert_eq!(store.states(), [(1, KeyStateConfig::Signing)]);
}

#[test]
fn a_wish_walks_through_all_phases_and_is_heeded_once() {
    use KeyStateConfig::{Retiring, Signing, Verifying};
    let (mut state, mut store) = established();
    assert!(!turn(&mut state, &mut store, 100, true));
    store.annotate("now");
    assert!(turn(&mut state, &mut store, 100, true));
    assert_eq!(store.states(), [(1, Signing), (2, Verifying)]);
    assert!(!turn(&mut state, &mut store, 100, false), "not every Envoy has it");
    assert!(turn(&mut state, &mut store, 100, true));
    assert_eq!(store.states(), [(1, Verifying), (2, Signing)]);
    let mut state = KeyringState::new(config());
    assert!(turn(&mut state, &mut store, 101, true));
    assert_eq!(store.states(), [(1, Retiring), (2, Signing)]);
    assert!(!turn(&mut state, &mut store, 101 + LIFE.as_secs() - 1, true));
    assert!(turn(&mut state, &mut store, 101 + LIFE.as_secs(), true));
    assert_eq!(store.states(), [(2, Signing)]);
    assert!(!turn(&mut state, &mut store, 10_000, true), "heeded once");
    assert_eq!(store.annotation(ROTATED).unwrap(), "now");
    store.annotate("again");
    assert!(turn(&mut state, &mut store, 10_000, true));
}

#[test]
fn a_broken_secret_is_left_alone_and_the_last_good_one_served() {
    for (which, field, text, told) in [
        (
            KeyringSecret::Keyring,
            "keyring.json",
            "{\"keys\": [",
            "data[keyring.json]: ",
        ),
        (
            KeyringSecret::Keyring,
            "keyring.json",
            r#"{"keys": [{"id": 1, "state": "signing", "secret": "bm90IGEgc2VjcmV0"}]}"#,
            "data[keyring.json]: keys[0].secret: expected 32 bytes in base64",
        ),
        (
            KeyringSecret::Keyring,
            "keyring.json",
            r#"{"keys": [{"id": 1, "state": "signing", "secret": "bm90IGEgc2VjcmV0OiBldmVyeWJvZHkgcmVhZHMgaXQ="},
                {"id": 2, "state": "signing", "secret": "bm90IGEgc2VjcmV0OiBldmVyeWJvZHkgcmVhZHMgaXQ="}]}"#,
            "data[keyring.json]: keys: expected one key with state signing, found several",
        ),
        (
            KeyringSecret::KeyEncryptionKey,
            "LIMPET_KEK_1",
            "bm90IGEgc2VjcmV0",
            "data[LIMPET_KEK_1]: expected 32 bytes in base64, as `limpet keys generate` prints them",
        ),
    ] {
        let (mut state, mut store) = established();
        look(&mut state, &store);
        let good = state.served().unwrap();
        store.annotate("now");
        store.change(which, |secret| {
            let data = secret.data.as_mut().unwrap();
            data.insert(field.to_owned(), ByteString(text.as_bytes().to_vec()));
        });
        let broken = store.secrets[&which].clone();
        if which == KeyringSecret::Keyring {
            assert!(!turn(&mut state, &mut store, 1_000_000, true));
        }
        look(&mut state, &store);
        assert_eq!(store.secrets[&which], broken);
        assert_eq!(state.served().unwrap(), good);
        let problems = state.problems(at(0));
        let [(of, message)] = &problems[..] else {
            panic!("{problems:?}")
        };
        assert_eq!(*of, which);
        assert!(message.starts_with(told), "{message}");
        assert!(!message.contains("bm90"), "{message}");
        assert!(!format!("{state:?}").contains("bm90"));

        // A new replica serves and creates nothing.
        let mut other = KeyringState::new(config());
        assert!(which == KeyringSecret::KeyEncryptionKey || !turn(&mut other, &mut store, 1_000_000, true));
        look(&mut other, &store);
        assert_eq!(other.served(), None);
        assert!(other.missing().unwrap().ends_with("is broken"));
    }
}

#[test]
fn what_no_rotation_makes_is_served_and_told() {
    let (mut state, mut store) = established();
    let mut document = store.document();
    for id in [7, 8] {
        let mut key = document.keys[0].clone();
        (key.id, key.state) = (id, KeyStateConfig::Verifying);
        document.keys.push(key);
    }
    store.change(KeyringSecret::Keyring, |secret| {
        let json = serde_json::to_vec(&document).unwrap();
        secret
            .data
            .as_mut()
            .unwrap()
            .insert("keyring.json".to_owned(), ByteString(json));
    });
    assert!(!turn(&mut state, &mut store, 1_000_000, true));
    assert_eq!(state.document(), Some(&document));
    assert!(state.served().is_some());
    let problems = state.problems(at(0));
    assert!(
        problems[0]
            .1
            .starts_with("it is served and not rotated: keys: expected"),
        "{problems:?}"
    );
}

#[test]
fn what_is_deleted_comes_back_as_it_was() {
    for which in [KeyringSecret::Keyring, KeyringSecret::KeyEncryptionKey] {
        let (mut state, mut store) = established();
        look(&mut state, &store);
        let good = state.served().unwrap();
        let data = store.secrets.remove(&which).unwrap().data;
        assert!(turn(&mut state, &mut store, 10, true));
        assert_eq!(store.secrets[&which].data, data);
        look(&mut state, &store);
        assert_eq!(state.served().unwrap(), good);
    }
}

#[test]
fn a_new_key_encryption_key_is_used_when_the_old_one_goes() {
    let (mut state, mut store) = established();
    look(&mut state, &store);
    let before = state.served().unwrap();
    store.change(KeyringSecret::KeyEncryptionKey, |secret| {
        let text = Secret::new([9; 32]).to_base64().as_bytes().to_vec();
        secret
            .data
            .as_mut()
            .unwrap()
            .insert("LIMPET_KEK_2".to_owned(), ByteString(text));
    });
    look(&mut state, &store);
    assert_eq!(state.served().unwrap(), before);
    store.change(KeyringSecret::KeyEncryptionKey, |secret| {
        secret.data.as_mut().unwrap().remove("LIMPET_KEK_1");
    });
    look(&mut state, &store);
    let after = state.served().unwrap();
    assert_eq!(after.key_encryption_keys[0].env, "LIMPET_KEK_2");
    assert_ne!(after.text, before.text);
}

#[test]
fn debug_shows_no_secret() {
    let (mut state, store) = established();
    look(&mut state, &store);
    let shown = format!("{state:?}");
    for made in 1..=store.secrets_made {
        let secret = Secret::new([made; 32]).to_base64();
        assert!(!shown.contains(&**secret), "{shown}");
        assert!(!shown.contains(&format!("{made}, {made}, {made}")), "{shown}");
    }
    assert!(!shown.contains("keyring.json"), "{shown}");
}

#[test]
fn too_many_retiring_keys_hold_up_the_next_rotation_and_that_is_told() {
    let (mut state, mut store) = established();
    for round in 0..MAX_RETIRING {
        store.annotate(&format!("round {round}"));
        while turn(&mut state, &mut store, 100, true) {}
    }
    let retiring = |store: &Store| {
        let states = store.states().into_iter();
        states.filter(|(_, state)| *state == KeyStateConfig::Retiring).count()
    };
    assert_eq!(retiring(&store), MAX_RETIRING);
    assert!(state.problems(at(100)).is_empty());
    store.annotate("one more");
    assert!(!turn(&mut state, &mut store, 100, true));
    let problems = state.problems(at(100));
    assert!(
        problems[0].1.contains("8 keys retire, which is as many as may"),
        "{problems:?}"
    );
    assert!(turn(&mut state, &mut store, 100 + LIFE.as_secs(), true), "they go");
    assert!(
        turn(&mut state, &mut store, 100 + LIFE.as_secs(), true),
        "the next one begins"
    );
    assert!(state.problems(at(100 + LIFE.as_secs())).is_empty());
}

#[derive(Debug, Clone)]
enum Event {
    Look(usize),
    /// A replica acts as the leader, by what it saw last.
    Act(usize, bool),
    Die(usize),
    Wait(u64),
    Wish(u8),
    Revoke(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..3usize).prop_map(Event::Look),
        6 => (0..3usize, any::<bool>()).prop_map(|(replica, everywhere)| Event::Act(replica, everywhere)),
        1 => (0..3usize).prop_map(Event::Die),
        2 => (0..2000u64).prop_map(Event::Wait),
        1 => any::<u8>().prop_map(Event::Wish),
        1 => any::<usize>().prop_map(Event::Revoke),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whichever replica leads, however late it sees, and whenever it dies: the keyring takes each step once, in order
    /// and none too early, keeps every key that is still needed, and none that is revoked.
    #[test]
    fn a_rotation_survives_everything(events in prop::collection::vec(event(), 1..200)) {
        let (_, mut store) = established();
        let mut replicas = [(); 3].map(|()| KeyringState::new(config()));
        let mut now = 0;
        let mut revoked = Vec::new();
        for event in events {
            match event {
                Event::Look(replica) => look(&mut replicas[replica], &store),
                Event::Die(replica) => replicas[replica] = KeyringState::new(config()),
                Event::Wait(seconds) => now += seconds,
                Event::Wish(wish) => store.annotate(&wish.to_string()),
                Event::Revoke(which) => {
                    let states = store.states();
                    let (id, state) = states[which % states.len()];
                    if state != KeyStateConfig::Revoked {
                        store.set_annotation(REVOKE, &id.to_string());
                    }
                }
                Event::Act(replica, everywhere) => {
                    let before = store.document();
                    let fresh = store.fresh();
                    let next = replicas[replica].next(at(now), Some(served(everywhere)), fresh);
                    let KeyringAction::Write(write) = next else { continue };
                    let done = what(&write);
                    if !store.write(write) {
                        prop_assert_eq!(before, store.document());
                        continue;
                    }
                    let after = store.document();
                    check_write(&done, &before, &after, at(now), everywhere)?;
                    if let Done::Revoked(ids) = done {
                        let gone = before.keys.iter().filter(|key| ids.contains(&key.id));
                        revoked.extend(gone.filter_map(|key| key.secret.clone()));
                    }
                }
            }
            let document = store.document();
            prop_assert!(document.check().is_ok());
            let comes_back = document.keys.iter().any(|key| key.secret.as_ref().is_some_and(|it| revoked.contains(it)));
            prop_assert!(!comes_back, "a revoked key counts again");
            let asked: BTreeSet<u8> = store.annotation(REVOKE).iter().filter_map(|id| id.parse().ok()).collect();
            let there = document.keys.iter().map(|key| key.id).collect();
            prop_assert!(asked.is_subset(&there), "a revocation has lost its key");
            let count = |state| document.keys.iter().filter(|key| key.state == state).count();
            prop_assert!(count(KeyStateConfig::Retiring) <= MAX_RETIRING);
            prop_assert!(count(KeyStateConfig::Revoked) <= MAX_REVOKED);
        }
    }
}

enum Done {
    Step(RotationStep),
    Revoked(BTreeSet<u8>),
    Told,
    Created,
}

fn what(write: &KeyringWrite) -> Done {
    match write {
        KeyringWrite::Step(step, _) => Done::Step(step.clone()),
        KeyringWrite::Revoke(ids, _) => Done::Revoked(ids.clone()),
        KeyringWrite::RevocationDone(..) => Done::Told,
        KeyringWrite::Create(..) => Done::Created,
    }
}

fn check_write(
    done: &Done,
    before: &KeyringDocument,
    after: &KeyringDocument,
    now: Timestamp,
    everywhere: bool,
) -> Result<(), TestCaseError> {
    use KeyStateConfig::{Retiring, Revoked, Signing, Verifying};
    let changed: Vec<(Option<KeyStateConfig>, Option<KeyStateConfig>)> = (0..=u8::MAX)
        .map(|id| {
            let of = |document: &KeyringDocument| document.keys.iter().find(|key| key.id == id).map(|key| key.state);
            (of(before), of(after))
        })
        .filter(|(before, after)| before != after)
        .collect();
    let expected: &[_] = match done {
        Done::Step(RotationStep::Introduce) => &[(None, Some(Verifying))],
        Done::Step(RotationStep::Sign(_)) => &[(Some(Signing), Some(Verifying)), (Some(Verifying), Some(Signing))],
        Done::Step(RotationStep::Retire(_)) => &[(Some(Verifying), Some(Retiring))],
        Done::Step(RotationStep::Remove(ids)) => {
            let over = |id: &u8| {
                let key = before.keys.iter().find(|key| key.id == *id).unwrap();
                let since = crate::tools::keys::rotation::since(key).unwrap();
                matches!(key.state, Retiring | Revoked) && since.after(LIFE) <= now
            };
            prop_assert!(ids.iter().all(over), "too early: {:?}", before);
            let kept = before.keys.iter().filter(|key| !ids.contains(&key.id)).cloned();
            prop_assert_eq!(kept.collect::<Vec<_>>(), after.keys.clone());
            return Ok(());
        }
        Done::Revoked(ids) => {
            let live = after.keys.iter().filter(|key| key.secret.is_some());
            prop_assert!(live.into_iter().all(|key| !ids.contains(&key.id)));
            return Ok(());
        }
        Done::Told => &[],
        Done::Created => &[(None, None)],
    };
    let in_any_order = |list: &[(Option<KeyStateConfig>, Option<KeyStateConfig>)]| {
        let mut words: Vec<String> = list.iter().map(|change| format!("{change:?}")).collect();
        words.sort();
        words
    };
    prop_assert_eq!(in_any_order(&changed), in_any_order(expected));
    let waits = matches!(
        done,
        Done::Step(RotationStep::Sign(_) | RotationStep::Retire(_)) | Done::Told
    );
    prop_assert!(everywhere || !waits, "not every Envoy had it");
    Ok(())
}
