//! A policy within a scope, and the tokens that it honours.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::carrier::cookie_name::CookieNames;
use crate::census::{Backend, ObservedSession, SessionIdentity};
use crate::config::{Carrier, CarrierKind, Fences, HostsByCluster, IdleBound, Policy, RebalanceRule, Source};
use crate::keyring::{Keyring, MADE, wipe_stack};
use crate::newest_token::{AcceptedToken, FormerCookieName, NewestToken, NoAcceptedToken, TokenOrigin};
use crate::outcome::RequestOutcome;
use crate::source::ScopeId;
use crate::time::Timestamp;
use crate::token::{Claims, OpenedToken, Realm, TokenMemory, TokenRefusal, UnverifiedToken};

#[derive(Debug)]
pub(crate) struct PolicyContext {
    pub(crate) clock_skew: Duration,
    pub(crate) fences: Fences,
    pub(crate) hosts: HostsByCluster,
    /// Whether sessions are counted.
    pub(crate) counts: bool,
    /// Unset if every token is verified each time.
    pub(crate) tokens: OnceLock<TokenMemory>,
}

#[derive(Debug)]
pub(crate) struct BoundPolicy {
    pub(crate) policy: Arc<Policy>,
    /// `None` without tokens.
    pub(crate) realm: Option<Realm>,
    /// Further carriers that were the policy's own, in their order.
    former: Vec<FormerCarrier>,
    /// `None` with tokens.
    scope: Option<ScopeId>,
    /// The namespace of a scope `<kind>/<namespace>/…`.
    namespace: Option<Box<str>>,
    /// `None` unless the carrier is the filter's own cookie.
    pub(crate) cookie_names: Option<CookieNames>,
    pub(crate) limits: Arc<PolicyContext>,
}

/// A further carrier that was the policy's own.
#[derive(Debug)]
pub(crate) struct FormerCarrier {
    /// Its index among the further carriers.
    pub(crate) at: usize,
    realm: Realm,
    /// Its names, if it is a cookie.
    pub(crate) names: CookieNames,
}

impl BoundPolicy {
    pub(crate) fn new(
        keyring: Option<&Keyring>,
        policy: &Arc<Policy>,
        scope: &[u8],
        limits: &Arc<PolicyContext>,
    ) -> Arc<Self> {
        let made = Self::make(keyring, policy, scope, limits);
        wipe_stack::<MADE>();
        made
    }

    /// Its own function, so that the MACs that it leaves behind are below its caller's frame.
    #[inline(never)]
    fn make(keyring: Option<&Keyring>, policy: &Arc<Policy>, scope: &[u8], limits: &Arc<PolicyContext>) -> Arc<Self> {
        let carrier = &policy.carrier;
        let cookie_names = match carrier {
            Carrier::Cookie { name, per_scope, .. } => Some(CookieNames::new(name, scope, *per_scope)),
            _ => None,
        };
        let former = { policy.also.iter().enumerate() }.filter(|(_, further)| further.is_former);
        // A growing vector would leave copies of its MACs behind.
        let mut formers = Vec::with_capacity(former.clone().count());
        formers.extend(former.filter_map(|(at, further)| {
            Some(FormerCarrier {
                at,
                realm: Realm::new(keyring?, scope, further.mode(), &further.name),
                names: CookieNames::new(&further.name, scope, false),
            })
        }));
        let realm = keyring.zip(carrier.mode());
        Arc::new(Self {
            policy: Arc::clone(policy),
            realm: realm.map(|(keyring, mode)| Realm::new(keyring, scope, mode, carrier.name())),
            former: formers,
            scope: carrier
                .source()
                .map(|source| ScopeId::new(&policy.name, &source.rules, scope)),
            namespace: namespace(scope).map(Box::from),
            cookie_names,
            limits: Arc::clone(limits),
        })
    }

    pub(crate) fn examine(&self, token: &[u8], found: TokenOrigin, now: Timestamp, newest: &mut NewestToken) {
        newest.add(|| {
            let opened = self.honoured(token, found, now);
            // Tokens of other scopes are among these, so a refusal says nothing.
            let is_told = !matches!(found, TokenOrigin::BeforeRedirect | TokenOrigin::Former(..));
            opened.map_err(|why| if is_told { why } else { NoAcceptedToken::NO_TOKEN })
        });
    }

    fn honoured(&self, token: &[u8], found: TokenOrigin, now: Timestamp) -> Result<AcceptedToken, NoAcceptedToken> {
        let refused = |refusal, key| NoAcceptedToken {
            outcome: RequestOutcome::Refused(refusal),
            key,
        };
        let realm = match found {
            TokenOrigin::Former(at, _) => self.former(at).map(|former| &former.realm),
            _ => self.realm.as_ref(),
        };
        let Some(realm) = realm else {
            return Err(NoAcceptedToken::NO_TOKEN);
        };
        let (opened, found) = match self.open(realm, token) {
            Err(refusal) if found == TokenOrigin::BeforeRedirect => self.open_former(refusal, token),
            opened => (opened, found),
        };
        match opened {
            Ok(opened) => self
                .check(opened, found, now)
                .map_err(|refusal| refused(refusal, Some(opened.key))),
            Err(refusal) => {
                let is_revoked = refusal == TokenRefusal::RevokedKey;
                let named = is_revoked.then(|| UnverifiedToken::parse(token).ok()).flatten();
                Err(refused(refusal, named.map(|token| token.key_id)))
            }
        }
    }

    fn open(&self, realm: &Realm, token: &[u8]) -> Result<OpenedToken, TokenRefusal> {
        match self.limits.tokens.get() {
            Some(memory) => memory.open(realm, token),
            None => realm.open(token),
        }
    }

