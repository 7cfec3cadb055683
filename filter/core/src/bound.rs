//! A policy within a scope: which tokens it honours.

use std::sync::Arc;
use std::time::Duration;

use crate::carrier::cookie::Secure;
use crate::config::{Carrier, Fences, Policy};
use crate::keyring::Keyring;
use crate::outcome::RequestOutcome;
use crate::time::Timestamp;
use crate::token::{CarrierMode, Claims, Destination, Opened, Realm, Refusal};
use crate::view::{RequestView, ViewError};

/// What holds for every session of a configuration.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) clock_skew: Duration,
    pub(crate) fences: Fences,
}

/// A policy within a scope: all that a session needs.
#[derive(Debug)]
pub(crate) struct BoundPolicy {
    pub(crate) policy: Arc<Policy>,
    pub(crate) realm: Realm,
    pub(crate) limits: Arc<Limits>,
}

/// A token that is honoured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Honoured {
    pub(crate) claims: Claims,
    /// Whether a fresh token is due although the same host answers.
    pub(crate) renew: bool,
}

impl BoundPolicy {
    pub(crate) fn new(keyring: &Keyring, policy: &Arc<Policy>, scope: &[u8], limits: &Arc<Limits>) -> Self {
        let (mode, session_name) = match &policy.carrier {
            Carrier::Cookie { cookie, .. } => (CarrierMode::Cookie, cookie.name.as_str()),
            Carrier::Header { name, .. } => (CarrierMode::Header, name.as_str()),
        };
        Self {
            policy: Arc::clone(policy),
            realm: Realm::new(keyring, scope, mode, session_name),
            limits: Arc::clone(limits),
        }
    }

    /// The first candidate that is alive; else why the first one is not, or that there was none.
    pub(crate) fn first_alive<'c>(
        &self,
        candidates: impl Iterator<Item = &'c [u8]>,
        now: Timestamp,
    ) -> Result<Honoured, RequestOutcome> {
        let mut verdict = Err(RequestOutcome::NoToken);
        for candidate in candidates {
            match self.realm.open(candidate).and_then(|opened| self.check(opened, now)) {
                Ok(honoured) => return Ok(honoured),
                Err(refusal) if verdict.is_err_and(|outcome| outcome == RequestOutcome::NoToken) => {
                    verdict = Err(RequestOutcome::Refused(refusal));
                }
                Err(_) => {}
            }
        }
        verdict
    }

    /// Whether the session of a verified token is still alive.
    fn check(&self, Opened { claims, key_retiring }: Opened, now: Timestamp) -> Result<Honoured, Refusal> {
        let absolute_timeout = self.policy.absolute_timeout;
        if absolute_timeout.is_some_and(|timeout| now.since(claims.issued_at) >= timeout) {
            return Err(Refusal::Expired);
        }
        // A token is renewed once it lags behind by more than a tenth of the bound. So a session that was used less than
        // the bound ago has a token younger than 1.1 times the bound, and one that was not has an older one.
        let idle = now.since(claims.last_seen);
        let (too_idle, lagging) = match self.policy.idle_bound {
            None => (false, false),
            Some(bound) => (idle > bound + lag(bound), idle > lag(bound)),
        };
        if too_idle {
            return Err(Refusal::Idle);
        }
        let horizon = now.after(self.limits.clock_skew);
        if claims.issued_at > horizon || claims.last_seen > horizon {
            return Err(Refusal::FromTheFuture);
        }
        if self.limits.fences.refuse(claims.host, claims.issued_at) {
            return Err(Refusal::Fenced);
        }
        Ok(Honoured {
            claims,
            renew: lagging || key_retiring,
        })
    }

    /// A strict session whose cluster the route no longer leads to would fail until it expires, so it ends.
    pub(crate) fn check_destination(
        &self,
        honoured: Honoured,
        request: &impl RequestView,
    ) -> Result<Result<Honoured, RequestOutcome>, ViewError> {
        if !self.policy.strict {
            return Ok(Ok(honoured));
        }
        let cluster = request.cluster_name()?.unwrap_or_default();
        let leads_there = Destination::of_cluster(&cluster) == honoured.claims.destination;
        Ok(if leads_there {
            Ok(honoured)
        } else {
            Err(RequestOutcome::Refused(Refusal::UnknownDestination))
        })
    }

    /// Whether the request came over HTTPS; not asked where the cookie does not depend on it.
    pub(crate) fn is_https(&self, request: &impl RequestView) -> Result<bool, ViewError> {
        match &self.policy.carrier {
            Carrier::Cookie { cookie, .. } if cookie.secure == Secure::Auto => {
                let scheme = request.header(":scheme")?.unwrap_or_default();
                Ok(scheme.eq_ignore_ascii_case(b"https"))
            }
            _ => Ok(false),
        }
    }
}

impl Honoured {
    /// The session goes on: last seen never goes back, and the beginning stays, so that renewal never extends the
    /// absolute timeout.
    pub(crate) fn renewed(self, destination: Destination, now: Timestamp) -> Claims {
        Claims {
            destination,
            last_seen: self.claims.last_seen.max(now),
            ..self.claims
        }
    }
}

/// How far a token's last seen may lag behind.
fn lag(idle_bound: Duration) -> Duration {
    idle_bound / 10
}
