use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret as SecretObject;

use super::config::KeyringConfig;
use super::content::{self, BrokenKeyring, KeyEncryptionKeys, KeyringContent, Revocation};
use super::schedule::{self, KeyringRollout, RotationInputs, RotationStepDue};
use crate::cluster::kube::ZeroizingSecret;
use crate::cluster::reconcile::own_secret;
use crate::tools::keys::rotation::{self, MAX_RETIRING, RotationPhase, RotationStep};
use limpet_core::config::KeyringDocument;
use limpet_core::config::schema::WrappedKeysConfig;
use limpet_core::keyring::Secret;
use limpet_core::time::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KeyringSecret {
    Keyring,
    KeyEncryptionKey,
}

#[derive(Debug)]
pub(super) enum KeyringWrite {
    Create(KeyringSecret, ZeroizingSecret),
    Step(RotationStep, ZeroizingSecret),
    Revoke(BTreeSet<u8>, ZeroizingSecret),
    /// Every Envoy has the keyring with these keys revoked.
    RevocationDone(BTreeSet<u8>, ZeroizingSecret),
}

#[derive(Debug)]
pub(super) enum KeyringAction {
    Write(KeyringWrite),
    /// `None`: until something changes.
    Wait(Option<Duration>),
}

#[derive(Debug)]
struct ObservedSecret<T> {
    found: SecretState<T>,
    /// The last valid content.
    good: Option<T>,
}

#[derive(Debug)]
enum SecretState<T> {
    Unknown,
    Missing,
    There(ZeroizingSecret, Result<T, BrokenKeyring>),
}

impl<T: Clone> ObservedSecret<T> {
    fn new() -> Self {
        Self {
            found: SecretState::Unknown,
            good: None,
        }
    }

    fn observe(&mut self, secret: Option<SecretObject>, read: impl Fn(&SecretObject) -> Result<T, BrokenKeyring>) {
        self.found = match secret {
            Some(secret) => {
                let content = read(&secret);
                if let Ok(content) = &content {
                    self.good = Some(content.clone());
                }
                SecretState::There(ZeroizingSecret::new(secret), content)
            }
            None => SecretState::Missing,
        };
    }

    fn uid(&self) -> String {
        match &self.found {
            SecretState::There(secret, _) => secret.object().metadata.uid.clone().unwrap_or_default(),
            _ => String::new(),
        }
    }

    fn unknown_annotations(&self, known: &[&str]) -> Option<String> {
        match &self.found {
            SecretState::There(secret, _) => own_secret::unknown_annotations(secret.object(), known),
            _ => None,
        }
    }

    fn broken(&self) -> Option<&BrokenKeyring> {
        match &self.found {
            SecretState::There(_, Err(broken)) => Some(broken),
            _ => None,
        }
    }
}

/// What the Secret with the keyring says, for a person.
#[derive(Debug)]
pub(crate) struct KeyringReading {
    /// `None`: it is broken.
    pub(crate) document: Option<KeyringDocument>,
    /// What a person must correct.
    pub(crate) problems: Vec<String>,
    /// The keys that are to be revoked, or are, while not every Envoy knows.
    pub(crate) revoking: BTreeSet<u8>,
    /// Whether a rotation was asked for that has not begun.
    pub(crate) is_rotation_requested: bool,
}

/// Reads the Secret with the keyring.
pub(crate) fn read(config: &KeyringConfig, secret: SecretObject, now: Timestamp) -> KeyringReading {
    let mut state = KeyringState::new(config.clone());
    state.saw(KeyringSecret::Keyring, Some(secret));
    let problems = state.problems(now).into_iter().map(|(_, problem)| problem).collect();
    let content = state.ring.good.as_ref();
    let revocation = content.and_then(|content| content.revocation.as_ref());
    KeyringReading {
        problems,
        revoking: match revocation {
            Some(Revocation::Due(ids) | Revocation::Done(ids)) => ids.clone(),
            Some(Revocation::Invalid(_)) | None => BTreeSet::new(),
        },
        is_rotation_requested: content.is_some_and(|content| content.rotation_request.is_some()),
        document: content.map(|content| content.document.clone()),
    }
}

#[derive(Debug)]
pub(super) struct KeyringState {
    config: KeyringConfig,
    ring: ObservedSecret<KeyringContent>,
    keys: ObservedSecret<KeyEncryptionKeys>,
}

impl KeyringState {
    pub(super) fn new(config: KeyringConfig) -> Self {
        Self {
            config,
            ring: ObservedSecret::new(),
            keys: ObservedSecret::new(),
        }
    }

