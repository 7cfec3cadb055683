//! `limpet.dev/revoke`: a key counts nothing from the next write on.

use super::super::content::REVOKED;
use super::*;

#[test]
fn a_revoked_signing_key_is_replaced_in_the_same_write() {
    use KeyStateConfig::{Revoked, Signing};
    let (mut state, mut store) = established();
    look(&mut state, &store);
    let leaked = store.document().keys[0].secret.as_ref().unwrap().to_base64();
    store.set_annotation(REVOKE, "1");
    // Whether or not Envoys have the keyring as it is.
    assert!(turn(&mut state, &mut store, 100, false));
    assert_eq!(store.states(), [(1, Revoked), (2, Signing)]);
    let data = store.secrets[&KeyringSecret::Keyring].data.as_ref().unwrap();
    let text = String::from_utf8(data["keyring.json"].0.clone()).unwrap();
    assert!(!text.contains(&**leaked), "the bytes are still there");
    assert_eq!(store.annotation(REVOKE).unwrap(), "1", "until all Envoys know");
    assert!(!turn(&mut state, &mut store, 101, false));
    assert!(state.revoking().is_some());
    let mut state = KeyringState::new(config());
    assert!(turn(&mut state, &mut store, 102, true));
    assert_eq!(
        (store.annotation(REVOKE), store.annotation(REVOKED).unwrap()),
        (None, "1".to_owned())
    );
    look(&mut state, &store);
    assert!(state.revoking().is_none());
    assert!(!turn(&mut state, &mut store, 103, true), "once");
    // While tokens of the key may come, the id stays.
    assert!(turn(&mut state, &mut store, 100 + LIFE.as_secs(), true));
    assert_eq!(store.states(), [(2, Signing)]);
}

#[test]
fn a_revocation_waits_for_no_phase() {
    use KeyStateConfig::{Revoked, Signing};
    // Phase 1: Envoys that know a key already know the one that signs now.
    let (mut state, mut store) = established();
    store.annotate("now");
    assert!(turn(&mut state, &mut store, 100, true));
    store.set_annotation(REVOKE, "1");
    assert!(turn(&mut state, &mut store, 100, false));
    assert_eq!(store.states(), [(1, Revoked), (2, Signing)]);
    // Phase 2: the old key signs again.
    let (mut state, mut store) = established();
    store.annotate("now");
    assert!(turn(&mut state, &mut store, 100, true) && turn(&mut state, &mut store, 100, true));
    store.set_annotation(REVOKE, "2");
    assert!(turn(&mut state, &mut store, 100, false));
    assert_eq!(store.states(), [(1, Signing), (2, Revoked)]);
    let (mut state, mut store) = established();
    store.annotate("now");
    assert!(turn(&mut state, &mut store, 100, true));
    store.set_annotation(REVOKE, "1, 2");
    assert!(turn(&mut state, &mut store, 100, false));
    assert_eq!(store.states(), [(1, Revoked), (2, Revoked), (3, Signing)]);
}

#[test]
fn a_revocation_of_no_key_is_told_and_changes_nothing() {
    for wrong in ["7", "", "1,7", "one", "300", "1;2"] {
        let (mut state, mut store) = established();
        let before = store.document();
        store.set_annotation(REVOKE, wrong);
        assert!(!turn(&mut state, &mut store, 100, true), "{wrong}");
        assert_eq!(store.document(), before);
        let problems = state.problems(at(100));
        let expected = format!(
            "metadata.annotations[limpet.dev/revoke]: expected ids of keys of the keyring (1), with commas between \
             them, found {wrong:?}: nothing is revoked"
        );
        assert_eq!(problems, [(KeyringSecret::Keyring, expected)]);
        store.annotate("now");
        assert!(turn(&mut state, &mut store, 100, true));
    }
}

#[test]
fn a_revocation_outlasts_the_life_of_its_key() {
    use KeyStateConfig::{Revoked, Signing};
    let (mut state, mut store) = established();
    store.set_annotation(REVOKE, "1");
    assert!(turn(&mut state, &mut store, 100, false));
    // An Envoy does not answer for longer than tokens of the key live.
    let late = 100 + 2 * LIFE.as_secs();
    assert!(!turn(&mut state, &mut store, late, false));
    assert_eq!(store.states(), [(1, Revoked), (2, Signing)]);
    assert_eq!(state.problems(at(late)), []);
    // First this is reported, then the id is removed.
    assert!(turn(&mut state, &mut store, late, true));
    assert_eq!(store.annotation(REVOKED).unwrap(), "1");
    assert!(turn(&mut state, &mut store, late, true));
    assert_eq!(store.states(), [(2, Signing)]);
}

#[test]
fn a_revocation_of_many_keys_keeps_all_their_ids() {
    let (mut state, mut store) = established();
    let mut document = store.document();
    let last = u8::try_from(MAX_REVOKED).unwrap() + 4;
    for id in 2..=last {
        let mut key = document.keys[0].clone();
        (key.id, key.state) = (id, KeyStateConfig::Retiring);
        document.keys.push(key);
    }
    store.change(KeyringSecret::Keyring, |secret| {
        let json = serde_json::to_vec(&document).unwrap();
        let data = secret.data.as_mut().unwrap();
        data.insert("keyring.json".to_owned(), ByteString(json));
    });
    let ids: Vec<String> = (1..=last).map(|id| id.to_string()).collect();
    store.set_annotation(REVOKE, &ids.join(","));
    assert!(turn(&mut state, &mut store, 100, false));
    look(&mut state, &store);
    assert_eq!(state.problems(at(100)), []);
    assert_eq!(state.revoking().unwrap().len(), ids.len());
    assert_eq!(store.states().last().unwrap(), &(last + 1, KeyStateConfig::Signing));
}

#[test]
fn a_misspelt_annotation_is_told_with_those_that_exist() {
    let (mut state, mut store) = established();
    store.set_annotation("limpet.dev/revok", "1");
    store.set_annotation("example.com/note", "1");
    assert!(!turn(&mut state, &mut store, 100, true));
    let expected = "metadata.annotations[limpet.dev/revok]: expected no annotation of this name, but \
                    limpet.dev/revoke, limpet.dev/revoked, limpet.dev/rotate, limpet.dev/rotated; it has no effect";
    assert_eq!(state.problems(at(100)), [(KeyringSecret::Keyring, expected.to_owned())]);
    store.change(KeyringSecret::KeyEncryptionKey, |secret| {
        let annotations = secret.metadata.annotations.get_or_insert_default();
        annotations.insert(ROTATE.to_owned(), "now".to_owned());
    });
    look(&mut state, &store);
    let problems = state.problems(at(100));
    assert!(
        problems
            .iter()
            .any(|(which, _)| *which == KeyringSecret::KeyEncryptionKey),
        "{problems:?}"
    );
}
