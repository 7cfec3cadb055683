//! What is known of both Secrets, what is served of it, and what the leader is to write.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret as SecretObject;
use limpet_core::config::KeyringDocument;
use limpet_core::config::schema::WrappedKeysConfig;
use limpet_core::keyring::Secret;
use limpet_core::time::Timestamp;

use crate::tools::keys::rotation::{self, Phase};

use super::config::KeyringConfig;
use super::content::{self, Broken, KeyEncryptionKeys, Ring, Wiped};
use super::schedule::{self, Due, Served, Situation};

/// Which of the two Secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Which {
    /// The one with the keyring.
    Keyring,
    /// The one with the key-encryption keys.
    KeyEncryptionKey,
}

/// What is to be written.
#[derive(Debug)]
pub(super) enum Write {
    /// A Secret that is not there.
    Create(Which, Wiped),
    /// The keyring's, one step further: out of this phase.
    Step(Phase, Wiped),
}

/// What the leader is to do.
#[derive(Debug)]
pub(super) enum Next {
    /// To write.
    Write(Write),
    /// To look again after so long; `None`: when something has changed.
    Wait(Option<Duration>),
}

/// A Secret, as it was seen last.
#[derive(Debug)]
struct Seen<T> {
    found: Found<T>,
    /// What it held when it last was in order.
    good: Option<T>,
}

#[derive(Debug)]
enum Found<T> {
    /// Not looked yet.
    Unknown,
    /// It is not there.
    Missing,
    /// What it says.
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

    fn broken(&self) -> Option<&Broken> {
        match &self.found {
            Found::There(_, Err(broken)) => Some(broken),
            _ => None,
        }
    }
}

/// What is known of both Secrets.
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

    /// What was read of a Secret; `None`: it is not there.
    pub(super) fn saw(&mut self, which: Which, secret: Option<SecretObject>) {
        match which {
            Which::Keyring => self.ring.see(secret, content::ring),
            Which::KeyEncryptionKey => self.keys.see(secret, KeyEncryptionKeys::read),
        }
    }

    /// The keyring that is served: the last good one of each Secret. `None`: there was none yet.
    pub(super) fn served(&self) -> Option<WrappedKeysConfig> {
        let (ring, keys) = (self.ring.good.as_ref()?, self.keys.good.as_ref()?);
        // What was read has been checked.
        keys.wrap(&ring.document).ok()
    }

    /// The keyring itself.
    pub(super) fn document(&self) -> Option<&KeyringDocument> {
        Some(&self.ring.good.as_ref()?.document)
    }

    /// The uid of a Secret; empty where it was not seen.
    pub(super) fn uid(&self, which: Which) -> String {
        match which {
            Which::Keyring => self.ring.uid(),
            Which::KeyEncryptionKey => self.keys.uid(),
        }
    }

    /// What a person has to see to, and of which Secret.
    pub(super) fn problems(&self) -> Vec<(Which, String)> {
        let rotation = match &self.ring.found {
            Found::There(_, Ok(ring)) => rotation::phase(&ring.document, Duration::ZERO).err(),
            _ => None,
        };
        let broken = |which, broken: Option<&Broken>| Some((which, broken?.to_string()));
        let all = [
            broken(Which::Keyring, self.ring.broken()),
            broken(Which::KeyEncryptionKey, self.keys.broken()),
            rotation.map(|unfit| (Which::Keyring, format!("it is served and not rotated: {unfit}"))),
        ];
        all.into_iter().flatten().collect()
    }

    /// Why nothing can be served, where nothing can.
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

    /// What the leader is to do. `fresh` is for a key, should one be made.
    pub(super) fn next(&self, now: Timestamp, served: Option<Served>, fresh: Secret) -> Next {
        let KeyringConfig {
            secret: name,
            key_encryption_key_secret: key_encryption_key,
            ..
        } = &self.config;
        // Both are known before anything is made: one that is broken is never replaced, and what nobody has looked for is not missing.
        let create = match (&self.keys.found, &self.ring.found) {
            (Found::Unknown, _) | (_, Found::Unknown) => return Next::Wait(None),
            (Found::Missing, _) => {
                // One that is gone comes back as it was: with another one, no running Envoy could open what it is given.
                let keys = self.keys.good.clone();
                let keys = keys.unwrap_or_else(|| KeyEncryptionKeys::one(1, fresh));
                Write::Create(Which::KeyEncryptionKey, keys.object(key_encryption_key))
            }
            (_, Found::Missing) => {
                // With another keyring, all sessions would end.
                let ring = self.ring.good.as_ref().map(|ring| ring.document.clone());
                let ring = ring.unwrap_or_else(|| content::first_ring(now, fresh));
                Write::Create(Which::Keyring, content::new_ring(name, &ring))
            }
            (_, Found::There(secret, Ok(ring))) => return self.step(secret, ring, now, served, fresh),
            (_, Found::There(_, Err(_))) => return Next::Wait(None),
        };
        Next::Write(create)
    }

    fn step(&self, secret: &Wiped, ring: &Ring, now: Timestamp, served: Option<Served>, fresh: Secret) -> Next {
        let situation = Situation {
            now,
            rotate_every: self.config.rotate_every.get(),
            phase_time: self.config.phase_time.get(),
            wanted: ring.wanted.is_some(),
            served,
        };
        // What no rotation makes is a problem, and told.
        match schedule::due(&ring.document, &situation) {
            Ok(Due::Now(phase)) => {
                let mut document = ring.document.clone();
                rotation::step(&mut document, phase, now, fresh);
                let heeded = ring.wanted.as_deref().filter(|_| phase == Phase::Settled);
                Next::Write(Write::Step(
                    phase,
                    content::with_ring(secret.object(), &document, heeded),
                ))
            }
            Ok(Due::In(rest)) => Next::Wait(Some(rest)),
            Ok(Due::WithEnvoys | Due::Never) | Err(_) => Next::Wait(None),
        }
    }
}
