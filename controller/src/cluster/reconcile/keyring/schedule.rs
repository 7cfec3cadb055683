//! When the next phase of a rotation begins.

use std::time::Duration;

use crate::tools::keys::rotation::{self, Phase, Unfit};
use limpet_core::config::KeyringDocument;
use limpet_core::time::Timestamp;

/// What the next step depends on, besides the keyring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Situation {
    pub(super) now: Timestamp,
    /// The age at which a signing key is replaced; zero: never by itself.
    pub(super) rotate_every: Duration,
    /// The minimum time of a phase.
    pub(super) phase_time: Duration,
    /// Whether somebody asks for another key.
    pub(super) wanted: bool,
    /// What Envoys have of this keyring; `None`: it was not published yet.
    pub(super) served: Option<Served>,
}

/// What Envoys have of a keyring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Served {
    /// For how long this process has published it.
    pub(super) since: Duration,
    /// Whether every connected Envoy of every replica has acknowledged it.
    pub(super) everywhere: bool,
    /// How long a token may live unused under the published configurations (`limpet_core::config::longest_life`).
    pub(super) life: Duration,
}

/// When the next step is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Now, out of this phase.
    Now(Phase),
    /// After this time, if nothing changes before.
    In(Duration),
    /// When all Envoys have this keyring.
    WithEnvoys,
    /// When somebody asks for it.
    Never,
}

/// When the next step is due.
///
/// # Errors
/// If no rotation makes such a keyring.
pub(super) fn due(document: &KeyringDocument, situation: &Situation) -> Result<Due, Unfit> {
    let life = situation.served.map_or(Duration::MAX, |served| served.life);
    let phase = rotation::phase(document, life)?;
    let after = |rest: Duration| if rest.is_zero() { Due::Now(phase) } else { Due::In(rest) };
    Ok(match (phase, situation.served) {
        // A new key that only verifies harms nobody, so this step waits for no Envoy.
        (Phase::Settled, _) if situation.wanted => Due::Now(phase),
        (Phase::Settled, _) if situation.rotate_every.is_zero() => Due::Never,
        (Phase::Settled, _) => {
            let key = document.keys.get(rotation::signing(document));
            // A key of unknown age may be old enough.
            let since = key.and_then(|key| rotation::since(key).or_else(|| rotation::created(key)));
            let age = since.map_or(Duration::MAX, |since| situation.now.since(since));
            after(situation.rotate_every.saturating_sub(age))
        }
        (_, None) => Due::WithEnvoys,
        (Phase::Introduced(_) | Phase::Signing(_), Some(served)) if !served.everywhere => Due::WithEnvoys,
        // By this process's own clock: an Envoy that lost its connection has reconnected by then.
        (Phase::Introduced(_) | Phase::Signing(_), Some(served)) => {
            after(situation.phase_time.saturating_sub(served.since))
        }
        (Phase::Retiring(Some(end)), Some(_)) => after(end.since(situation.now)),
        // It is unknown when the key was retired. Counting from the start of this process is safe.
        (Phase::Retiring(None), Some(served)) => after(served.life.saturating_sub(served.since)),
    })
}

#[cfg(test)]
mod tests {
    use limpet_core::config::KeyDocument;
    use limpet_core::config::schema::KeyStateConfig::{self, Retiring, Signing, Verifying};
    use limpet_core::keyring::Secret;

    use super::*;
    use crate::time_format;

    const HOUR: Duration = Duration::from_secs(3600);
    const MINUTE: Duration = Duration::from_secs(60);

    fn at(hours: u64) -> Timestamp {
        Timestamp::from_unix_seconds(1_700_000_000 + hours * 3600)
    }

    /// Keys with their states, and the hours at which they were made and got their states.
    fn ring(keys: &[(u8, KeyStateConfig, u64, u64)]) -> KeyringDocument {
        let key = |&(id, state, created, since): &(u8, KeyStateConfig, u64, u64)| KeyDocument {
            id,
            state,
            secret: Secret::new([id; 32]),
            created: Some(time_format::exact(at(created))),
            since: Some(time_format::exact(at(since))),
        };
        KeyringDocument {
            keys: keys.iter().map(key).collect(),
        }
    }

