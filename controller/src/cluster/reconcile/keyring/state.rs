//! What is known of both Secrets, which keyring is served, and what the leader writes next.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret as SecretObject;

use super::config::KeyringConfig;
use super::content::{self, Broken, KeyEncryptionKeys, Revocation, Ring};
use super::schedule::{self, Due, Served, Situation};
use crate::cluster::kube::Wiped;
use crate::cluster::reconcile::own_secret;
use crate::tools::keys::rotation::{self, MAX_RETIRING, Phase, Step};
use limpet_core::config::KeyringDocument;
use limpet_core::config::schema::WrappedKeysConfig;
use limpet_core::keyring::Secret;
use limpet_core::time::Timestamp;

/// Which of the two Secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Which {
    /// The one with the keyring.
    Keyring,
    /// The one with the key-encryption keys.
    KeyEncryptionKey,
}

#[derive(Debug)]
pub(super) enum Write {
    /// A missing Secret.
    Create(Which, Wiped),
    /// The keyring, one step further.
    Step(Step, Wiped),
    /// The keyring with these keys revoked.
    Revoke(BTreeSet<u8>, Wiped),
    /// Every Envoy has the keyring with these keys revoked.
    RevocationDone(BTreeSet<u8>, Wiped),
}

/// What the leader does next.
#[derive(Debug)]
pub(super) enum Next {
    Write(Write),
    /// Nothing for this time; `None`: until something changes.
    Wait(Option<Duration>),
}

/// A Secret as it was last seen.
#[derive(Debug)]
struct Seen<T> {
    found: Found<T>,
    /// The last valid content.
    good: Option<T>,
}

#[derive(Debug)]
enum Found<T> {
    /// It was not read yet.
    Unknown,
    /// It does not exist.
    Missing,
    There(Wiped, Result<T, Broken>),
}

impl<T: Clone> Seen<T> {
    fn new() -> Self {
        Self {
            found: Found::Unknown,
            good: None,
        }
    }

    fn see(&mut self, secret: Option<SecretObject>, read: impl Fn(&SecretObject) -> Result<T, Broken>) {
        self.found = match secret {
            Some(secret) => {
                let content = read(&secret);
                if let Ok(content) = &content {
                    self.good = Some(content.clone());
                }
                Found::There(Wiped::new(secret), content)
            }
            None => Found::Missing,
        };
    }

    fn uid(&self) -> String {
        match &self.found {
            Found::There(secret, _) => secret.object().metadata.uid.clone().unwrap_or_default(),
            _ => String::new(),
        }
    }

    /// What is wrong with the names of its annotations.
    fn unknown_annotations(&self, known: &[&str]) -> Option<String> {
        match &self.found {
            Found::There(secret, _) => own_secret::unknown_annotations(secret.object(), known),
            _ => None,
        }
    }

