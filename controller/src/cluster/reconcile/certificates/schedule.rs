//! When an authority's next step begins, and when a certificate is renewed. Pure.

use std::time::{Duration, SystemTime};

use limpet_xds::Validity;

use super::content::{Authority, AuthorityPhase, AuthorityStep};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum AuthorityStepDue {
    Now(AuthorityStep),
    In(Duration),
    /// When every Secret has the phase's change.
    WithSecrets,
}

/// `held`: how long all Secrets have had the phase's change, if known.
pub(super) fn next_step(
    authority: &Authority,
    now: SystemTime,
    held: Option<Duration>,
    phase_time: Duration,
) -> AuthorityStepDue {
    let is_over = authority.validity.ends <= now;
    let after = |step| match held {
        Some(held) if held >= phase_time => AuthorityStepDue::Now(step),
        Some(held) => AuthorityStepDue::In(phase_time.saturating_sub(held)),
        None => AuthorityStepDue::WithSecrets,
    };
    match authority.phase() {
        AuthorityPhase::Settled if is_over => AuthorityStepDue::Now(AuthorityStep::Replace),
        AuthorityPhase::Settled => match renewal(authority.validity).duration_since(now) {
            Ok(rest) if !rest.is_zero() && authority.rotation_request.is_none() => AuthorityStepDue::In(rest),
            _ => AuthorityStepDue::Now(AuthorityStep::Introduce),
        },
        // No client accepts what it signed.
        AuthorityPhase::Trusted if is_over => AuthorityStepDue::Now(AuthorityStep::Sign),
        AuthorityPhase::Trusted => after(AuthorityStep::Sign),
        AuthorityPhase::Signs => after(AuthorityStep::Forget),
    }
}

/// At two thirds of the validity.
pub(super) fn renewal(validity: Validity) -> SystemTime {
    let whole = validity.ends.duration_since(validity.begins).unwrap_or_default();
    validity.begins.checked_add(whole / 3 * 2).unwrap_or(validity.ends)
}
