//! The rotation of a keyring: its phase, and the steps to the next one; and how a key is revoked. Pure: time and random
//! bytes are arguments.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::time_format;
use limpet_core::config::schema::KeyStateConfig;
use limpet_core::config::{KeyDocument, KeyringDocument};
use limpet_core::keyring::Secret;
use limpet_core::time::Timestamp;

/// How many keys may retire at once. Each one costs every Envoy some 500 bytes for each scope, and a request nothing.
pub(crate) const MAX_RETIRING: usize = 8;
/// How many revoked keys are remembered, besides those that one revocation names. Tokens of the others have unknown
/// keys.
pub(crate) const MAX_REVOKED: usize = 16;

/// The phase of a rotation. Every Envoy must have one phase before the next one begins. Keys of former rotations may
/// retire in every phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RotationPhase {
    /// No rotation is under way, and no key retires.
    Settled,
    /// 1: the new key, at this index, verifies.
    Introduced(usize),
    /// 2: the new key signs; the old one, at this index, verifies.
    Signing(usize),
    /// 3: old keys retire. Another rotation may begin.
    Retiring,
}

impl RotationPhase {
    /// 1 to 3; `None` without a rotation.
    pub(crate) fn number(self) -> Option<u8> {
        match self {
            Self::Settled => None,
            Self::Introduced(_) => Some(1),
            Self::Signing(_) => Some(2),
            Self::Retiring => Some(3),
        }
    }
}

/// One step of a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RotationStep {
    /// A new key verifies.
    Introduce,
    /// The new key, at this index, signs.
    Sign(usize),
    /// The old key, at this index, retires.
    Retire(usize),
    /// The keys with these ids go. Their tokens have ended.
    Remove(BTreeSet<u8>),
}

/// A key that goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetiredKey {
    pub(crate) id: u8,
    /// Whether it retires; else it is revoked.
    pub(crate) retires: bool,
    /// When no token of it can be alive; `None` if it is not known since when it goes.
    pub(crate) end: Option<Timestamp>,
}

/// A field that cannot be read, or states that no rotation gives: the field, and what was expected of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RotationError(String);

impl fmt::Display for RotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) fn new_key(id: u8, state: KeyStateConfig, now: Timestamp, secret: Secret) -> KeyDocument {
    KeyDocument {
        id,
        state,
        secret: Some(secret),
        created: Some(time_format::exact(now)),
        since: Some(time_format::exact(now)),
    }
}

/// Checks that all times of a document can be read.
///
/// # Errors
/// If one cannot be read.
pub(crate) fn check_times(document: &KeyringDocument) -> Result<(), RotationError> {
    for (i, key) in document.keys.iter().enumerate() {
        for (name, time) in [("created", &key.created), ("since", &key.since)] {
            if let Some(Err(error)) = time.as_deref().map(time_format::parse) {
                return Err(RotationError(format!("keys[{i}].{name}: {error}")));
            }
        }
    }
    Ok(())
}

/// The index of the key that signs.
pub(crate) fn signing(document: &KeyringDocument) -> usize {
    let mut keys = document.keys.iter();
    keys.position(|key| key.state == KeyStateConfig::Signing).unwrap_or(0)
}

/// The phase of a keyring.
///
/// # Errors
/// If the keys have states that no rotation gives them.
pub(crate) fn phase(document: &KeyringDocument) -> Result<RotationPhase, RotationError> {
    let keys = &document.keys;
    let made = |at: usize| keys.get(at).and_then(created);
    let with = |state| (0..keys.len()).filter(move |at| keys.get(*at).is_some_and(|key| key.state == state));
    let verifying: Vec<usize> = with(KeyStateConfig::Verifying).collect();
    match *verifying.as_slice() {
        [] if with(KeyStateConfig::Retiring).next().is_none() => Ok(RotationPhase::Settled),
        [] => Ok(RotationPhase::Retiring),
        // The key that verifies is the new one in phase 1, the old one in phase 2.
        [other] => match made(other).cmp(&made(signing(document))) {
            Ordering::Greater => Ok(RotationPhase::Introduced(other)),
            Ordering::Less => Ok(RotationPhase::Signing(other)),
            Ordering::Equal => Err(unknown(
                "a created time of one at least, to tell the new key from the old one",
            )),
        },
        _ => Err(unknown(
            "at most one that verifies, beside those that sign, retire or are revoked",
        )),
    }
}

fn unknown(expected: &str) -> RotationError {
    RotationError(format!("keys: expected {expected}; change this by hand"))
}

/// The keys that retire or are revoked; `life`: how long a token may live unused. The first one to go is the first.
pub(crate) fn going(document: &KeyringDocument, life: Duration) -> Vec<RetiredKey> {
    let goes = |key: &&KeyDocument| matches!(key.state, KeyStateConfig::Retiring | KeyStateConfig::Revoked);
    let going = document.keys.iter().filter(goes).map(|key| RetiredKey {
        id: key.id,
        retires: key.state == KeyStateConfig::Retiring,
        end: since(key).map(|since| since.after(life)),
    });
    let mut going: Vec<RetiredKey> = going.collect();
    going.sort_by_key(|going| (going.end.is_none(), going.end));
    going
}

