//! When the next step of an authority comes, and when a certificate is renewed. Pure.

use std::time::{Duration, SystemTime};

use limpet_xds::Validity;

use super::content::{Authority, Phase, Step};

/// When the next step comes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    Now(Step),
    /// After this time, if nothing changes before.
    In(Duration),
    /// When every Secret has what the phase is about.
    WithSecrets,
}

/// The next step. `held` is how long everything has had what the phase is about, as far as that is known.
pub(super) fn due(authority: &Authority, now: SystemTime, held: Option<Duration>, phase_time: Duration) -> Due {
    let is_over = authority.validity.ends <= now;
    let after = |step| match held {
        Some(held) if held >= phase_time => Due::Now(step),
        Some(held) => Due::In(phase_time.saturating_sub(held)),
        None => Due::WithSecrets,
    };
    match authority.phase() {
        Phase::Settled if is_over => Due::Now(Step::Replace),
        Phase::Settled => match renewal(authority.validity).duration_since(now) {
            Ok(rest) if !rest.is_zero() && authority.wanted.is_none() => Due::In(rest),
            _ => Due::Now(Step::Introduce),
        },
        // Nobody connects with what it signed.
        Phase::Trusted if is_over => Due::Now(Step::Sign),
        Phase::Trusted => after(Step::Sign),
        Phase::Signs => after(Step::Forget),
    }
}

/// When something that is valid for this time is renewed: at two thirds of it.
pub(super) fn renewal(validity: Validity) -> SystemTime {
    let whole = validity.ends.duration_since(validity.begins).unwrap_or_default();
    validity.begins.checked_add(whole / 3 * 2).unwrap_or(validity.ends)
}
