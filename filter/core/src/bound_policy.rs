//! A policy within a scope, and the tokens that it honours.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::carrier::cookie_name::CookieNames;
use crate::census::{Backend, Identity, Seen};
use crate::config::{Carrier, Fences, Hosts, IdleBound, Policy, Rebalance, Source};
use crate::keyring::{KeyId, Keyring};
use crate::outcome::RequestOutcome;
use crate::source::ScopeId;
use crate::time::Timestamp;
use crate::token::{Claims, Destination, Opened, Realm, Refusal, TokenMemory, Unverified};

/// What applies to every session of a configuration.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) clock_skew: Duration,
    pub(crate) fences: Fences,
    pub(crate) hosts: Hosts,
    /// Whether responses tell which sessions they are of.
    pub(crate) counts: bool,
    /// Unset if every token is verified each time.
    pub(crate) tokens: OnceLock<TokenMemory>,
}

/// A policy within a scope, with everything that a session needs.
#[derive(Debug)]
pub(crate) struct BoundPolicy {
    pub(crate) policy: Arc<Policy>,
    /// `None` unless there are tokens.
    pub(crate) realm: Option<Realm>,
    /// `None` if there are tokens.
    scope: Option<ScopeId>,
    /// The namespace of a scope `<kind>/<namespace>/…`.
    namespace: Option<Box<str>>,
    /// `None` unless the carrier is the filter's own cookie.
    pub(crate) cookie_names: Option<CookieNames>,
    pub(crate) limits: Arc<Limits>,
}

/// A token that the policy honours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Honoured {
    pub(crate) claims: Claims,
    /// The nonce of the session.
    pub(crate) nonce: [u8; 4],
    /// The key of the token.
    pub(crate) key: KeyId,
    /// Whether the client needs a new token even if the same host answers.
    pub(crate) renew: bool,
    /// Whether the token came under the former name of the cookie and has to move to the current one.
    pub(crate) under_former_name: bool,
}

/// Why no token of a request is honoured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotHonoured {
    pub(crate) outcome: RequestOutcome,
    /// The key of the token: one of the keyring that verified it, or a revoked one that it names.
    pub(crate) key: Option<KeyId>,
}

impl NotHonoured {
    pub(crate) const NO_TOKEN: Self = Self {
        outcome: RequestOutcome::NoToken,
        key: None,
    };

    /// The first refusal of two.
    pub(crate) fn or(self, other: Self) -> Self {
        if self.outcome == RequestOutcome::NoToken {
            other
        } else {
            self
        }
    }
}

impl BoundPolicy {
    pub(crate) fn new(keyring: Option<&Keyring>, policy: &Arc<Policy>, scope: &[u8], limits: &Arc<Limits>) -> Self {
        let carrier = &policy.carrier;
        let cookie_names = match carrier {
            Carrier::Cookie { name, per_scope, .. } => Some(CookieNames::new(name, scope, *per_scope)),
            _ => None,
        };
        let realm = keyring.zip(carrier.mode());
        Self {
            policy: Arc::clone(policy),
            realm: realm.map(|(keyring, mode)| Realm::new(keyring, scope, mode, carrier.name())),
            scope: carrier
                .source()
                .map(|source| ScopeId::new(&policy.name, &source.rules, scope)),
            namespace: namespace(scope).map(Box::from),
            cookie_names,
            limits: Arc::clone(limits),
        }
    }