    fn situation(hour: u64) -> Situation {
        Situation {
            now: at(hour),
            rotate_every: 10 * HOUR,
            phase_time: MINUTE,
            wanted: false,
            served: Some(Served {
                since: HOUR,
                everywhere: true,
                life: 5 * HOUR,
            }),
        }
    }

    fn with_served(hour: u64, change: impl Fn(&mut Served)) -> Situation {
        let mut situation = situation(hour);
        situation.served.as_mut().map(change);
        situation
    }

    #[test]
    fn a_key_is_replaced_when_it_has_signed_for_long_enough() {
        let settled = ring(&[(1, Signing, 0, 1)]);
        assert_eq!(due(&settled, &situation(3)), Ok(Due::In(8 * HOUR)));
        assert_eq!(due(&settled, &situation(11)), Ok(Due::Now(Phase::Settled)));
        let never = Situation {
            rotate_every: Duration::ZERO,
            ..situation(1000)
        };
        assert_eq!(due(&settled, &never), Ok(Due::Never));
        let wanted = Situation { wanted: true, ..never };
        assert_eq!(due(&settled, &wanted), Ok(Due::Now(Phase::Settled)));
        let mut of_unknown_age = settled;
        of_unknown_age.keys[0].created = None;
        of_unknown_age.keys[0].since = None;
        assert_eq!(due(&of_unknown_age, &situation(0)), Ok(Due::Now(Phase::Settled)));
    }

    #[test]
    fn a_phase_ends_when_every_envoy_has_it_and_not_before_its_time() {
        let introduced = (ring(&[(1, Signing, 0, 0), (2, Verifying, 9, 9)]), Phase::Introduced(1));
        let signing = (ring(&[(1, Verifying, 0, 9), (2, Signing, 9, 9)]), Phase::Signing(0));
        for (ring, phase) in [introduced, signing] {
            assert_eq!(due(&ring, &situation(9)), Ok(Due::Now(phase)));
            let missing = with_served(900, |served| served.everywhere = false);
            assert_eq!(due(&ring, &missing), Ok(Due::WithEnvoys));
            let early = with_served(900, |served| served.since = MINUTE / 4);
            assert_eq!(due(&ring, &early), Ok(Due::In(3 * MINUTE / 4)));
            let unpublished = Situation {
                served: None,
                wanted: true,
                ..situation(900)
            };
            assert_eq!(due(&ring, &unpublished), Ok(Due::WithEnvoys));
        }
    }

    #[test]
    fn a_retiring_key_stays_for_the_life_of_a_token() {
        let mut retiring = ring(&[(1, Retiring, 0, 10), (2, Signing, 9, 9)]);
        assert_eq!(due(&retiring, &situation(11)), Ok(Due::In(4 * HOUR)));
        let longer = with_served(15, |served| served.life = 6 * HOUR);
        assert_eq!(due(&retiring, &longer), Ok(Due::In(HOUR)));
        let end = Phase::Retiring(Some(at(15)));
        assert_eq!(due(&retiring, &situation(15)), Ok(Due::Now(end)));
        let unpublished = Situation {
            served: None,
            ..situation(1000)
        };
        assert_eq!(due(&retiring, &unpublished), Ok(Due::WithEnvoys));
        // Since when is not known: at the longest since before this process began.
        retiring.keys[0].since = None;
        assert_eq!(due(&retiring, &situation(1000)), Ok(Due::In(4 * HOUR)));
        let later = with_served(1000, |served| served.since = 5 * HOUR);
        assert_eq!(due(&retiring, &later), Ok(Due::Now(Phase::Retiring(None))));
    }

    #[test]
    fn what_no_rotation_makes_is_no_ones_turn() {
        let both_verify = ring(&[(1, Signing, 0, 0), (2, Verifying, 9, 9), (3, Verifying, 9, 9)]);
        assert!(due(&both_verify, &situation(1000)).is_err());
    }
}