    /// A token taken out of a request may have been in any carrier.
    fn open_former(&self, refusal: TokenRefusal, token: &[u8]) -> (Result<OpenedToken, TokenRefusal>, TokenOrigin) {
        let mut formers = self.former.iter();
        let opened = formers.find_map(|former| Some((self.open(&former.realm, token).ok()?, former.at)));
        match opened {
            Some((opened, at)) => (Ok(opened), TokenOrigin::Former(at, FormerCookieName::Plain)),
            None => (Err(refusal), TokenOrigin::BeforeRedirect),
        }
    }

    pub(crate) fn former(&self, at: usize) -> Option<&FormerCarrier> {
        self.former.iter().find(|former| former.at == at)
    }

    fn check(&self, opened: OpenedToken, found: TokenOrigin, now: Timestamp) -> Result<AcceptedToken, TokenRefusal> {
        let OpenedToken {
            claims,
            nonce,
            key,
            key_retiring,
        } = opened;
        if self.is_expired(&claims, now) {
            return Err(TokenRefusal::Expired);
        }
        let idle = now.since(claims.last_seen);
        let (too_idle, lagging) = match self.policy.idle_bound {
            None => (false, false),
            Some(IdleBound { bound, lag }) => (idle > bound + lag && idle > bound + self.former_lag(now), idle > lag),
        };
        if too_idle {
            return Err(TokenRefusal::Idle);
        }
        let horizon = now.after(self.limits.clock_skew);
        if claims.issued_at > horizon || claims.last_seen > horizon {
            return Err(TokenRefusal::FromTheFuture);
        }
        if self.is_fenced(&claims) {
            return Err(TokenRefusal::Fenced);
        }
        Ok(AcceptedToken {
            claims,
            nonce,
            key,
            renew: lagging || key_retiring || claims.is_moving(),
            origin: found,
        })
    }

    /// The lag of tokens from before the idle timeout became shorter.
    fn former_lag(&self, now: Timestamp) -> Duration {
        let all = self.policy.former_lags.iter();
        let lags = all.filter(|former| now <= former.until && former.is_of(self.namespace.as_deref()));
        lags.map(|former| former.lag).max().unwrap_or_default()
    }

    fn is_expired(&self, claims: &Claims, now: Timestamp) -> bool {
        let timeout = self.policy.absolute_timeout;
        timeout.is_some_and(|timeout| now.since(claims.issued_at) >= timeout)
    }

    fn is_fenced(&self, claims: &Claims) -> bool {
        self.fences(claims.host, claims.issued_at)
    }

    /// Applies [`Fences::refuse`] to the scope's namespace.
    pub(crate) fn fences(&self, host: SocketAddr, issued_at: Timestamp) -> bool {
        let namespace = self.namespace.as_deref();
        self.limits.fences.refuse(namespace, host, issued_at)
    }

    /// The session as it is counted; `None` if sessions are not.
    pub(crate) fn observed(&self, claims: &Claims, session: SessionIdentity, at: Timestamp) -> Option<ObservedSession> {
        self.limits.counts.then(|| ObservedSession {
            backend: self.backend(claims),
            session,
            began: claims.issued_at,
            at,
        })
    }

    /// Whether a session may restart on another backend. A moving one has not arrived yet.
    pub(crate) fn is_long_unused(&self, claims: &Claims, now: Timestamp) -> bool {
        let Some(RebalanceRule { unseen }) = self.policy.rebalance else {
            return false;
        };
        self.limits.counts && now.since(claims.last_seen) >= unseen + self.former_lag(now) && !claims.is_moving()
    }

    pub(crate) fn backend(&self, claims: &Claims) -> Backend {
        let live_for = match (self.source(), self.policy.idle_bound, self.policy.absolute_timeout) {
            (Some((source, _)), _, _) => source.rules.timeout,
            (None, Some(IdleBound { bound, .. }), _) | (None, None, Some(bound)) => bound,
            // Every token has a bound.
            (None, None, None) => Duration::ZERO,
        };
        Backend::new(claims.destination, claims.host, live_for)
    }

    /// The table of clients and the scope; `None` with tokens.
    pub(crate) fn source(&self) -> Option<(&Source, ScopeId)> {
        self.policy.carrier.source().zip(self.scope)
    }

    /// The token's cookie, if it is a former one.
    pub(crate) fn former_cookie(&self, found: TokenOrigin) -> Option<&str> {
        match found {
            TokenOrigin::UnderFormerName => Some(self.cookie_names.as_ref()?.former()),
            TokenOrigin::Former(at, name) => {
                let is_cookie = self.policy.also.get(at)?.place == CarrierKind::Cookie;
                let names = &self.former(at).filter(|_| is_cookie)?.names;
                Some(match name {
                    FormerCookieName::Plain => names.current(),
                    FormerCookieName::OfScope => names.former(),
                })
            }
            TokenOrigin::Own | TokenOrigin::Further | TokenOrigin::BeforeRedirect => None,
        }
    }

    /// Why an entry's session is over. This process set its time, so it is in the future only after a clock was set
    /// back.
    pub(crate) fn refuses_entry(&self, claims: &Claims, timeout: Duration, now: Timestamp) -> Option<TokenRefusal> {
        if self.is_expired(claims, now) {
            return Some(TokenRefusal::Expired);
        }
        if now.since(claims.last_seen) >= timeout {
            return Some(TokenRefusal::Idle);
        }
        self.is_fenced(claims).then_some(TokenRefusal::Fenced)
    }
}

/// The middle of `<kind>/<namespace>/…`.
fn namespace(scope: &[u8]) -> Option<&str> {
    let mut parts = std::str::from_utf8(scope).ok()?.splitn(3, '/');
    let namespace = parts.nth(1)?;
    parts.next().map(|_| namespace)
}