    /// `None`: it does not exist.
    pub(super) fn saw(&mut self, which: KeyringSecret, secret: Option<SecretObject>) {
        match which {
            KeyringSecret::Keyring => self.ring.observe(secret, content::ring),
            KeyringSecret::KeyEncryptionKey => self.keys.observe(secret, KeyEncryptionKeys::read),
        }
    }

    /// The keyring to serve, from the last valid contents. `None`: none yet.
    pub(super) fn served(&self) -> Option<WrappedKeysConfig> {
        let (ring, keys) = (self.ring.good.as_ref()?, self.keys.good.as_ref()?);
        // Both were checked, so this does not fail.
        keys.wrap(&ring.document).ok()
    }

    pub(super) fn document(&self) -> Option<&KeyringDocument> {
        Some(&self.ring.good.as_ref()?.document)
    }

    /// Empty if it was not seen.
    pub(super) fn uid(&self, which: KeyringSecret) -> String {
        match which {
            KeyringSecret::Keyring => self.ring.uid(),
            KeyringSecret::KeyEncryptionKey => self.keys.uid(),
        }
    }

    pub(super) fn revoking(&self) -> Option<&BTreeSet<u8>> {
        self.ring.good.as_ref()?.revoking()
    }

    /// Problems for a person to correct.
    pub(super) fn problems(&self, now: Timestamp) -> Vec<(KeyringSecret, String)> {
        let ring = match &self.ring.found {
            SecretState::There(_, Ok(ring)) => Some(ring),
            _ => None,
        };
        let rotation = ring.and_then(|ring| rotation::phase(&ring.document).err());
        let revocation = ring.and_then(|ring| match &ring.revocation {
            Some(Revocation::Invalid(broken)) => Some(broken),
            _ => None,
        });
        let broken = |which, broken: Option<&BrokenKeyring>| {
            let message = format!("{}; the previous content stays in use, if there was any", broken?);
            Some((which, message))
        };
        let unknown = |which, message: Option<String>| Some((which, message?));
        let all = [
            unknown(
                KeyringSecret::Keyring,
                self.ring.unknown_annotations(&content::ANNOTATIONS),
            ),
            unknown(KeyringSecret::KeyEncryptionKey, self.keys.unknown_annotations(&[])),
            broken(KeyringSecret::Keyring, self.ring.broken()),
            broken(KeyringSecret::KeyEncryptionKey, self.keys.broken()),
            revocation.map(|broken| (KeyringSecret::Keyring, broken.to_string())),
            rotation.map(|unfit| (KeyringSecret::Keyring, format!("it is served and not rotated: {unfit}"))),
            ring.filter(|ring| self.is_held_up(ring, now))
                .map(|_| (KeyringSecret::Keyring, held_up())),
        ];
        all.into_iter().flatten().collect()
    }