/// Whether no more keys may retire, so that no rotation may begin.
pub(crate) fn is_full(document: &KeyringDocument) -> bool {
    let retiring = document.keys.iter().filter(|key| key.state == KeyStateConfig::Retiring);
    retiring.count() >= MAX_RETIRING
}

/// Takes one step of a rotation; `fresh`: the secret of the new key, if one is added. The caller decides whether it is
/// time.
///
/// # Errors
/// If a key is added and all ids are in use.
pub(crate) fn step(
    document: &mut KeyringDocument,
    step: &RotationStep,
    now: Timestamp,
    fresh: Secret,
) -> Result<(), RotationError> {
    match step {
        RotationStep::Introduce => add(document, KeyStateConfig::Verifying, now, fresh)?,
        RotationStep::Sign(new) => {
            let old = signing(document);
            set(document, old, KeyStateConfig::Verifying, now);
            set(document, *new, KeyStateConfig::Signing, now);
        }
        RotationStep::Retire(old) => set(document, *old, KeyStateConfig::Retiring, now),
        RotationStep::Remove(ids) => document.keys.retain(|key| !ids.contains(&key.id)),
    }
    Ok(())
}

/// Adds a key with the first free id after the newest key's.
fn add(
    document: &mut KeyringDocument,
    state: KeyStateConfig,
    now: Timestamp,
    fresh: Secret,
) -> Result<(), RotationError> {
    let age = |key: &&KeyDocument| (created(key), key.state == KeyStateConfig::Signing, key.id);
    let last = document.keys.iter().max_by_key(age).map_or(0, |key| key.id);
    let is_free = |id: &u8| document.keys.iter().all(|key| key.id != *id);
    // The ids of removed keys come back after 255 new keys.
    let id = (1..=u8::MAX).map(|further| last.wrapping_add(further)).find(is_free);
    let id = id.ok_or_else(|| unknown("fewer than 256"))?;
    // Later than the other keys, whatever the clock says: the next phase recognizes the new key by that.
    let latest = document.keys.iter().filter_map(created).max();
    let made = latest.map_or(now, |latest| now.max(latest.after(Duration::from_millis(1))));
    document.keys.push(new_key(id, state, made, fresh));
    Ok(())
}

/// Revokes keys: their secrets are forgotten, and their ids stay. If none signs any more, the key that verifies does,
/// because Envoys know it; else a new one, of the secret `fresh`.
///
/// # Errors
/// If an id is none of the keyring, or a key is added and all ids are in use.
pub(crate) fn revoke(
    document: &mut KeyringDocument,
    ids: &BTreeSet<u8>,
    now: Timestamp,
    fresh: Secret,
) -> Result<(), RotationError> {
    let there: BTreeSet<u8> = document.keys.iter().map(|key| key.id).collect();
    if let Some(stranger) = ids.difference(&there).next() {
        let there: Vec<String> = there.iter().map(u8::to_string).collect();
        let there = there.join(", ");
        return Err(RotationError(format!(
            "expected ids of keys of the keyring ({there}), found {stranger}"
        )));
    }
    for key in document.keys.iter_mut().filter(|key| ids.contains(&key.id)) {
        if key.state != KeyStateConfig::Revoked {
            key.state = KeyStateConfig::Revoked;
            key.since = Some(time_format::exact(now));
        }
        key.secret = None;
    }
    forget_oldest_revoked(document, ids);
    let mut states = document.keys.iter().map(|key| key.state);
    if states.any(|state| state == KeyStateConfig::Signing) {
        return Ok(());
    }
    let mut keys = document.keys.iter();
    match keys.position(|key| key.state == KeyStateConfig::Verifying) {
        Some(other) => set(document, other, KeyStateConfig::Signing, now),
        None => add(document, KeyStateConfig::Signing, now, fresh)?,
    }
    Ok(())
}

/// Those that were just revoked stay: a waiting command looks for them.
fn forget_oldest_revoked(document: &mut KeyringDocument, just_revoked: &BTreeSet<u8>) {
    let is_revoked = |key: &&KeyDocument| key.state == KeyStateConfig::Revoked && !just_revoked.contains(&key.id);
    let revoked = document.keys.iter().filter(is_revoked);
    let mut revoked: Vec<(Option<Timestamp>, u8)> = revoked.map(|key| (since(key), key.id)).collect();
    revoked.sort_unstable();
    let excess = revoked
        .len()
        .saturating_sub(MAX_REVOKED.saturating_sub(just_revoked.len()));
    let forgotten: BTreeSet<u8> = revoked.into_iter().take(excess).map(|(_, id)| id).collect();
    document.keys.retain(|key| !forgotten.contains(&key.id));
}

fn set(document: &mut KeyringDocument, index: usize, state: KeyStateConfig, now: Timestamp) {
    if let Some(key) = document.keys.get_mut(index) {
        key.state = state;
        key.since = Some(time_format::exact(now));
    }
}

/// When a key was made, as [`check_times`] has checked. `None` sorts before all times.
pub(crate) fn created(key: &KeyDocument) -> Option<Timestamp> {
    time_format::parse(key.created.as_deref()?).ok()
}

/// Since when a key has its state.
pub(crate) fn since(key: &KeyDocument) -> Option<Timestamp> {
    time_format::parse(key.since.as_deref()?).ok()
}
