//! When the next phase of a rotation begins.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::tools::keys::rotation::{self, RetiredKey, RotationError, RotationPhase, RotationStep};
use limpet_core::config::KeyringDocument;
use limpet_core::time::Timestamp;

/// How many minimum phases a rotation waits for Envoys that have not acknowledged the keyring. All Gateways share it,
/// so one Envoy must not delay it for ever.
const PATIENCE: u32 = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RotationInputs {
    pub(super) now: Timestamp,
    /// The age at which a signing key is replaced; zero: never.
    pub(super) rotate_every: Duration,
    pub(super) phase_time: Duration,
    pub(super) requested: bool,
    /// Revoked keys of which not every Envoy knows. They stay, whatever their age.
    pub(super) revoking: BTreeSet<u8>,
    /// `None`: not published yet.
    pub(super) served: Option<KeyringRollout>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyringRollout {
    /// How long this process has published it.
    pub(super) since: Duration,
    /// Whether every connected Envoy of every replica has acknowledged it.
    pub(super) everywhere: bool,
    /// `limpet_core::config::longest_life` of the published configurations.
    pub(super) life: Duration,
}

impl RotationInputs {
    fn patience(&self, served: KeyringRollout) -> Duration {
        self.phase_time.saturating_mul(PATIENCE).saturating_sub(served.since)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RotationStepDue {
    Now(RotationStep),
    In(Duration),
    Published,
    /// Only on request.
    Never,
}

/// Fails if no rotation makes such a keyring.
pub(super) fn next_step(
    document: &KeyringDocument,
    situation: &RotationInputs,
) -> Result<RotationStepDue, RotationError> {
    let phase = rotation::phase(document)?;
    // How long keys have to stay is known once a configuration is published.
    let removal = situation.served.map(|served| removal(document, situation, served));
    if let Some(RotationStepDue::Now(removal)) = removal {
        return Ok(RotationStepDue::Now(removal));
    }
    let next = match (phase, situation.served) {
        // Old keys may retire meanwhile, but not too many.
        (RotationPhase::Settled | RotationPhase::Retiring, _) if rotation::is_full(document) => RotationStepDue::Never,
        (RotationPhase::Settled | RotationPhase::Retiring, _) => begin(document, situation),
        (_, None) => RotationStepDue::Published,
        (RotationPhase::Introduced(_) | RotationPhase::Signing(_), Some(served))
            if !served.everywhere && !situation.patience(served).is_zero() =>
        {
            RotationStepDue::In(situation.patience(served))
        }
        // By this process's clock: a disconnected Envoy has reconnected by then.
        (RotationPhase::Introduced(new), Some(served)) => {
            after(situation.phase_time.saturating_sub(served.since), || {
                RotationStep::Sign(new)
            })
        }
        (RotationPhase::Signing(old), Some(served)) => after(situation.phase_time.saturating_sub(served.since), || {
            RotationStep::Retire(old)
        }),
    };
    Ok(match (next, removal) {
        (RotationStepDue::In(next), Some(RotationStepDue::In(removal))) => RotationStepDue::In(next.min(removal)),
        (RotationStepDue::Published | RotationStepDue::Never, Some(RotationStepDue::In(removal))) => {
            RotationStepDue::In(removal)
        }
        (next, _) => next,
    })
}

fn after(rest: Duration, step: impl FnOnce() -> RotationStep) -> RotationStepDue {
    if rest.is_zero() {
        RotationStepDue::Now(step())
    } else {
        RotationStepDue::In(rest)
    }
}

fn removal(document: &KeyringDocument, situation: &RotationInputs, served: KeyringRollout) -> RotationStepDue {
    let left = |going: &RetiredKey| match going.end {
        Some(end) => end.since(situation.now),
        // An unknown time counts as this process's start, which is safe.
        None => served.life.saturating_sub(served.since),
    };
    let mut going = rotation::going(document, served.life);
    going.retain(|going| !situation.revoking.contains(&going.id));
    let over: BTreeSet<u8> = going
        .iter()
        .filter(|going| left(going).is_zero())
        .map(|going| going.id)
        .collect();
    match going.iter().map(left).min() {
        Some(Duration::ZERO) => RotationStepDue::Now(RotationStep::Remove(over)),
        Some(rest) => RotationStepDue::In(rest),
        None => RotationStepDue::Never,
    }
}

/// When the next rotation begins, if not too many keys retire.
pub(super) fn begin(document: &KeyringDocument, situation: &RotationInputs) -> RotationStepDue {
    // A new key that only verifies does no harm, so this step waits for no Envoy.
    if situation.requested {
        return RotationStepDue::Now(RotationStep::Introduce);
    }
    if situation.rotate_every.is_zero() {
        return RotationStepDue::Never;
    }
    let key = document.keys.get(rotation::signing(document));
    // A key of unknown age may be old enough.
    let since = key.and_then(|key| rotation::since(key).or_else(|| rotation::created(key)));
    let age = since.map_or(Duration::MAX, |since| situation.now.since(since));
    after(situation.rotate_every.saturating_sub(age), || RotationStep::Introduce)
}

#[cfg(test)]
mod tests {
    use limpet_core::config::KeyDocument;
    use limpet_core::config::schema::KeyStateConfig::{self, Retiring, Revoked, Signing, Verifying};
    use limpet_core::keyring::Secret;

    use super::*;
    use crate::time_format;

    const HOUR: Duration = Duration::from_secs(3600);
    const MINUTE: Duration = Duration::from_secs(60);

    fn at(hours: u64) -> Timestamp {
        Timestamp::from_unix_seconds(1_700_000_000 + hours * 3600)
    }

    /// Ids, states, and the hours of creation and of the state.
    fn ring(keys: &[(u8, KeyStateConfig, u64, u64)]) -> KeyringDocument {
        let key = |&(id, state, created, since): &(u8, KeyStateConfig, u64, u64)| KeyDocument {
            id,
            state,
            secret: (state != Revoked).then(|| Secret::new([id; 32])),
            created: Some(time_format::exact(at(created))),
            since: Some(time_format::exact(at(since))),
        };
        KeyringDocument {
            keys: keys.iter().map(key).collect(),
        }
    }

    fn situation(hour: u64) -> RotationInputs {
        RotationInputs {
            now: at(hour),
            rotate_every: 10 * HOUR,
            phase_time: MINUTE,
            requested: false,
            revoking: BTreeSet::new(),
            served: Some(KeyringRollout {
                since: HOUR,
                everywhere: true,
                life: 5 * HOUR,
            }),
        }
    }

    fn with_served(hour: u64, change: impl Fn(&mut KeyringRollout)) -> RotationInputs {
        let mut situation = situation(hour);
        situation.served.as_mut().map(change);
        situation
    }

    #[test]
    fn a_key_is_replaced_when_it_has_signed_for_long_enough() {
        let settled = ring(&[(1, Signing, 0, 1)]);
        assert_eq!(next_step(&settled, &situation(3)), Ok(RotationStepDue::In(8 * HOUR)));
        assert_eq!(
            next_step(&settled, &situation(11)),
            Ok(RotationStepDue::Now(RotationStep::Introduce))
        );
        let never = RotationInputs {
            rotate_every: Duration::ZERO,
            ..situation(1000)
        };
        assert_eq!(next_step(&settled, &never), Ok(RotationStepDue::Never));
        let wanted = RotationInputs {
            requested: true,
            ..never
        };
        assert_eq!(
            next_step(&settled, &wanted),
            Ok(RotationStepDue::Now(RotationStep::Introduce))
        );
        let mut of_unknown_age = settled;
        of_unknown_age.keys[0].created = None;
        of_unknown_age.keys[0].since = None;
        assert_eq!(
            next_step(&of_unknown_age, &situation(0)),
            Ok(RotationStepDue::Now(RotationStep::Introduce))
        );
    }

    #[test]
    fn an_envoy_that_never_acknowledged_held_up_rotations_for_ever() {
        let introduced = (ring(&[(1, Signing, 0, 0), (2, Verifying, 9, 9)]), RotationStep::Sign(1));
        let signing = (
            ring(&[(1, Verifying, 0, 9), (2, Signing, 9, 9)]),
            RotationStep::Retire(0),
        );
        for (ring, step) in [introduced, signing] {
            assert_eq!(
                next_step(&ring, &situation(9)),
                Ok(RotationStepDue::Now(step)),
                "every Envoy has it"
            );
            let missing = |since| {
                with_served(900, |served| {
                    (served.everywhere, served.since) = (false, since);
                })
            };
            assert_eq!(
                next_step(&ring, &missing(2 * MINUTE)),
                Ok(RotationStepDue::In(18 * MINUTE))
            );
            assert_eq!(next_step(&ring, &missing(20 * MINUTE)), next_step(&ring, &situation(9)));
            let early = with_served(900, |served| served.since = MINUTE / 4);
            assert_eq!(next_step(&ring, &early), Ok(RotationStepDue::In(3 * MINUTE / 4)));
            let unpublished = RotationInputs {
                served: None,
                requested: true,
                ..situation(900)
            };
            assert_eq!(next_step(&ring, &unpublished), Ok(RotationStepDue::Published));
        }
    }

    fn remove(ids: &[u8]) -> RotationStep {
        RotationStep::Remove(ids.iter().copied().collect())
    }

    #[test]
    fn a_retiring_key_stays_for_the_life_of_a_token() {
        let mut retiring = ring(&[(1, Retiring, 0, 10), (2, Signing, 9, 9)]);
        assert_eq!(next_step(&retiring, &situation(11)), Ok(RotationStepDue::In(4 * HOUR)));
        let longer = with_served(15, |served| served.life = 6 * HOUR);
        assert_eq!(next_step(&retiring, &longer), Ok(RotationStepDue::In(HOUR)));
        assert_eq!(
            next_step(&retiring, &situation(15)),
            Ok(RotationStepDue::Now(remove(&[1])))
        );
        let unpublished = RotationInputs {
            served: None,
            rotate_every: Duration::ZERO,
            ..situation(1000)
        };
        assert_eq!(
            next_step(&retiring, &unpublished),
            Ok(RotationStepDue::Never),
            "the longest life is unknown"
        );
        // An unknown time.
        retiring.keys[0].since = None;
        let by_hand = |since: Duration| {
            let mut situation = with_served(1000, |served| served.since = since);
            situation.rotate_every = Duration::ZERO;
            situation
        };
        assert_eq!(next_step(&retiring, &by_hand(HOUR)), Ok(RotationStepDue::In(4 * HOUR)));
        assert_eq!(
            next_step(&retiring, &by_hand(5 * HOUR)),
            Ok(RotationStepDue::Now(remove(&[1])))
        );
    }

    #[test]
    fn the_next_rotation_begins_while_old_keys_retire() {
        let year = 365 * 24;
        let retiring = ring(&[(1, Retiring, 0, 10), (2, Signing, 9, 10)]);
        let long = |hour| with_served(hour, |served| served.life = Duration::from_secs(3600 * year));
        assert_eq!(next_step(&retiring, &long(11)), Ok(RotationStepDue::In(9 * HOUR)));
        assert_eq!(
            next_step(&retiring, &long(20)),
            Ok(RotationStepDue::Now(RotationStep::Introduce))
        );
        let both = ring(&[(1, Retiring, 0, 10), (2, Verifying, 9, 20), (3, Signing, 20, 20)]);
        assert_eq!(
            next_step(&both, &long(21)),
            Ok(RotationStepDue::Now(RotationStep::Retire(1)))
        );
        // Each key goes by itself in every phase, when its tokens have ended.
        let three = ring(&[
            (1, Retiring, 0, 10),
            (2, Retiring, 9, 12),
            (3, Verifying, 11, 14),
            (4, Signing, 14, 14),
        ]);
        assert_eq!(
            next_step(&three, &situation(15)),
            Ok(RotationStepDue::Now(remove(&[1])))
        );
        assert_eq!(
            next_step(&three, &situation(17)),
            Ok(RotationStepDue::Now(remove(&[1, 2])))
        );
        let waiting = RotationInputs {
            phase_time: HOUR,
            ..with_served(14, |served| served.everywhere = false)
        };
        assert_eq!(next_step(&three, &waiting), Ok(RotationStepDue::In(HOUR)));
    }

    #[test]
    fn no_more_keys_retire_than_may() {
        let mut keys: Vec<_> = (1..=8).map(|id| (id, Retiring, 0, 10)).collect();
        keys.push((9, Signing, 9, 10));
        let wanted = |hour| RotationInputs {
            requested: true,
            ..situation(hour)
        };
        let full = ring(&keys);
        assert_eq!(
            next_step(&full, &wanted(14)),
            Ok(RotationStepDue::In(HOUR)),
            "until the first goes"
        );
        keys.remove(0);
        assert_eq!(
            next_step(&ring(&keys), &wanted(14)),
            Ok(RotationStepDue::Now(RotationStep::Introduce))
        );
    }

    #[test]
    fn a_revoked_key_is_remembered_while_its_tokens_live() {
        let revoked = ring(&[(1, Revoked, 0, 10), (2, Signing, 9, 10)]);
        assert_eq!(next_step(&revoked, &situation(11)), Ok(RotationStepDue::In(4 * HOUR)));
        assert_eq!(
            next_step(&revoked, &situation(15)),
            Ok(RotationStepDue::Now(remove(&[1])))
        );
        let wanted = RotationInputs {
            requested: true,
            ..situation(11)
        };
        assert_eq!(
            next_step(&revoked, &wanted),
            Ok(RotationStepDue::Now(RotationStep::Introduce))
        );
    }

    #[test]
    fn what_no_rotation_makes_is_no_ones_turn() {
        let both_verify = ring(&[(1, Signing, 0, 0), (2, Verifying, 9, 9), (3, Verifying, 9, 9)]);
        assert!(next_step(&both_verify, &situation(1000)).is_err());
    }
}
