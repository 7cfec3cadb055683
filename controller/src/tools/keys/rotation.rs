//! The rotation of a keyring: its phase, and the step to the next one. Pure: time and random bytes are arguments.

use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

use crate::time_format;
use limpet_core::config::schema::KeyStateConfig;
use limpet_core::config::{KeyDocument, KeyringDocument};
use limpet_core::keyring::Secret;
use limpet_core::time::Timestamp;

/// The phase of a rotation. Every Envoy must have one phase before the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No rotation is under way.
    Settled,
    /// 1: the new key, at this index, verifies.
    Introduced(usize),
    /// 2: the new key signs; the old one, at this index, verifies.
    Signing(usize),
    /// 3: the old keys retire, and may be removed at this time; `None` if it is not known since when they retire.
    Retiring(Option<Timestamp>),
}

impl Phase {
    /// 1 to 3; `None` without a rotation.
    pub(crate) fn number(self) -> Option<u8> {
        match self {
            Self::Settled => None,
            Self::Introduced(_) => Some(1),
            Self::Signing(_) => Some(2),
            Self::Retiring(_) => Some(3),
        }
    }
}

/// A field that cannot be read, or states that no rotation gives: the field, and what was expected of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unfit(String);

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) fn new_key(id: u8, state: KeyStateConfig, now: Timestamp, secret: Secret) -> KeyDocument {
    KeyDocument {
        id,
        state,
        secret,
        created: Some(time_format::exact(now)),
        since: Some(time_format::exact(now)),
    }
}

/// Checks that all times of a document can be read.
///
/// # Errors
/// If one cannot be read.
pub(crate) fn check_times(document: &KeyringDocument) -> Result<(), Unfit> {
    for (i, key) in document.keys.iter().enumerate() {
        for (name, time) in [("created", &key.created), ("since", &key.since)] {
            if let Some(Err(error)) = time.as_deref().map(time_format::parse) {
                return Err(Unfit(format!("keys[{i}].{name}: {error}")));
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

/// The phase of a keyring; `life`: how long a token may live unused.
///
/// # Errors
/// If the keys have states that no rotation gives them.
pub(crate) fn phase(document: &KeyringDocument, life: Duration) -> Result<Phase, Unfit> {
    let keys = &document.keys;
    let signing = signing(document);
    let others: Vec<usize> = (0..keys.len()).filter(|i| *i != signing).collect();
    let state = |i: &usize| keys.get(*i).map(|key| key.state);
    let created = |i: usize| created(keys.get(i)?);
    match others.as_slice() {
        [] => Ok(Phase::Settled),
        others if others.iter().all(|i| state(i) == Some(KeyStateConfig::Retiring)) => {
            let since: Option<Vec<Timestamp>> = others.iter().map(|i| since(keys.get(*i)?)).collect();
            let last = since.and_then(|times| times.into_iter().max());
            Ok(Phase::Retiring(last.map(|last| last.after(life))))
        }
        // The key that verifies is the new one in phase 1, the old one in phase 2.
        [other] => match created(*other).cmp(&created(signing)) {
            Ordering::Greater => Ok(Phase::Introduced(*other)),
            Ordering::Less => Ok(Phase::Signing(*other)),
            Ordering::Equal => Err(unknown(
                "a created time of one at least, to tell the new key from the old one",
            )),
        },
        _ => Err(unknown(
            "one that signs and at most one that verifies, or others that retire",
        )),
    }
}

fn unknown(expected: &str) -> Unfit {
    Unfit(format!("keys: expected {expected}; change this by hand"))
}

/// Takes a keyring from `phase`, its own, to the next one; `fresh`: the secret of the new key, if one is added. The
/// caller decides whether it is time.
pub(crate) fn step(document: &mut KeyringDocument, phase: Phase, now: Timestamp, fresh: Secret) {
    let signing = signing(document);
    match phase {
        Phase::Settled => {
            let last = document.keys.get(signing).map_or(0, |key| key.id);
            // Later than the other key, whatever the clock says: the next phase recognizes the new key by that.
            let latest = document.keys.iter().filter_map(created).max();
            let made = latest.map_or(now, |latest| now.max(latest.after(Duration::from_millis(1))));
            // The ids of removed keys come back after 255 rotations.
            let new = new_key(last.wrapping_add(1), KeyStateConfig::Verifying, made, fresh);
            document.keys.push(new);
        }
        Phase::Introduced(new) => {
            set(document, signing, KeyStateConfig::Verifying, now);
            set(document, new, KeyStateConfig::Signing, now);
        }
        Phase::Signing(old) => set(document, old, KeyStateConfig::Retiring, now),
        Phase::Retiring(_) => document.keys.retain(|key| key.state != KeyStateConfig::Retiring),
    }
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