    fn broken(&self) -> Option<&Broken> {
        match &self.found {
            Found::There(_, Err(broken)) => Some(broken),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct State {
    config: KeyringConfig,
    ring: Seen<Ring>,
    keys: Seen<KeyEncryptionKeys>,
}

impl State {
    pub(super) fn new(config: KeyringConfig) -> Self {
        Self {
            config,
            ring: Seen::new(),
            keys: Seen::new(),
        }
    }

    /// Takes in what was read of a Secret; `None`: it does not exist.
    pub(super) fn saw(&mut self, which: Which, secret: Option<SecretObject>) {
        match which {
            Which::Keyring => self.ring.see(secret, content::ring),
            Which::KeyEncryptionKey => self.keys.see(secret, KeyEncryptionKeys::read),
        }
    }

    /// The keyring to serve, from the last valid content of each Secret. `None`: there was none yet.
    pub(super) fn served(&self) -> Option<WrappedKeysConfig> {
        let (ring, keys) = (self.ring.good.as_ref()?, self.keys.good.as_ref()?);
        // What was read has been checked, so this does not fail.
        keys.wrap(&ring.document).ok()
    }

    pub(super) fn document(&self) -> Option<&KeyringDocument> {
        Some(&self.ring.good.as_ref()?.document)
    }

    /// The uid of a Secret; empty if it was not seen.
    pub(super) fn uid(&self, which: Which) -> String {
        match which {
            Which::Keyring => self.ring.uid(),
            Which::KeyEncryptionKey => self.keys.uid(),
        }
    }

    /// The keys that were revoked, until every Envoy knows.
    pub(super) fn revoking(&self) -> Option<&BTreeSet<u8>> {
        self.ring.good.as_ref()?.revoking()
    }

    /// What a person must correct, and in which Secret.
    pub(super) fn problems(&self, now: Timestamp) -> Vec<(Which, String)> {
        let ring = match &self.ring.found {
            Found::There(_, Ok(ring)) => Some(ring),
            _ => None,
        };
        let rotation = ring.and_then(|ring| rotation::phase(&ring.document).err());
        let revocation = ring.and_then(|ring| match &ring.revocation {
            Some(Revocation::Invalid(broken)) => Some(broken),
            _ => None,
        });
        let broken = |which, broken: Option<&Broken>| {
            let message = format!("{}; the previous content stays in use, if there was any", broken?);
            Some((which, message))
        };
        let unknown = |which, message: Option<String>| Some((which, message?));
        let all = [
            unknown(Which::Keyring, self.ring.unknown_annotations(&content::ANNOTATIONS)),
            unknown(Which::KeyEncryptionKey, self.keys.unknown_annotations(&[])),
            broken(Which::Keyring, self.ring.broken()),
            broken(Which::KeyEncryptionKey, self.keys.broken()),
            revocation.map(|broken| (Which::Keyring, broken.to_string())),
            rotation.map(|unfit| (Which::Keyring, format!("it is served and not rotated: {unfit}"))),
            ring.filter(|ring| self.is_held_up(ring, now))
                .map(|_| (Which::Keyring, held_up())),
        ];
        all.into_iter().flatten().collect()
    }

    /// Why there is no keyring to serve; `None`: there is one.
    pub(super) fn missing(&self) -> Option<String> {
        fn why<T>(seen: &Seen<T>) -> Option<&'static str> {
            match (&seen.good, &seen.found) {
                (Some(_), _) => None,
                (None, Found::Unknown) => Some("was not read yet"),
                (None, Found::Missing) => Some("is not there yet"),
                (None, Found::There(..)) => Some("is broken"),
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

    /// What the leader does next. `fresh` becomes the secret of a new key, if one is made.
    pub(super) fn next(&self, now: Timestamp, served: Option<Served>, fresh: Secret) -> Next {
        let KeyringConfig {
            secret: name,
            key_encryption_key_secret: key_encryption_key,
            ..
        } = &self.config;
        // Nothing is created before both Secrets were read. An invalid Secret is never replaced.
        let create = match (&self.keys.found, &self.ring.found) {
            (Found::Unknown, _) | (_, Found::Unknown) => return Next::Wait(None),
            (Found::Missing, _) => {
                // A deleted Secret is created with the same keys: with others, no running Envoy could open its keyring.
                let keys = self.keys.good.clone();
                let keys = keys.unwrap_or_else(|| KeyEncryptionKeys::one(1, fresh));
                Write::Create(Which::KeyEncryptionKey, keys.object(key_encryption_key))
            }
            (_, Found::Missing) => {
                // With the same keyring: with another one, all sessions would end.
                let ring = self.ring.good.as_ref().map(|ring| ring.document.clone());
                let ring = ring.unwrap_or_else(|| content::first_ring(now, fresh));
                Write::Create(Which::Keyring, content::new_ring(name, &ring))
            }
            (_, Found::There(secret, Ok(ring))) => return self.step(secret, ring, now, served, fresh),
            (_, Found::There(_, Err(_))) => return Next::Wait(None),
        };
        Next::Write(create)
    }

    fn situation(&self, ring: &Ring, now: Timestamp, served: Option<Served>) -> Situation {
        Situation {
            now,
            rotate_every: self.config.rotate_every.get(),
            phase_time: self.config.phase_time.get(),
            wanted: ring.wanted.is_some(),
            revoking: ring.revoking().cloned().unwrap_or_default(),
            served,
        }
    }

    /// Whether a rotation is due that cannot begin, because too many keys retire.
    fn is_held_up(&self, ring: &Ring, now: Timestamp) -> bool {
        let situation = self.situation(ring, now, None);
        let is_between = matches!(rotation::phase(&ring.document), Ok(Phase::Retiring));
        let is_due = || matches!(schedule::begin(&ring.document, &situation), Due::Now(_));
        is_between && rotation::is_full(&ring.document) && is_due()
    }

    fn step(&self, secret: &Wiped, ring: &Ring, now: Timestamp, served: Option<Served>, fresh: Secret) -> Next {
        // This waits for nothing: not for Envoys, and not for a phase of a rotation.
        if let Some(Revocation::Due(ids)) = &ring.revocation {
            return revoke(secret, ring, ids, now, fresh);
        }
        let situation = self.situation(ring, now, served);
        let rest = match (ring.revoking(), served) {
            (Some(ids), Some(served)) if served.everywhere => {
                let rest = situation.phase_time.saturating_sub(served.since);
                if rest.is_zero() {
                    let done = content::with_revocation_done(secret.object());
                    return Next::Write(Write::RevocationDone(ids.clone(), done));
                }
                Some(rest)
            }
            _ => None,
        };
        // A keyring that no rotation makes is reported by `problems`.
        let due = schedule::due(&ring.document, &situation).unwrap_or(Due::Never);
        let further = match due {
            Due::Now(step) => return rotate(secret, ring, step, now, fresh),
            Due::In(rest) => Some(rest),
            Due::Published | Due::Never => None,
        };
        Next::Wait([rest, further].into_iter().flatten().min())
    }
}

fn revoke(secret: &Wiped, ring: &Ring, ids: &BTreeSet<u8>, now: Timestamp, fresh: Secret) -> Next {
    let mut document = ring.document.clone();
    if let Err(error) = rotation::revoke(&mut document, ids, now, fresh) {
        tracing::error!(%error, "keys cannot be revoked");
        return Next::Wait(None);
    }
    let revoked = content::with_ring(secret.object(), &document, None);
    Next::Write(Write::Revoke(ids.clone(), revoked))
}

fn rotate(secret: &Wiped, ring: &Ring, step: Step, now: Timestamp, fresh: Secret) -> Next {
    let mut document = ring.document.clone();
    if let Err(error) = rotation::step(&mut document, &step, now, fresh) {
        tracing::error!(%error, "keys cannot be rotated");
        return Next::Wait(None);
    }
    let heeded = ring.wanted.as_deref().filter(|_| step == Step::Introduce);
    let rotated = content::with_ring(secret.object(), &document, heeded);
    Next::Write(Write::Step(step, rotated))
}

fn held_up() -> String {
    format!(
        "a rotation is due, and {MAX_RETIRING} keys retire, which is as many as may: it begins when the first of them \
         goes; a lower maxSessionLife or a higher keyring.rotateEvery helps"
    )
}