    /// The first candidate whose session is alive. If there is none, why the first candidate is refused.
    pub(crate) fn first_alive<'c>(
        &self,
        candidates: impl Iterator<Item = &'c [u8]>,
        now: Timestamp,
    ) -> Result<Honoured, NotHonoured> {
        let mut first = NotHonoured::NO_TOKEN;
        for candidate in candidates {
            match self.honoured(candidate, now) {
                Ok(honoured) => return Ok(honoured),
                Err(refused) if first.outcome == RequestOutcome::NoToken => first = refused,
                Err(_) => {}
            }
        }
        Err(first)
    }

    fn honoured(&self, token: &[u8], now: Timestamp) -> Result<Honoured, NotHonoured> {
        let refused = |refusal, key| NotHonoured {
            outcome: RequestOutcome::Refused(refusal),
            key,
        };
        let Some(realm) = &self.realm else {
            return Err(NotHonoured::NO_TOKEN);
        };
        let opened = match self.limits.tokens.get() {
            Some(memory) => memory.open(realm, token),
            None => realm.open(token),
        };
        match opened {
            Ok(opened) => self
                .check(opened, now)
                .map_err(|refusal| refused(refusal, Some(opened.key))),
            Err(refusal) => {
                let is_revoked = refusal == Refusal::RevokedKey;
                let named = is_revoked.then(|| Unverified::parse(token).ok()).flatten();
                Err(refused(refusal, named.map(|token| token.key_id)))
            }
        }
    }

    /// Whether the session of a verified token is still alive.
    fn check(&self, opened: Opened, now: Timestamp) -> Result<Honoured, Refusal> {
        let Opened {
            claims,
            nonce,
            key,
            key_retiring,
        } = opened;
        if self.is_expired(&claims, now) {
            return Err(Refusal::Expired);
        }
        let idle = now.since(claims.last_seen);
        let (too_idle, lagging) = match self.policy.idle_bound {
            None => (false, false),
            Some(IdleBound { bound, lag }) => (idle > bound + lag, idle > lag),
        };
        if too_idle {
            return Err(Refusal::Idle);
        }
        let horizon = now.after(self.limits.clock_skew);
        if claims.issued_at > horizon || claims.last_seen > horizon {
            return Err(Refusal::FromTheFuture);
        }
        if self.is_fenced(&claims) {
            return Err(Refusal::Fenced);
        }
        Ok(Honoured {
            claims,
            nonce,
            key,
            renew: lagging || key_retiring || claims.is_moving(),
            under_former_name: false,
        })
    }

    fn is_expired(&self, claims: &Claims, now: Timestamp) -> bool {
        let timeout = self.policy.absolute_timeout;
        timeout.is_some_and(|timeout| now.since(claims.issued_at) >= timeout)
    }

    fn is_fenced(&self, claims: &Claims) -> bool {
        self.fences(claims.host, claims.issued_at)
    }

    /// Whether sessions that started on `host` at `issued_at` belong to a former owner of the address.
    pub(crate) fn fences(&self, host: SocketAddr, issued_at: Timestamp) -> bool {
        let namespace = self.namespace.as_deref();
        self.limits.fences.refuse(namespace, host, issued_at)
    }

    /// A session of this policy that a backend answered; `None` where nobody counts.
    pub(crate) fn seen(&self, claims: &Claims, session: Identity, at: Timestamp) -> Option<Seen> {
        self.limits.counts.then(|| Seen {
            backend: self.backend(claims),
            session,
            began: claims.issued_at,
            at,
        })
    }

    /// Whether a session was unused for so long that it may begin anew on another backend. One that moves has not
    /// arrived yet.
    pub(crate) fn is_long_unused(&self, claims: &Claims, now: Timestamp) -> bool {
        let Some(Rebalance { unseen }) = self.policy.rebalance else {
            return false;
        };
        self.limits.counts && now.since(claims.last_seen) >= unseen && !claims.is_moving()
    }

    /// The backend of a session, as it is counted.
    pub(crate) fn backend(&self, claims: &Claims) -> Backend {
        let live_for = match (self.source(), self.policy.idle_bound, self.policy.absolute_timeout) {
            (Some((source, _)), _, _) => source.rules.timeout,
            (None, Some(IdleBound { bound, .. }), _) | (None, None, Some(bound)) => bound,
            // Every token has a bound.
            (None, None, None) => Duration::ZERO,
        };
        Backend::new(claims.destination, claims.host, live_for)
    }

    /// The table of clients, and where in it; `None` if there are tokens.
    pub(crate) fn source(&self) -> Option<(&Source, ScopeId)> {
        self.policy.carrier.source().zip(self.scope)
    }

    /// Why the session of an entry is over, if it is. Only this process wrote it, so its time is never in the future
    /// for longer than a clock that was set back.
    pub(crate) fn refuses_entry(&self, claims: &Claims, timeout: Duration, now: Timestamp) -> Option<Refusal> {
        if self.is_expired(claims, now) {
            return Some(Refusal::Expired);
        }
        if now.since(claims.last_seen) >= timeout {
            return Some(Refusal::Idle);
        }
        self.is_fenced(claims).then_some(Refusal::Fenced)
    }
}

/// The middle of `<kind>/<namespace>/…`.
fn namespace(scope: &[u8]) -> Option<&str> {
    let mut parts = std::str::from_utf8(scope).ok()?.splitn(3, '/');
    let namespace = parts.nth(1)?;
    parts.next().map(|_| namespace)
}

impl Honoured {
    /// The claims of a session that continues. `last_seen` never goes back, and `issued_at` stays, so a renewal does
    /// not extend the absolute timeout. The session has arrived, whatever the clock of the Envoy that moved it says.
    pub(crate) fn renewed(self, destination: Destination, now: Timestamp) -> Claims {
        Claims {
            destination,
            last_seen: self.claims.last_seen.max(now).max(self.claims.issued_at),
            ..self.claims
        }
    }
}