    pub(super) fn missing(&self) -> Option<String> {
        fn why<T>(seen: &ObservedSecret<T>) -> Option<&'static str> {
            match (&seen.good, &seen.found) {
                (Some(_), _) => None,
                (None, SecretState::Unknown) => Some("was not read yet"),
                (None, SecretState::Missing) => Some("is not there yet"),
                (None, SecretState::There(..)) => Some("is broken"),
            }
        }
        let KeyringConfig {
            secret: name,
            key_encryption_key_secret: key_encryption_key,
            ..
        } = &self.config;
        let ring = why(&self.ring).map(|why| format!("the Secret {name} {why}"));
        ring.or_else(|| why(&self.keys).map(|why| format!("the Secret {key_encryption_key} {why}")))
    }

    /// `fresh`: the secret of a new key, if one is made.
    pub(super) fn next(&self, now: Timestamp, served: Option<KeyringRollout>, fresh: Secret) -> KeyringAction {
        let KeyringConfig {
            secret: name,
            key_encryption_key_secret: key_encryption_key,
            ..
        } = &self.config;
        // Nothing is created before both Secrets were read. An invalid Secret is never replaced.
        let create = match (&self.keys.found, &self.ring.found) {
            (SecretState::Unknown, _) | (_, SecretState::Unknown) => return KeyringAction::Wait(None),
            (SecretState::Missing, _) => {
                // A deleted Secret is created with the same keys: no running Envoy could open a keyring under others.
                let keys = self.keys.good.clone();
                let keys = keys.unwrap_or_else(|| KeyEncryptionKeys::one(1, fresh));
                KeyringWrite::Create(KeyringSecret::KeyEncryptionKey, keys.object(key_encryption_key))
            }
            (_, SecretState::Missing) => {
                // With the same keyring: with another one, all sessions would end.
                let ring = self.ring.good.as_ref().map(|ring| ring.document.clone());
                let ring = ring.unwrap_or_else(|| content::first_ring(now, fresh));
                KeyringWrite::Create(KeyringSecret::Keyring, content::new_ring(name, &ring))
            }
            (_, SecretState::There(secret, Ok(ring))) => return self.step(secret, ring, now, served, fresh),
            (_, SecretState::There(_, Err(_))) => return KeyringAction::Wait(None),
        };
        KeyringAction::Write(create)
    }

    fn situation(&self, ring: &KeyringContent, now: Timestamp, served: Option<KeyringRollout>) -> RotationInputs {
        RotationInputs {
            now,
            rotate_every: self.config.rotate_every.get(),
            phase_time: self.config.phase_time.get(),
            requested: ring.rotation_request.is_some(),
            revoking: ring.revoking().cloned().unwrap_or_default(),
            served,
        }
    }

    /// Whether a due rotation cannot begin: too many keys retire.
    fn is_held_up(&self, ring: &KeyringContent, now: Timestamp) -> bool {
        let situation = self.situation(ring, now, None);
        let is_between = matches!(rotation::phase(&ring.document), Ok(RotationPhase::Retiring));
        let is_due = || matches!(schedule::begin(&ring.document, &situation), RotationStepDue::Now(_));
        is_between && rotation::is_full(&ring.document) && is_due()
    }

    fn step(
        &self,
        secret: &ZeroizingSecret,
        ring: &KeyringContent,
        now: Timestamp,
        served: Option<KeyringRollout>,
        fresh: Secret,
    ) -> KeyringAction {
        // This waits neither for Envoys nor for a phase of a rotation.
        if let Some(Revocation::Due(ids)) = &ring.revocation {
            return revoke(secret, ring, ids, now, fresh);
        }
        let situation = self.situation(ring, now, served);
        let rest = match (ring.revoking(), served) {
            (Some(ids), Some(served)) if served.everywhere => {
                let rest = situation.phase_time.saturating_sub(served.since);
                if rest.is_zero() {
                    let done = content::with_revocation_done(secret.object());
                    return KeyringAction::Write(KeyringWrite::RevocationDone(ids.clone(), done));
                }
                Some(rest)
            }
            _ => None,
        };
        // A keyring that no rotation makes is reported by `problems`.
        let due = schedule::next_step(&ring.document, &situation).unwrap_or(RotationStepDue::Never);
        let further = match due {
            RotationStepDue::Now(step) => return rotate(secret, ring, step, now, fresh),
            RotationStepDue::In(rest) => Some(rest),
            RotationStepDue::Published | RotationStepDue::Never => None,
        };
        KeyringAction::Wait([rest, further].into_iter().flatten().min())
    }
}

fn revoke(
    secret: &ZeroizingSecret,
    ring: &KeyringContent,
    ids: &BTreeSet<u8>,
    now: Timestamp,
    fresh: Secret,
) -> KeyringAction {
    let mut document = ring.document.clone();
    if let Err(error) = rotation::revoke(&mut document, ids, now, fresh) {
        tracing::error!(%error, "keys cannot be revoked");
        return KeyringAction::Wait(None);
    }
    let revoked = content::with_ring(secret.object(), &document, None);
    KeyringAction::Write(KeyringWrite::Revoke(ids.clone(), revoked))
}

fn rotate(
    secret: &ZeroizingSecret,
    ring: &KeyringContent,
    step: RotationStep,
    now: Timestamp,
    fresh: Secret,
) -> KeyringAction {
    let mut document = ring.document.clone();
    if let Err(error) = rotation::step(&mut document, &step, now, fresh) {
        tracing::error!(%error, "keys cannot be rotated");
        return KeyringAction::Wait(None);
    }
    let heeded = ring
        .rotation_request
        .as_deref()
        .filter(|_| step == RotationStep::Introduce);
    let rotated = content::with_ring(secret.object(), &document, heeded);
    KeyringAction::Write(KeyringWrite::Step(step, rotated))
}

fn held_up() -> String {
    format!(
        "a rotation is due, and {MAX_RETIRING} keys retire, which is as many as may: it begins when the first of them \
         goes; a lower maxSessionLife or a higher keyring.rotateEvery helps"
    )
}
